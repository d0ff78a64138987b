"""The recipes for clusters, up to the command that they run."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from myxtts.devices.placement import Cluster, find_cluster

RECIPES = Path(__file__).parents[2] / "examples" / "cluster"


@pytest.fixture
def run_with_stub(tmp_path):
    """Run bash where a program prints its arguments and TF_CONFIG."""

    def run(program, *arguments, **environment):
        stub = tmp_path / program
        stub.write_text('#!/bin/sh\necho "$@"\necho "$TF_CONFIG"\n')
        stub.chmod(0o755)
        given = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TF_CONFIG": ""}
        done = subprocess.run(
            ["bash", *arguments],
            env=given | environment,
            capture_output=True,
            text=True,
            check=True,
        )
        command, _, tf_config = done.stdout.partition("\n")
        return command.split(), tf_config

    return run


def test_slurm_resumes_what_there_is(run_with_stub):
    command, _ = run_with_stub("srun", str(RECIPES / "slurm.sh"), "corpus", "run", "--seed", "1")
    assert command[:4] == ["myxtts", "train", "corpus", "--run-dir"]
    assert command[4:7] == ["run", "--resume", "auto"]
    assert command[-2:] == ["--seed", "1"]


@pytest.mark.parametrize("index", [0, 1])
def test_every_pod_of_the_job_set_knows_its_place(run_with_stub, index):
    manifest = yaml.safe_load((RECIPES / "jobset.yaml").read_text())
    [job] = manifest["spec"]["replicatedJobs"]
    pods = job["template"]["spec"]
    [container] = pods["template"]["spec"]["containers"]
    [workers] = container["env"]
    assert int(workers["value"]) == pods["parallelism"] == pods["completions"]
    command, tf_config = run_with_stub(
        "myxtts",
        *container["command"][1:],
        WORKERS=workers["value"],
        JOB_COMPLETION_INDEX=str(index),
    )
    assert command == [
        "train",
        "/shared/corpus",
        "--run-dir",
        "/shared/runs/mine",
        "--resume",
        "auto",
    ]
    assert find_cluster({"TF_CONFIG": tf_config}) == Cluster("TF_CONFIG", 2, index)
    # JobSet names a pod after the set, the job and both indices.
    host = f"{manifest['metadata']['name']}-{job['name']}-0-{index}.{manifest['metadata']['name']}"
    assert f'"{host}:12345"' in tf_config
