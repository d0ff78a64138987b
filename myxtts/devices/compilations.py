"""Counts XLA compilations by parsing TensorFlow's log.

TensorFlow has no API for the number of XLA compilations, but with the right settings, made before
it is imported, it writes a line to standard error for each one. A small separate process reads
these lines and forwards everything else that matters, so that the output of a crash is shown too.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
from pathlib import Path

_log = logging.getLogger(__name__)

_SETTINGS = {
    # The log level of the line, and the module that writes it.
    "TF_CPP_MIN_LOG_LEVEL": "0",
    "TF_CPP_VMODULE": "device_compilation_profiler=1",
}
_MARK = b"<myxtts asks for the count of compilations>"

# Uses the standard library only, so it starts in milliseconds. It hides TensorFlow's info and
# warning lines (I or W and a date) and harmless errors: about entries of the persistent cache,
# which are first parsed as text; about strings, which oneDNN does not support; and about cached
# programs compiled with a preference for some instructions (on every CPU with AVX-512), which are
# mistaken for missing CPU features. Features that are really missing are shown. The mark may follow
# text without a line break. A closed terminal must not stop the count.
_READER = """
import contextlib, re, sys
count = 0
noise = re.compile(
    rb"[IW]\\d{4} |\\d{4}-\\d\\d-\\d\\d [^ ]+ [IW] |"
    rb".*text-format tensorflow.XlaSerializedCacheEntry|.*oneDNN supports DT_STRING|"
    rb".*Loading XLA:CPU AOT result. Target machine feature \\+prefer-no-(?:gather|scatter) "
)
for line in sys.stdin.buffer:
    if b"device_compilation_profiler" in line and b" Compiled " in line:
        count += 1
        continue
    before, mark, _ = line.partition(MARK)
    if before and not noise.match(before):
        with contextlib.suppress(OSError):
            sys.stderr.buffer.write(before)
            sys.stderr.buffer.flush()
    if mark:
        sys.stdout.buffer.write(b"%d\\n" % count)
        sys.stdout.buffer.flush()
""".replace("MARK", repr(_MARK))


class CompilationLog:
    """Filters the standard error of the process until it is stopped."""

    def __init__(self) -> None:
        """Create it before TensorFlow is imported."""
        os.environ.update(_SETTINGS)
        sys.stderr.flush()
        self._screen = os.dup(2)
        self._reader = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _READER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._screen,
            # Ctrl-C is for the program, not for the reader.
            start_new_session=True,
        )
        assert self._reader.stdin is not None
        os.dup2(self._reader.stdin.fileno(), 2)
        self._reader.stdin.close()

    def count(self) -> int | None:
        """Number of compilations logged before this call.

        Programs loaded from XLA's persistent cache count too. None if the reader has died.
        """
        assert self._reader.stdout is not None
        # An empty answer is not a number.
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
            os.write(2, _MARK + b"\n")
            return int(self._reader.stdout.readline())
        return None

    def stop(self) -> None:
        sys.stderr.flush()
        os.dup2(self._screen, 2)
        os.close(self._screen)
        self._reader.wait()
        assert self._reader.stdout is not None
        self._reader.stdout.close()


def use_persistent_cache(folder: Path) -> None:
    """Makes XLA cache compiled programs across launches; call before importing TensorFlow.

    Keeps flags set by the user.
    """
    given = os.environ.get("TF_XLA_FLAGS", "")
    if "persistent_cache_directory" in given:
        return
    try:
        # TensorFlow splits flags at spaces.
        if any(map(str.isspace, str(folder))):
            raise OSError("its name contains a space")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _log.warning(
            "%s: cannot cache compiled programs there (%s); choose another folder with "
            "training.xla_cache_dir",
            folder,
            error.strerror or error,
        )
        return
    flag = f"--tf_xla_persistent_cache_directory={folder}"
    os.environ["TF_XLA_FLAGS"] = f"{given} {flag}".strip()
