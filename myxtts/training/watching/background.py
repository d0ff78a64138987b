"""Evaluates checkpoints during a run, in one low-priority background process.

The process sees no GPU, uses one thread and ends with its parent. There is never more than one; a
checkpoint that arrives meanwhile waits, and is replaced by a newer one. `myxtts.evaluation` does
the work; here it is a program with arguments and files.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from myxtts.config.config import XTTSConfig
from myxtts.config.loading import save_config
from myxtts.errors import ConfigError
from myxtts.files import read_json
from myxtts.runs.run_dir import RunDir, take_snapshot

_log = logging.getLogger(__name__)

_PROGRAM = (sys.executable, "-m", "myxtts.evaluation.evaluate")
_RESULT, _COMPLAINTS = "measured.json", "complaints.txt"
_LOWEST, _ORDINARY = "lowest", "ordinary"
_ONE_THREAD = {
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "-1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}


@contextlib.contextmanager
def open_measurer(
    run_dir: RunDir, config: XTTSConfig, languages: Sequence[str]
) -> Iterator[BackgroundEvaluation | None]:
    """Background evaluation for a run, or None unless its configuration asks for it."""
    if config.evaluation.measure_every is None:
        yield None
        return
    with contextlib.closing(BackgroundEvaluation(run_dir, config, languages)) as measurer:
        yield measurer


@dataclass(frozen=True)
class Measured:
    step: int
    values: dict[str, float]
    """The model's means, by metric."""
    snapshot: Path
    """The evaluated checkpoint as a run folder; it exists until the next `poll` or `close`."""


class BackgroundEvaluation:
    """Takes checkpoints of one run and returns their scores some time later."""

    def __init__(
        self,
        run_dir: RunDir,
        config: XTTSConfig,
        languages: Sequence[str],
        *,
        only: Sequence[str] = (),
        gives_way: bool = True,
    ) -> None:
        """Chooses the sentences; `only` names the metrics, by default all that are installed.

        With `gives_way` the process has the lowest priority and may get no CPU time on a busy
        machine. Turn it off to wait for the results.
        """
        self._folder = run_dir.measuring
        self._only = tuple(only)
        self._priority = _LOWEST if gives_way else _ORDINARY
        self._process: subprocess.Popen[bytes] | None = None
        self._measuring: Path | None = None
        self._waiting: Path | None = None
        self._reported: list[Path] = []
        shutil.rmtree(self._folder, ignore_errors=True)  # left by a run that was killed
        self._folder.mkdir(parents=True)
        self._sentences = self._folder / "sentences.json"
        self._choose_sentences(config, languages)

    def _choose_sentences(self, config: XTTSConfig, languages: Sequence[str]) -> None:
        """Fails before the run starts if nothing can be evaluated."""
        config_file = self._folder / "config.yaml"
        save_config(config, config_file)
        result = subprocess.run(
            [*_PROGRAM, "choose", str(config_file), str(self._sentences), *languages],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=os.environ | _ONE_THREAD,
            check=False,
        )
        if result.returncode != 0:
            self.close()
            raise ConfigError(_last_line(result.stderr))

    def start(self, step: int, checkpoint: Path) -> None:
        """Evaluates the checkpoint now, or when the current one is done."""
        snapshot = take_snapshot(checkpoint, self._folder / f"{step:08d}")
        if self._waiting is not None:
            shutil.rmtree(self._waiting, ignore_errors=True)
        self._waiting = snapshot
        self._start_waiting()

    def poll(self) -> list[Measured]:
        """Results since the last call; does not wait."""
        for folder in self._reported:
            shutil.rmtree(folder, ignore_errors=True)
        self._reported = []
        if self._process is None or self._process.poll() is None:
            return []
        measured = self._collect()
        self._start_waiting()
        return [measured] if measured else []

    @property
    def is_busy(self) -> bool:
        return self._process is not None or self._waiting is not None

    def wait(self, timeout_seconds: float | None = None) -> list[Measured]:
        """For the end of a run: waits for the current and the queued checkpoint."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        found: list[Measured] = []
        while self._process is not None:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                self._process.wait(left)
            except subprocess.TimeoutExpired:
                break
            measured = self._collect()
            found += [measured] if measured else []
            self._start_waiting()
        return found

    def close(self) -> None:
        """Kills the process and deletes its files."""
        self._waiting = None
        if self._process is not None:
            self._process.kill()
            self._let_go()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start_waiting(self) -> None:
        if self._process is not None or self._waiting is None:
            return
        self._measuring, self._waiting = self._waiting, None
        paths = self._measuring, self._sentences, self._measuring / _RESULT
        with open(self._measuring / _COMPLAINTS, "wb") as complaints:
            # The child reads from the pipe until its parent is gone.
            self._process = subprocess.Popen(
                [*_PROGRAM, "measure", *map(str, paths), self._priority, *self._only],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                env=os.environ | _ONE_THREAD,
                # The parent handles Ctrl-C. A separate session would do that too, but Linux gives
                # every session an equal share of the cores, whatever its priority.
                process_group=0,
            )

    def _collect(self) -> Measured | None:
        assert self._measuring is not None
        folder, step = self._measuring, int(self._measuring.name)
        code = self._let_go()
        self._reported.append(folder)
        if code != 0:
            reason = _last_line((folder / _COMPLAINTS).read_bytes())
            _log.warning("step %d could not be evaluated: exit code %d, %s", step, code, reason)
            return None
        try:
            values = read_json(folder / _RESULT)
        except ValueError as error:
            _log.warning("step %d could not be evaluated: %s", step, error)
            return None
        return Measured(step, values, folder)

    def _let_go(self) -> int:
        """Cleans up after a process that has ended; returns its exit code."""
        assert self._process is not None
        process, self._process, self._measuring = self._process, None, None
        assert process.stdin is not None
        process.stdin.close()
        return process.wait()


def _last_line(complaints: bytes) -> str:
    lines = complaints.decode(errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "no reason given")
