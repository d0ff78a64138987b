"""How `myxtts doctor --prove` judges its child runs, and the page that it writes."""

import contextlib
import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from myxtts.evaluation import proof
from myxtts.evaluation.proof import LIMITS_MB, Bench, ChildFailedError, Run, probe_isolation, prove
from myxtts.evaluation.proof_page import proof_page
from myxtts.training.report import RunReport


@pytest.fixture
def report():
    given = {field.name: None for field in dataclasses.fields(RunReport)}
    return RunReport(**given | {"steps": 6, "seconds": {"data_wait": 1.0, "wall": 10.0}})


class Scripted(Bench):
    """Two GPUs whose runs are given by name; a dry run says what strategy it would use."""

    corpus = "corpus"

    def train(self, name, *flags, **options):
        return self.runs[name]

    @property
    def plain(self):
        return self.runs["plain"]


@pytest.fixture
def bench(tmp_path):
    return Scripted(tmp_path, devices=2, is_virtual=False, is_quick=True)


def run_of(report, loss=1.0, seconds=0.1, **changes):
    lines = [{"loss": loss, "step_seconds": seconds}] * 3
    return Run(dataclasses.replace(report, **changes), lines)


def results(claims):
    return {claim.subject: claim.result for claim in claims}


@pytest.mark.parametrize(
    ("after_warm_up", "slow", "first", "second", "expected"),
    [
        (0, 2.0, 30.0, 5.0, ["pass", "pass", "pass"]),
        (1, 0.1, 30.0, 30.0, ["fail", "fail", "fail"]),
    ],
)
def test_shapes_are_judged(report, bench, after_warm_up, slow, first, second, expected):
    cached = bench.folder / "myxtts" / "xla" / "cpu" / "program.pb"
    cached.parent.mkdir(parents=True)
    cached.touch()

    def compiled(seconds):
        return report.seconds | {"compile": seconds}

    bench.runs = {
        "plain": run_of(report, compilations_after_warmup=after_warm_up, seconds=0.1),
        "variable": run_of(report, seconds=slow, compilations_after_warmup=5),
        "again": run_of(report),
    }
    for name, seconds in (("plain", first), ("again", second)):
        run = bench.runs[name]
        changed = dataclasses.replace(run.report, seconds=compiled(seconds))
        bench.runs[name] = run._replace(report=changed)
    assert [claim.result for claim in proof._shapes(bench)] == expected
    assert set(bench.charts["Seconds of each step"]) == {"static shapes", "variable shapes"}


def test_precision_is_judged_by_loss_and_speed(report, bench):
    bench.runs = {
        "plain": run_of(report, loss=1.0, seconds=0.1),
        "bfloat16": run_of(report, loss=1.01, seconds=0.05),
        "float16": run_of(report, loss=1.5, seconds=0.2),
    }
    found = [claim.result for claim in proof._precision(bench)]
    assert found == ["pass", "pass", "fail", "fail"]
    bench.is_virtual = True
    found = [claim.result for claim in proof._precision(bench)]
    assert found == ["pass", "not possible here", "fail", "not possible here"]


def test_a_run_on_the_wrong_device_fails(report, bench):
    single = {"mode": "single-gpu-buffered", "model_devices": ["GPU:0"]}
    wrong = {"mode": "multi-gpu", "model_devices": ["GPU:0"]}
    gpus = {"gpu0_utilisation": 93.0, "gpu1_utilisation": 0.0}
    feeds = {"plain": single, "unbuffered": single, "data-gpu": wrong}
    bench.runs = {
        name: run_of(report, gpus=gpus, steady_utilisation=0.9, buffer_size_at_end=4, **its)
        for name, its in feeds.items()
    }
    found = results(proof._pipeline(bench))
    assert found["pipeline: buffered"] == "pass"
    assert found["pipeline: data GPU"] == "fail"
    assert found["utilization: buffered"] == "pass"
    assert found["buffer adaptation"] == "pass"


def test_a_section_without_its_devices_is_not_possible(bench, monkeypatch):
    section = proof.Section("two", "both", None, min_devices=3)
    virtual = proof.Section("real", "memory", None, only_gpus=True)
    bench.is_virtual = True
    monkeypatch.setattr(proof, "SECTIONS", (section, virtual))
    assert [it.result for it in prove(bench)] == ["not possible here"] * 2


