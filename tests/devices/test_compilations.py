import json
import os
import subprocess
import sys

from myxtts.devices.compilations import use_persistent_cache

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


LOG_ALONE = """
import os, signal, sys, time
from myxtts.devices.compilations import CompilationLog
log = CompilationLog()
"""


def run_alone(lines, environment, **options):
    program = [sys.executable, "-c", LOG_ALONE + lines]
    return subprocess.run(program, text=True, env=environment, timeout=60, check=False, **options)


def test_an_interrupt_is_for_the_program_alone(user_environment):
    result = run_alone(
        """
try:
    os.killpg(os.getpgid(0), signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    time.sleep(0.5)
    print("interrupted", file=sys.stderr)
    print(log.count())
""",
        user_environment,
        capture_output=True,
        start_new_session=True,
    )
    assert (result.stdout, result.stderr) == ("0\n", "interrupted\n")


def test_words_without_an_end_of_line_do_not_stop_the_count(user_environment):
    result = run_alone(
        """
sys.stderr.write("half a line")
print(log.count())
""",
        user_environment,
        capture_output=True,
    )
    assert (result.stdout, result.stderr) == ("0\n", "half a line")


def test_a_kept_programs_preferences_are_no_threat(user_environment):
    # As on every CPU with AVX-512; with instructions that the CPU lacks the threat is a real one.
    result = run_alone(
        """
threat = (
    "E0000 00:00:1794864033.216261    9249 cpu_aot_loader.cc:220] Loading XLA:CPU AOT result. "
    "Target machine feature {} is not  supported on the host machine. Compile machine features: "
    "[+avx512f,+prefer-no-scatter,+prefer-no-gather]. This could lead to SIGILL."
)
for feature in ("+prefer-no-scatter", "+avx512f", "+prefer-no-gather"):
    print(threat.format(feature), file=sys.stderr)
log.stop()
""",
        user_environment,
        capture_output=True,
    )
    (shown,) = result.stderr.splitlines()
    assert "Target machine feature +avx512f is not" in shown


def test_a_screen_that_is_gone_does_not_stop_the_count(user_environment):
    result = run_alone(
        """
sys.stderr.write("nobody reads this\\n")
print(log.count(), log.count())
""",
        user_environment,
        stdout=subprocess.PIPE,
        stderr=closed_pipe(),
    )
    assert result.stdout == "0 0\n"


def test_without_its_reader_the_log_has_no_count(user_environment):
    result = run_alone(
        """
log._reader.kill()
log._reader.wait()
answer = log.count()
os.dup2(log._screen, 2)
print(answer)
""",
        user_environment,
        capture_output=True,
    )
    assert result.stdout == "None\n"


def closed_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def test_a_cache_that_cannot_be_made_is_no_reason_to_stop(caplog, monkeypatch, tmp_path):
    monkeypatch.setenv("TF_XLA_FLAGS", "--some_flag")
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file" / "below", tmp_path / "with a blank"):
        use_persistent_cache(folder)
        assert "cannot cache compiled programs there" in caplog.messages[-1]
        assert os.environ["TF_XLA_FLAGS"] == "--some_flag"
    use_persistent_cache(tmp_path / "cache")
    assert os.environ["TF_XLA_FLAGS"] == (
        f"--some_flag --tf_xla_persistent_cache_directory={tmp_path / 'cache'}"
    )
