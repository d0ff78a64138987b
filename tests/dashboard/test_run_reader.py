import json
import os
import socket

import pytest

from myxtts.dashboard.run_reader import RunReader, names_of
from myxtts.dashboard.samples import read_media
from myxtts.errors import CheckpointError


def append(run, **line):
    with open(run / "metrics.jsonl", "a") as stream:
        stream.write(json.dumps(line) + "\n")


def shown(run):
    return RunReader(run, run.name).read()


def test_what_the_page_gets(make_run):
    content = shown(make_run())
    assert (content["state"], content["step"], content["planned_steps"]) == ("complete", 40, 40)
    assert content["hours"] == pytest.approx(40 * 0.6 / 3_600)
    assert content["curves"]["loss"]["steps"] == [10, 20, 30, 40]
    assert content["curves"]["loss"]["values"] == pytest.approx([0.2, 0.1, 0.0666667, 0.05])
    assert content["curves"]["wer"] == {"steps": [20], "hours": [0.00333], "values": [0.25]}
    assert content["curves"]["buffer_batches"]["values"] == [5, 5, 5, 5]
    assert content["account"]["shares"]["compute"] == [0.9] * 4
    assert content["seconds"]["start_up"] == 7.0
    assert content["samples"]["recording"] == "recording.wav"
    assert [sample["step"] for sample in content["samples"]["steps"]] == [20, 40]
    assert content["advice"] == ["Most time not spent training: start-up (17.5%)."]
    assert content["problems"] == []


def test_lines_that_a_run_appends_are_read(make_run):
    run = make_run()
    reader = RunReader(run, "mine")
    before = reader.read()
    assert reader.read() is before
    append(run, step=50, loss=0.04)
    assert reader.read()["curves"]["loss"]["steps"] == [10, 20, 30, 40, 50]


def test_a_resumed_run_repeats_steps(make_run):
    run = make_run()
    reader = RunReader(run, "mine")
    reader.read()
    kept = (run / "metrics.jsonl").read_text().splitlines(keepends=True)[:2]
    (run / "new").write_text("".join(kept))
    (run / "new").replace(run / "metrics.jsonl")
    append(run, step=30, loss=9.0)
    assert reader.read()["curves"]["loss"]["values"] == pytest.approx([0.2, 0.1, 9.0])


def test_the_lock_tells_whether_a_run_goes_on(make_run):
    run = make_run(report={"state": "running", "steps": 20})
    assert shown(run)["state"] == "stopped"
    owner = {"pid": os.getppid(), "host": socket.gethostname()}
    (run / ".lock").write_text(json.dumps(owner))
    assert shown(run)["state"] == "running"


def test_a_run_that_has_just_begun(make_run):
    run = make_run(report=None)
    (run / "metrics.jsonl").unlink()
    reader = RunReader(run, "mine")
    reader.require_run()
    assert (reader.read()["step"], reader.read()["curves"]) == (0, {})
    assert reader.read()["planned_steps"] == 40


def test_folders_that_are_no_runs(tmp_path):
    with pytest.raises(CheckpointError, match="no such folder"):
        RunReader(tmp_path / "none", "none").require_run()
    with pytest.raises(CheckpointError, match="expected the folder of a run"):
        RunReader(tmp_path, "empty").require_run()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("report.json", '{"advice": 5}'),
        ("report.json", '{"steps": 1e999}'),
        ("report.json", "[" * 100_000),
        ("metrics.jsonl", '{"step": "x"}\n'),
        ("measures.jsonl", "nonsense\n"),
        ("evaluation/evaluation.json", '{"step": null}'),
    ],
)
def test_a_bad_file_is_named_and_the_rest_is_shown(make_run, file, content):
    run = make_run()
    (run / "evaluation").mkdir()
    (run / file).write_text(content)
    found = shown(run)
    assert len(found["problems"]) == 1
    assert file in found["problems"][0]
    assert found["samples"]["recording"]


@pytest.mark.parametrize("name", ["metrics.jsonl", "report.json", "measures.jsonl", "evaluation"])
def test_links_are_not_followed(make_run, tmp_path, name):
    run, secret = make_run(), make_run("secret")
    (secret / "evaluation").mkdir()
    if (run / name).exists():
        (run / name).unlink()
    (run / name).symlink_to(secret / name)
    assert any("link" in problem for problem in shown(run)["problems"])


def test_samples_behind_links_or_of_other_kinds_are_not_read(make_run, tmp_path):
    run = make_run()
    reader = RunReader(run, "mine")
    assert read_media(reader.run, "step_00000020.wav").kind == "audio/wav"
    for name in ("../report.json", "step_00000020.wav/..", "step_20.wav", "a.wav", ""):
        assert read_media(reader.run, name) is None
    sample = run / "samples" / "step_00000020.wav"
    sample.write_text("<script>")
    assert read_media(reader.run, sample.name) is None
    sample.unlink()
    (tmp_path / "private.wav").write_bytes((run / "samples" / "recording.wav").read_bytes())
    sample.symlink_to(tmp_path / "private.wav")
    assert read_media(reader.run, sample.name) is None
    (run / "samples").rename(tmp_path / "elsewhere")
    (run / "samples").symlink_to(tmp_path / "elsewhere")
    assert read_media(reader.run, "recording.wav") is None
    assert shown(run)["samples"] == {"steps": [], "recording": None}


def test_absurd_numbers_do_not_stop_the_page(make_run):
    run = make_run()
    append(run, step=(1 << 63) - 1, loss=1.7e308, step_seconds=1e308, data_wait_seconds=-1e308)
    json.dumps(shown(run), allow_nan=False)


def test_a_long_run_is_thinned_but_keeps_its_spikes(make_run):
    run = make_run()
    with open(run / "metrics.jsonl", "w") as stream:
        for step in range(1, 20_001):
            stream.write(json.dumps({"step": step, "loss": 77.0 if step == 777 else 1.0}) + "\n")
    curve = shown(run)["curves"]["loss"]
    assert len(curve["steps"]) < 2_000
    assert curve["values"][curve["steps"].index(777)] == 77.0
    assert (curve["steps"][0], curve["steps"][-1]) == (1, 20_000)


def test_names_of_runs(tmp_path):
    one, two = tmp_path / "a" / "run", tmp_path / "b" / "run"
    assert names_of([one, tmp_path / "other"]) == ["run", "other"]
    assert names_of([one, two]) == [str(one), str(two)]
