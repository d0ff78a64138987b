"""Opens what a run needs before it has a model: TensorFlow, devices and the corpus.

TensorFlow is loaded in here, so this module imports nothing that imports it.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from myxtts.config.config import XTTSConfig
from myxtts.config.loading import config_to_start_with
from myxtts.errors import ConfigError
from myxtts.runs.checkpoint import Checkpoint
from myxtts.runs.run_dir import changes_since, find_checkpoint, run_to_start_from
from myxtts.training.watching.accounting import TimeAccount
from myxtts.training.watching.observer import Observer

if TYPE_CHECKING:
    from myxtts.data.corpus import Corpus
    from myxtts.data.pipeline import Feed
    from myxtts.text.tokenizer import Tokenizer
    from myxtts.training.device_setup import Devices
    from myxtts.training.task import Task

_log = logging.getLogger(__name__)

DEMO_CORPUS = Path("demo") / "corpus"


@dataclass(frozen=True, kw_only=True)
class Start:
    """What a run starts from: scratch, its own newest checkpoint, or another run's weights."""

    resumed: Checkpoint | None = None
    init_from: Checkpoint | None = None
    partially: bool = False
    """Whether it is enough if some of the other run's weights fit."""
    allow_changed_corpus: bool = False
    """Whether to resume although the clips are not those of the run so far."""

    @classmethod
    def from_run(cls, run: str | Path, *, partially: bool = False) -> Start:
        return cls(
            init_from=find_checkpoint(run_to_start_from(run), for_synthesis=True),
            partially=partially,
        )

    def adapt(self, config: XTTSConfig) -> XTTSConfig:
        """Add the settings that weights of another run bring along, where none are given."""
        if self.init_from is None:
            return config
        return config_to_start_with(self.init_from.config(), config, partially=self.partially)

    @property
    def vocabulary(self) -> Tokenizer | None:
        source = self.resumed or self.init_from
        return source.tokenizer() if source else None


@dataclass(frozen=True)
class OpenedRun:
    config: XTTSConfig
    start: Start
    devices: Devices
    corpus: Corpus
    observer: Observer
    account: TimeAccount

    @functools.cached_property
    def task(self) -> Task:
        from myxtts.training.tasks import task_of

        return task_of(self.config, self.corpus)

    @functools.cached_property
    def feed(self) -> Feed:
        """Not started yet."""
        from myxtts.training.inputs import make_feed

        last_step = self.corpus.train.schedule.planned_steps(self.config.training)
        return make_feed(
            self.task, self.config, self.devices.strategy, last_step, self.devices.data_device
        )


@contextlib.contextmanager
def open_run(config: XTTSConfig, start: Start, observer: Observer) -> Iterator[OpenedRun]:
    """Sets up the devices, prepares the corpus and reports both to the observer."""
    from myxtts.data.metadata import require_corpora

    account = TimeAccount()
    require_corpora(config)
    if config.vocoder.mels_from:
        from myxtts.runs.trained_model import find_predicting_checkpoint

        find_predicting_checkpoint(config)
    from myxtts.training import describing

    for change in changes_since(start.resumed, config) if start.resumed else ():
        observer.on_notice(f"Changed since the checkpoint: {change}")
    if config.data.train_data is None:
        config = _with_demo_corpus(config, observer)
    from myxtts.devices.startup import load_tensorflow, program_cache

    observer.on_phase("loading TensorFlow")
    load_tensorflow(program_cache(config.training.xla))
    from myxtts.devices.strategy import chief_first
    from myxtts.training.device_setup import set_up_devices
    from myxtts.training.starting import open_corpus_for, recommended_batches
    from myxtts.training.watching.best_metric import with_best_metric

    devices = set_up_devices(config)
    corpus = open_corpus_for(devices.strategy, config, start, observer.on_prepare)
    if not start.resumed:
        config, corpus = recommended_batches(devices.strategy, config, corpus)
    config = with_best_metric(config, corpus.own_tokenizer.languages)
    opened = OpenedRun(config, start, devices, corpus, observer, account)
    # Whatever opens the feed would wait for them without a word.
    with chief_first(devices.strategy):
        opened.task.prepare_mels(observer.on_predicted_mels)
    observer.on_notice(describing.configuration_block(opened))
    observer.on_notice(describing.describe_mode(opened))
    for line in describing.describe_data(opened):
        observer.on_notice(line)
    for line in describing.describe_details(opened):
        _log.info("%s", line)
    yield opened


def is_chief(*, has_folder: bool) -> bool:
    """Whether this process writes the run; on several machines only one does."""
    from myxtts.devices.strategy import find_cluster

    cluster = find_cluster()
    if cluster is None:
        return True
    if not has_folder:
        raise ConfigError(
            f"--run-dir: is required for training on {cluster.workers} machines; use a folder "
            "that all of them share"
        )
    return cluster.index == 0


def _with_demo_corpus(config: XTTSConfig, observer: Observer) -> XTTSConfig:
    from myxtts.data.demo import make_demo_corpus

    if DEMO_CORPUS.is_dir():
        observer.on_notice(f"No corpus given: using the demo corpus in {DEMO_CORPUS}")
    else:
        observer.on_notice(f"No corpus given: generating the demo corpus in {DEMO_CORPUS}")
        make_demo_corpus(
            DEMO_CORPUS, on_progress=lambda done, total: observer.on_prepare("demo", done, total)
        )
    return config.with_(train_data=str(DEMO_CORPUS))
