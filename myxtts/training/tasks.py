"""The task that a configuration names."""

from __future__ import annotations

from collections.abc import Callable

from myxtts.config.config import XTTSConfig
from myxtts.data.corpus import Corpus
from myxtts.training.acoustic import AcousticTask
from myxtts.training.task import Task
from myxtts.training.vocoder import VocoderTask

_TASKS: dict[str, Callable[[XTTSConfig, Corpus], Task]] = {
    "acoustic": AcousticTask,
    "vocoder": VocoderTask,
}


def task_of(config: XTTSConfig, corpus: Corpus) -> Task:
    return _TASKS[config.training.task](config, corpus)
