"""Features prepared on a Dask cluster of two processes."""

import os
import shutil
import signal
import socket

import pytest

from myxtts.cli.main import main
from myxtts.config.config import XTTSConfig
from myxtts.data import cache
from myxtts.data.corpus import prepare_subset, read_subset

distributed = pytest.importorskip("distributed")


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setattr(cache, "CLIPS_PER_CHUNK", 2)  # several tasks for each worker
    # Its own threads and sockets are closed by finalizers.
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=40
    ) as started:
        yield started


@pytest.fixture
def own_corpus(demo_corpus, tmp_path, monkeypatch):
    shutil.copytree(demo_corpus, tmp_path / "corpus", ignore=shutil.ignore_patterns("myxtts-cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "corpus"


def content(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.training
def test_a_cluster_that_loses_a_worker_gives_the_same_bytes(cluster, own_corpus):
    """Also with a relative path, though the workers have other working folders."""
    workers = [nanny.pid for nanny in cluster.workers.values()]

    def kill_one(done, total):
        if workers and done < total:
            os.kill(workers.pop(), signal.SIGKILL)
            workers.clear()

    config = XTTSConfig(train_data="corpus")
    dataset = read_subset(config, "train")
    there = prepare_subset(dataset, config, kill_one, cluster.scheduler_address)
    assert not workers
    assert len(there) == 18
    found = content(there.folder)
    shutil.rmtree(own_corpus / "myxtts-cache")
    here = prepare_subset(dataset, config, lambda done, total: None)
    assert content(here.folder) == found


@pytest.mark.usefixtures("own_corpus")
def test_without_workers(monkeypatch, capsys):
    monkeypatch.setattr("myxtts.data.workers._CONNECT_SECONDS", 1)
    with distributed.LocalCluster(n_workers=0, dashboard_address=None) as cluster:
        assert main(["prepare", "corpus", "--dask", cluster.scheduler_address]) == 2
    assert "has no workers" in capsys.readouterr().err


@pytest.mark.usefixtures("own_corpus")
def test_without_a_scheduler(monkeypatch, capsys):
    monkeypatch.setattr("myxtts.data.workers._CONNECT_SECONDS", 1)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
        assert main(["prepare", "corpus", "--dask", address]) == 2
    assert f"--dask: found no scheduler at {address}" in capsys.readouterr().err
