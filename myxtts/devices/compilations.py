"""Counts XLA's compilations by the lines that TensorFlow logs about them.

TensorFlow has no call that tells how often XLA compiled; with the right settings, made before it
is imported, it writes a line to the process's standard error each time. A small process of its
own reads these lines and passes on everything else that matters, so that the last words of a
crashing program are shown too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_SETTINGS = {
    # The level that lets the line through, and the module that writes it.
    "TF_CPP_MIN_LOG_LEVEL": "0",
    "TF_CPP_VMODULE": "device_compilation_profiler=1",
}
_MARK = "myxtts asks for the count: "

# With the standard library alone it starts in milliseconds. What TensorFlow marks as information
# or warning (I or W and a date) is kept from the screen, and so is its complaint about entries of
# the persistent cache, which it tries to read as text before it reads them as what they are.
_READER = """
import re, sys
count = 0
noise = re.compile(
    rb"[IW]\\d{4} |\\d{4}-\\d\\d-\\d\\d [^ ]+ [IW] |"
    rb".*text-format tensorflow.XlaSerializedCacheEntry"
)
for line in sys.stdin.buffer:
    if b"device_compilation_profiler" in line and b" Compiled " in line:
        count += 1
    elif line.startswith(MARK):
        sys.stdout.buffer.write(b"%d\\n" % count)
        sys.stdout.buffer.flush()
    elif not noise.match(line):
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()
""".replace("MARK", repr(_MARK.encode()))


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
        )
        assert self._reader.stdin is not None
        os.dup2(self._reader.stdin.fileno(), 2)
        self._reader.stdin.close()

    def count(self) -> int:
        """Compilations so far, everything that was logged before this call included.

        Programs that are loaded from XLA's persistent cache count as well.
        """
        assert self._reader.stdout is not None
        sys.stderr.flush()
        os.write(2, f"{_MARK}\n".encode())
        return int(self._reader.stdout.readline())

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
    if "persistent_cache_directory" not in given:
        folder.mkdir(parents=True, exist_ok=True)
        flag = f"--tf_xla_persistent_cache_directory={folder}"
        os.environ["TF_XLA_FLAGS"] = f"{given} {flag}".strip()