def test_a_child_that_fails_is_one_failed_claim_each(bench, monkeypatch):
    def fail(bench):
        raise ChildFailedError("out of memory")
        yield

    section = proof.Section("speech", "fast", fail)
    monkeypatch.setattr(proof, "SECTIONS", (section, section))
    assert [(it.result, it.found) for it in prove(bench)] == [("fail", "out of memory")] * 2


def test_a_child_names_no_folder(tmp_path):
    bench = Bench(tmp_path, devices=1, is_virtual=True, is_quick=True)
    with pytest.raises(ChildFailedError) as failed:
        bench.child("-c", f"raise SystemExit('{tmp_path}/corpus: damaged')")
    assert str(failed.value) == ".../corpus: damaged"


class ExhaustedError(Exception):
    pass


@pytest.mark.parametrize("holds_limit", [True, False])
def test_the_limit_of_one_gpu_is_exceeded(holds_limit):
    limits, used_mb = {}, []

    def ones(shape):
        if holds_limit and sum(used_mb) + 64 > LIMITS_MB[0]:
            raise ExhaustedError
        used_mb.append(shape[0] * 4 >> 20)

    config = SimpleNamespace(
        experimental=SimpleNamespace(get_memory_info=lambda device: {"current": 0, "peak": 0})
    )
    tensors = SimpleNamespace(
        ones=ones,
        device=lambda name: contextlib.nullcontext(),
        errors=SimpleNamespace(ResourceExhaustedError=ExhaustedError),
        config=config,
    )
    call = SimpleNamespace(
        name="set",
        set_limit=lambda gpu, limit_mb: limits.update({gpu: limit_mb}),
        getter=limits.get,
        get_limits=lambda gpu: [limits[gpu]],
    )
    runtime = SimpleNamespace(
        has_started=lambda: False,
        list_gpus=lambda: ["a", "b"],
        find_limit_call=lambda: call,
        limit_mb=limits.get,
        get_growth=lambda gpu: None,
        memory_mb=lambda gpu: 8_192,
    )
    found = probe_isolation(runtime, tensors)
    assert found["limits_mb"] == list(LIMITS_MB)
    assert found["other_mb"] == 0
    assert found.get("stopped_mb") == (LIMITS_MB[0] if holds_limit else None)


def test_the_page_shows_claims_and_charts():
    claim = {"devices": "2 GPUs", "subject": "strategy", "expected": "a < b", "found": "b"}
    content = {
        "devices": "2 GPUs",
        "quick": True,
        "date": "2026-11-19",
        "minutes": 4.2,
        "machine": {"TensorFlow": "2.21"},
        "claims": [claim | {"result": result} for result in ("pass", "fail", "pass")],
        "charts": {
            "Seconds": {"static": [0.1, 0.1], "variable": [2.0, 3.0]},
            "Utilization": {"NVML": {"buffered": None}, "useful": {"buffered": 0.9}},
        },
    }
    page = proof_page(content)
    assert "1 fail, 2 pass" in page
    assert page.count("a &lt; b") == 3
    assert page.count("<svg") == page.count("</svg>") == 2
    assert "<script" not in page


def test_without_a_gpu_it_says_so(capsys):
    from myxtts.cli.main import main

    assert main(["doctor", "--prove"]) == 2
    assert "--virtual-devices 3" in capsys.readouterr().err


@pytest.mark.slow
def test_all_of_it_on_virtual_devices(user_environment, tmp_path):
    command = ["doctor", "--prove", "--quick", "--virtual-devices", "3"]
    done = subprocess.run(
        [sys.executable, "-m", "myxtts", *command],
        cwd=tmp_path,
        env=user_environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.strip().splitlines()[:-2]
    assert all("3 virtual devices" in line for line in lines)
    content = json.loads((tmp_path / "myxtts-proof" / "proof.json").read_text())
    assert len(content["claims"]) == len(lines)
    assert {claim["result"] for claim in content["claims"]} == {"pass", "not possible here"}
    page = (tmp_path / "myxtts-proof" / "proof.html").read_text()
    assert len(re.findall("<svg", page)) == len(content["charts"]) == 3
    for private in (str(tmp_path), f"{Path.home()}/", os.uname().nodename):
        assert private not in page
