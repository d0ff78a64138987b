"""The program that evaluates the checkpoints of a run in the background.

python -m myxtts.evaluation.background choose CONFIG SENTENCES LANGUAGE...
python -m myxtts.evaluation.background measure SNAPSHOT SENTENCES RESULT PRIORITY [MEASURE...]
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from myxtts.config.config import MEASURES
from myxtts.config.loading import load_config
from myxtts.errors import ConfigError, MyXTTSError
from myxtts.evaluation.evaluate import held_out_sentences, load_sentences, save_sentences
from myxtts.evaluation.results import as_json, write_result

_LOWEST_PRIORITY = 19


def choose_sentences(config_file: Path, sentences_file: Path, languages: Sequence[str]) -> None:
    """Saves held-out sentences of the corpus, if best_metric can be computed for them."""
    from myxtts.evaluation.measures import open_toolbox

    config = load_config(config_file)
    settings = config.evaluation
    sentences = held_out_sentences(config, languages, settings.measured_sentences)
    if settings.best_metric in MEASURES:
        toolbox = open_toolbox(only=[settings.best_metric])
        problems = [left_out.reason for left_out in toolbox.left_out]
        for measure in toolbox.measures:
            if not any(measure.tool.understands(item.language) for item in sentences):
                problems.append(f"{measure.tool.name} does not support {', '.join(languages)}")
        if problems:
            raise ConfigError(
                f"evaluation.best_metric: {settings.best_metric} cannot be computed here: "
                f"{problems[0]}"
            )
    save_sentences(sentences, sentences_file)


def measure_snapshot(snapshot: Path, sentences_file: Path, only: Sequence[str]) -> dict[str, float]:
    """The model's means; recordings and their copies do not change and are skipped."""
    from myxtts.evaluation.evaluate import MODEL, evaluate, own_voice
    from myxtts.evaluation.measures import open_toolbox
    from myxtts.synthesis.tts import TTS

    tts = TTS(snapshot)
    toolbox = open_toolbox(own_voice=own_voice(tts), only=only)
    sentences = load_sentences(sentences_file)
    evaluation = evaluate(tts, str(snapshot), sentences, toolbox, columns=(MODEL,))
    means: dict[str, Any] = {
        metric.name: evaluation.mean(MODEL, metric) for metric in toolbox.metrics
    }
    return {name: mean for name, mean in means.items() if mean is not None}


def _measure(
    snapshot: str, sentences_file: str, result_file: str, priority: str, *only: str
) -> None:
    if priority == "lowest":
        _lower_priority()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    values = measure_snapshot(Path(snapshot), Path(sentences_file), only)
    write_result(Path(result_file), as_json(values).encode())


def _lower_priority() -> None:
    os.nice(_LOWEST_PRIORITY)
    if hasattr(os, "SCHED_IDLE"):
        # Yields immediately, not at the end of its time slice.
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _end_with_parent() -> None:
    """When the parent is killed, its end of the pipe closes."""
    # Not sys.stdin: Python cannot exit while a thread holds its buffer.
    while os.read(0, 1):
        pass
    os._exit(1)


def _main(action: str, *arguments: str) -> int:
    try:
        if action == "choose":
            config_file, sentences_file, *languages = arguments
            choose_sentences(Path(config_file), Path(sentences_file), languages)
        else:
            _measure(*arguments)
    except MyXTTSError as error:
        print(error, file=sys.stderr)  # noqa: T201 - this is a program
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
