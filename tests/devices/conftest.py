"""Devices can be set once in a process: every snippet has a process of its own.

They are forks of one that has loaded TensorFlow and not started it, so it is loaded once for all.
"""

import json
import subprocess
import sys
import textwrap

import pytest

FORKING_PROGRAM = """
import json, os, sys, traceback
import keras, tensorflow

for line in sys.stdin:
    code, *files = json.loads(line)
    child = os.fork()
    if child == 0:
        for number, file in enumerate(files, start=1):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        try:
            exec(code, {"__name__": "__main__"})
            status = 0
        except BaseException:
            traceback.print_exc()
            status = 1
        sys.stdout.flush()
        os._exit(status)
    print(os.waitpid(child, 0)[1], flush=True)
"""


@pytest.fixture(scope="session")
def run_snippet(user_environment, tmp_path_factory):
    """Runs code on a machine without GPUs; returns the JSON of its last line, and its stderr."""
    folder = tmp_path_factory.mktemp("snippets")
    output, errors = folder / "stdout", folder / "stderr"
    quiet = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    with subprocess.Popen(
        [sys.executable, "-c", FORKING_PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=user_environment | quiet,
    ) as process:

        def run(*snippets):
            code = "\n".join(map(textwrap.dedent, snippets))
            print(json.dumps([code, str(output), str(errors)]), file=process.stdin, flush=True)
            status = int(process.stdout.readline())
            assert status == 0, errors.read_text()
            return json.loads(output.read_text().splitlines()[-1]), errors.read_text()

        yield run
