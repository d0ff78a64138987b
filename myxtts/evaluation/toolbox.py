"""The measures that are installed, and why others are not available."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from myxtts.audio.pretrained import Moonshine, Whisper
from myxtts.config.names import did_you_mean
from myxtts.devices.checkup import install_command
from myxtts.errors import ConfigError
from myxtts.evaluation.against_recording import AgainstRecording
from myxtts.evaluation.levels import Levels
from myxtts.evaluation.measure import Measure, Metric
from myxtts.evaluation.quality import Distillmos, Dnsmos
from myxtts.evaluation.recogniser import WordErrors
from myxtts.evaluation.similarity import OwnVoiceEncoder, Resemblyzer

SPEECH_METRICS: tuple[Metric, ...] = (
    *WordErrors.metrics,
    *Resemblyzer.metrics,
    *OwnVoiceEncoder.metrics,
    *Dnsmos.metrics,
    *Distillmos.metrics,
    *AgainstRecording.metrics,
    *Levels.metrics,
)


@dataclass(frozen=True)
class LeftOut:
    """Metrics that are not in the table, and why."""

    titles: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        return f"Left out: {', '.join(self.titles)}: {self.reason}"


@dataclass(frozen=True)
class Toolbox:
    measures: tuple[Measure, ...]
    metrics: tuple[Metric, ...]
    """The requested metrics, in the order of the table."""
    left_out: tuple[LeftOut, ...]


def open_toolbox(
    *,
    own_voice: OwnVoiceEncoder | None = None,
    whisper: Path | None = None,
    only: Collection[str] = (),
) -> Toolbox:
    """Loads every installed measure; `only` limits them to these metrics."""
    require_metrics(only)
    makers: list[tuple[type[Measure], str | None, Callable[[], Measure]]] = [
        (WordErrors, *_recogniser(whisper)),
        (Resemblyzer, Resemblyzer.tool.extra, Resemblyzer),
        (Dnsmos, Dnsmos.tool.extra, Dnsmos),
        (Distillmos, Distillmos.tool.extra, Distillmos),
        (AgainstRecording, None, AgainstRecording),
        (Levels, None, Levels),
    ]
    if own_voice is not None:
        makers.insert(2, (OwnVoiceEncoder, None, lambda: own_voice))
    measures: list[Measure] = []
    missing: dict[str, list[Metric]] = {}
    for kind, extra, make in makers:
        if only and not any(metric.name in only for metric in kind.metrics):
            continue
        try:
            measures.append(make())
        except ModuleNotFoundError:
            missing.setdefault(install_command(str(extra)), []).extend(kind.metrics)
        except (ImportError, OSError) as error:
            # Installed but broken, such as a library built for another version.
            reason = " ".join(str(error).split())
            missing.setdefault(f"cannot be loaded ({reason})", []).extend(kind.metrics)
    left_out = [
        LeftOut(tuple(metric.title for metric in metrics), reason)
        for reason, metrics in missing.items()
    ]
    metrics = (metric for measure in measures for metric in measure.metrics)
    wanted = tuple(metric for metric in metrics if not only or metric.name in only)
    return Toolbox(tuple(measures), wanted, tuple(left_out))


def _recogniser(whisper: Path | None) -> tuple[str, Callable[[], Measure]]:
    if whisper is not None:
        return "eval-whisper", lambda: WordErrors(Whisper(whisper))
    return "eval", lambda: WordErrors(Moonshine())


def require_metrics(names: Collection[str]) -> None:
    """Raises an error for a name that no measure has."""
    known: Sequence[str] = [metric.name for metric in SPEECH_METRICS]
    for name in names:
        if name not in known:
            raise ConfigError(
                f"unknown metric '{name}', allowed: {', '.join(known)}{did_you_mean(name, known)}"
            )
