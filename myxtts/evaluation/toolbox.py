"""All measures that can be used here, and for those that cannot the reason and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from myxtts.config.names import did_you_mean
from myxtts.errors import ConfigError
from myxtts.evaluation.against_recording import AgainstRecording
from myxtts.evaluation.levels import Levels
from myxtts.evaluation.measure import Figure, Measure
from myxtts.evaluation.quality import Distillmos, Dnsmos
from myxtts.evaluation.recogniser import Moonshine, Whisper, WordErrors
from myxtts.evaluation.similarity import OwnVoiceEncoder, Resemblyzer

FIGURES: tuple[Figure, ...] = (
    *WordErrors.figures,
    *Resemblyzer.figures,
    *OwnVoiceEncoder.figures,
    *Dnsmos.figures,
    *Distillmos.figures,
    *AgainstRecording.figures,
    *Levels.figures,
)


@dataclass(frozen=True)
class LeftOut:
    """Figures that are not in the table, and why."""

    titles: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        return f"Left out: {', '.join(self.titles)}: {self.reason}"


@dataclass(frozen=True)
class Toolbox:
    measures: tuple[Measure, ...]
    figures: tuple[Figure, ...]
    """Those that were asked for, in the order of the table."""
    left_out: tuple[LeftOut, ...]


def open_toolbox(
    *,
    own_voice: OwnVoiceEncoder | None = None,
    whisper: Path | None = None,
    only: Collection[str] = (),
) -> Toolbox:
    """Loads every measure that is installed; `only` names the figures that are wanted."""
    _require_known(only)
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
    missing: dict[str, list[Figure]] = {}
    for kind, extra, make in makers:
        if only and not any(figure.name in only for figure in kind.figures):
            continue
        try:
            measures.append(make())
        except ModuleNotFoundError:
            missing.setdefault(f"pip install 'myxtts[{extra}]'", []).extend(kind.figures)
        except (ImportError, OSError) as error:
            # Installed, and not able to run: a library of another build, say.
            reason = " ".join(str(error).split())
            missing.setdefault(f"cannot be loaded ({reason})", []).extend(kind.figures)
    left_out = [
        LeftOut(tuple(figure.title for figure in figures), reason)
        for reason, figures in missing.items()
    ]
    figures = (figure for measure in measures for figure in measure.figures)
    wanted = tuple(figure for figure in figures if not only or figure.name in only)
    return Toolbox(tuple(measures), wanted, tuple(left_out))


def _recogniser(whisper: Path | None) -> tuple[str, Callable[[], Measure]]:
    if whisper is not None:
        return "eval-whisper", lambda: WordErrors(Whisper(whisper))
    return "eval", lambda: WordErrors(Moonshine())


def _require_known(names: Collection[str]) -> None:
    known: Sequence[str] = [figure.name for figure in FIGURES]
    for name in names:
        if name not in known:
            raise ConfigError(
                f"unknown measure '{name}', allowed: {', '.join(known)}{did_you_mean(name, known)}"
            )
