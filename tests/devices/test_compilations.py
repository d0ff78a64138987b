import json
import subprocess
import sys

PROGRAM = """
import json, sys
from pathlib import Path
from myxtts.devices.loading import load_tensorflow
log = load_tensorflow(Path(sys.argv[1]))
import tensorflow as tf
doubled = tf.function(lambda values: values * 2 + 1, jit_compile=True)
counts = []
for size in (1, 2, 3, 3):
    doubled(tf.zeros([size]))
    counts.append(log.count())
print("words of the program", file=sys.stderr)
log.stop()
print("words after the log", file=sys.stderr)
print(json.dumps(counts))
"""


def test_compilations_are_counted_and_kept_for_the_next_launch(user_environment, tmp_path):
    for _ in range(2):
        result = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / "cache")],
            capture_output=True,
            text=True,
            check=True,
            env=user_environment,
        )
        assert json.loads(result.stdout) == [1, 2, 3, 3]
        assert result.stderr.splitlines() == ["words of the program", "words after the log"]
        assert len(list((tmp_path / "cache").iterdir())) == 3
