import json

import pytest

from myxtts.serving.admission import Admission
from myxtts.serving.answers import RefusedError
from myxtts.serving.limits import Limits
from myxtts.serving.metrics import Counter, Histogram, Metrics


def test_counters_are_kept_by_labels():
    counter = Counter("requests_total", "Requests.")
    counter.add(route="/a", status="200")
    counter.add(2, status="200", route="/a")
    counter.add(route='"\\\n', status="404")
    assert list(counter.lines()) == [
        "# HELP requests_total Requests.",
        "# TYPE requests_total counter",
        r'requests_total{route="\"\\\n",status="404"} 1',
        'requests_total{route="/a",status="200"} 3',
    ]


def test_a_histogram_counts_what_is_at_most_each_bound():
    histogram = Histogram("seconds", "Seconds.", (1, 2))
    for value in (0.5, 1, 1.5, 9):
        histogram.observe(value)
    assert list(histogram.lines())[2:] == [
        'seconds_bucket{le="1"} 2',
        'seconds_bucket{le="2"} 3',
        'seconds_bucket{le="+Inf"} 4',
        "seconds_sum 12",
        "seconds_count 4",
    ]


def test_all_metrics_are_shown_from_the_start():
    text = Metrics(lambda: 3).text()
    assert "myxtts_requests_in_progress 3\n" in text
    assert "myxtts_hang_ups_total 0\n" in text


def test_requests_beyond_the_limit_are_told_when_to_come_back():
    admission = Admission(2)
    with admission.slot(), admission.slot():
        with pytest.raises(RefusedError) as refused, admission.slot():
            pass
        assert refused.value.status == 429
        assert int(refused.value.headers["Retry-After"]) >= 1
        assert admission.in_progress == 2
    with admission.slot():
        assert admission.in_progress == 1


def test_a_body_may_hold_the_longest_text_however_it_is_written():
    limits = Limits(text_characters=10_000)
    longest = json.dumps({"input": "\U0001f600" * limits.text_characters, "voice": "anna"})
    assert len(longest) <= limits.body_bytes < 20 * limits.text_characters
