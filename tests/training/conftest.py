"""Workers of a cluster on the loopback."""

import json
import shlex
import socket
import subprocess
import sys

import pytest


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for opened in sockets:
        opened.bind(("127.0.0.1", 0))
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


@pytest.fixture
def start_machines(miniature, user_environment, tmp_path):
    """Start `myxtts train` as so many workers of one cluster; they end with the test."""
    config_file = tmp_path / "config.yaml"
    config_file.write_text(json.dumps(miniature().as_dict()))
    started = []

    def start(count, *arguments):
        addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
        processes = []
        for index in range(count):
            task = {
                "cluster": {"worker": addresses},
                "task": {"type": "worker", "index": index},
            }
            environment = {"TF_CONFIG": json.dumps(task)} if count > 1 else {}
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "myxtts.cli.main", "train", *map(str, arguments)],
                    env=user_environment | environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        started.extend(processes)
        return processes

    yield lambda count, *arguments: start(count, f"--config={config_file}", *arguments)
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def start_workers(user_environment):
    """Run `myxtts` as two workers of one cluster in a folder; return what they wrote."""

    def run(folder, command):
        addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "myxtts", *shlex.split(command)],
                cwd=folder,
                env=user_environment
                | {
                    "TF_CONFIG": json.dumps(
                        {
                            "cluster": {"worker": addresses},
                            "task": {"type": "worker", "index": index},
                        }
                    )
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for index in range(2)
        ]
        outputs = [process.communicate(timeout=600)[0] for process in processes]
        for process, output in zip(processes, outputs, strict=True):
            assert process.returncode == 0, output[-3_000:]
        return "".join(outputs)

    return run
