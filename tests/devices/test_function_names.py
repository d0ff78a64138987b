"""XLA finds its cached programs by names, in processes of their own."""

import subprocess
import sys

import tensorflow as tf

from myxtts.devices.function_names import start_names_at_round_number

PROGRAM = """
import sys
from pathlib import Path
from myxtts.devices.startup import load_tensorflow
load_tensorflow(Path(sys.argv[1]))
import tensorflow as tf
from myxtts.devices.function_names import start_names_at_round_number
for _ in range(int(sys.argv[2])):
    tf.zeros([1])
start_names_at_round_number()
grow = lambda values: tf.while_loop(lambda values: values[0] < 9.0, lambda it: it + 1.0, [values])
tf.function(grow, jit_compile=True)(tf.zeros([3]))
"""


def test_programs_are_found_again_whatever_was_made_before(user_environment, tmp_path):
    for tensors_before in (0, 2_345):
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / "cache"), str(tensors_before)],
            check=True,
            env=user_environment,
        )
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_names_start_at_the_same_number_after_fewer_and_more_tensors():
    def name() -> bytes:
        start_names_at_round_number()
        return tf.function(lambda: tf.constant(0)).get_concrete_function().name

    first, second = int(name().rpartition(b"_")[2]), int(name().rpartition(b"_")[2])
    assert (second - first) % 100_000 == 0
