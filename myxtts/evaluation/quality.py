"""Predicted mean opinion scores, from 1 (bad) to 5 (excellent)."""

from __future__ import annotations

import contextlib
import io
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

from myxtts.evaluation.measure import MEASURED_RATE_HZ, Measure, Metric, Score, Speech, Tool

DNSMOS = Metric(name="dnsmos", title="quality by DNSMOS", unit="1 to 5")
DISTILLMOS = Metric(name="distillmos", title="quality by DistillMOS", unit="1 to 5")


class Dnsmos(Measure):
    """Trained for noise suppression: rates noise and distortion, not whether it is speech."""

    tool = Tool(name="DNSMOS (speechmos)", licence="MIT", extra="eval")
    metrics = (DNSMOS,)

    def __init__(self) -> None:
        from speechmos import dnsmos

        self._dnsmos: Any = dnsmos

    def scores(self, speech: Speech) -> Mapping[str, Score]:
        opinion = self._dnsmos.run(speech.at_measured_rate, MEASURED_RATE_HZ)
        return {DNSMOS.name: Score(float(opinion["ovrl_mos"]))}


class Distillmos(Measure):
    """Trained on many kinds of degraded and synthetic speech."""

    tool = Tool(name="DistillMOS", licence="MIT", extra="eval-torch")
    metrics = (DISTILLMOS,)

    def __init__(self) -> None:
        with torchaudio_or_blank():
            import distillmos
        import torch

        self._torch: Any = torch
        # It prints the location of its weights.
        with contextlib.redirect_stdout(io.StringIO()):
            self._model: Any = distillmos.ConvTransformerSQAModel().eval()

    def scores(self, speech: Speech) -> Mapping[str, Score]:
        with self._torch.no_grad():
            opinion = self._model(self._torch.from_numpy(speech.at_measured_rate[None]))
        return {DISTILLMOS.name: Score(float(opinion.mean()))}


@contextlib.contextmanager
def torchaudio_or_blank() -> Iterator[None]:
    """For imports of packages that use torchaudio only to read and resample files.

    PyPI's torchaudio is built for CUDA and cannot be loaded with a CPU build of PyTorch. A blank
    module then takes its place during the import.
    """
    try:
        import torchaudio  # noqa: F401
    except (ImportError, OSError):
        sys.modules["torchaudio"] = types.ModuleType("torchaudio")
        try:
            yield
        finally:
            del sys.modules["torchaudio"]
    else:
        yield
