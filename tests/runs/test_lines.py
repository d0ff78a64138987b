import resource
import signal

import pytest

from myxtts.runs.run_dir import append_line, read_lines


def test_a_line_that_does_not_fit_leaves_nothing_of_itself(tmp_path):
    """A real failure in the middle of a write."""
    file = tmp_path / "metrics.jsonl"
    append_line(file, 1, {"loss": 1.0})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 10, limits[1]))
    try:
        with pytest.raises(OSError, match="No space left"):
            append_line(file, 2, {"loss": 2.0})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    append_line(file, 3, {"loss": 3.0})
    assert [line["step"] for line in read_lines(file)] == [1, 3]
