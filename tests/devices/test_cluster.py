import json

import pytest

from myxtts.devices.placement import Cluster, find_cluster
from myxtts.errors import DeviceError

HOSTS = ["a:1", "b:1", "c:1"]


def tf_config(cluster, task_type, index):
    return {
        "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": task_type, "index": index}})
    }


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"TF_CONFIG": ""}, None),
        ({"TF_CONFIG": "{}"}, None),
        (tf_config({"worker": HOSTS[:1]}, "worker", 0), None),
        (tf_config({"worker": HOSTS}, "worker", 2), Cluster("TF_CONFIG", 3, 2)),
        (
            tf_config({"chief": HOSTS[:1], "worker": HOSTS[1:]}, "chief", 0),
            Cluster("TF_CONFIG", 3, 0),
        ),
        (
            tf_config({"chief": HOSTS[:1], "worker": HOSTS[1:]}, "worker", 1),
            Cluster("TF_CONFIG", 3, 2),
        ),
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "4"}, Cluster("Slurm", 4, 1)),
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, None),
        ({"SLURM_JOB_ID": "7"}, None),
    ],
)
def test_what_the_environment_says(environment, expected):
    assert find_cluster(environment) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "expected JSON such as"),
        ("[]", "expected JSON such as"),
        ('{"cluster": {"worker": ["a:1", "b:1"]}}', "expected JSON such as"),
        (
            '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 2}}',
            "found task index 2, allowed: 0 to 1",
        ),
        (
            '{"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, '
            '"task": {"type": "worker", "index": 0}}',
            "found the jobs ps, allowed: worker and chief",
        ),
    ],
)
def test_a_wrong_tf_config_is_named(text, message):
    with pytest.raises(DeviceError, match=message):
        find_cluster({"TF_CONFIG": text})


def test_slurm_names_the_machines(monkeypatch):
    for name, value in {
        "SLURM_PROCID": "2",
        "SLURM_STEP_NUM_TASKS": "3",
        "SLURM_STEP_NODELIST": "node[01-02]",
        "SLURM_STEP_TASKS_PER_NODE": "2,1",
    }.items():
        monkeypatch.setenv(name, value)
    resolver = find_cluster().resolver(gpus=0)
    hosts = resolver.cluster_spec().as_dict()["worker"]
    assert [host.partition(":")[0] for host in hosts] == ["node01", "node01", "node02"]
    assert len(set(hosts)) == 3
    assert (resolver.task_type, resolver.task_id) == ("worker", 2)
    assert resolver.num_accelerators() == {"GPU": 0}
