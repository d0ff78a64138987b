"""Counts XLA's compilations by the lines that TensorFlow logs about them.

TensorFlow has no call that tells how often XLA compiled; with the right settings, made before it
is imported, it writes a line to the process's standard error each time. A small process of its
own reads these lines and passes on everything else that matters, so that the last words of a
crashing program are shown too.
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
    # The level that lets the line through, and the module that writes it.
    "TF_CPP_MIN_LOG_LEVEL": "0",
    "TF_CPP_VMODULE": "device_compilation_profiler=1",
}
_MARK = b"<myxtts asks for the count of compilations>"

# With the standard library alone it starts in milliseconds. What TensorFlow marks as information
# or warning (I or W and a date) is kept from the screen, and so are its complaints about entries of
# the persistent cache, which it tries to read as text before it reads them as what they are, about
# strings, which oneDNN leaves to others, and about kept programs whose compiler was told to prefer
# one instruction to another (so on every CPU with AVX-512), which it takes for instructions that
# the CPU lacks. Those that it lacks indeed are shown. The mark may stand behind words without an
# end of line. A screen that is gone is no reason to stop counting.
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
    """Stands between the process and its standard error until it is stopped."""

    def __init__(self) -> None:
        """To be made before TensorFlow is imported."""
        os.environ.update(_SETTINGS)
        sys.stderr.flush()
        self._screen = os.dup(2)
        self._reader = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _READER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._screen,
            # An interrupt at the terminal is for the program, not for its reader.
            start_new_session=True,
        )
        assert self._reader.stdin is not None
        os.dup2(self._reader.stdin.fileno(), 2)
        self._reader.stdin.close()

    def count(self) -> int | None:
        """Compilations so far, everything that was logged before this call included.

        Programs that are loaded from XLA's persistent cache count as well. None if the reader is
        gone.
        """
        assert self._reader.stdout is not None
        # An empty answer is no number.
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
    """Lets XLA keep compiled programs for the next launch; before TensorFlow is imported.

    The flag is TensorFlow's own; flags that the user set stay.
    """
    given = os.environ.get("TF_XLA_FLAGS", "")
    if "persistent_cache_directory" in given:
        return
    try:
        # TensorFlow reads its flags up to the next blank.
        if any(map(str.isspace, str(folder))):
            raise OSError("its name has a blank in it")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _log.warning(
            "%s: compiled programs cannot be kept there (%s); name another folder with "
            "training.xla_cache_dir",
            folder,
            error.strerror or error,
        )
        return
    flag = f"--tf_xla_persistent_cache_directory={folder}"
    os.environ["TF_XLA_FLAGS"] = f"{given} {flag}".strip()
