"""Builds a trainer that is ready for its first step, on devices that were tested."""

from __future__ import annotations

import contextlib
import dataclasses
import logging

import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.data.corpus import Corpus, OnProgress, open_corpus, replanned_corpus
from myxtts.data.shapes import with_recommended_batch_size
from myxtts.devices.strategy import chief_first, devices_here, place_of, uses_xla
from myxtts.errors import DeviceError, plural
from myxtts.runs.run_dir import RunDir
from myxtts.training.device_setup import turn_multi_gpu_mode_off
from myxtts.training.interruption import Interruption
from myxtts.training.opening import OpenedRun, Start
from myxtts.training.replicas import ReplicasFailedError
from myxtts.training.trainer import XTTSTrainer
from myxtts.training.watching.judging import Measurer

_log = logging.getLogger(__name__)


def open_corpus_for(
    strategy: tf.distribute.Strategy, config: XTTSConfig, start: Start, on_progress: OnProgress
) -> Corpus:
    """The corpus, planned for the replicas and for XLA if it is used."""
    with chief_first(strategy):
        return open_corpus(
            config,
            on_progress,
            replicas=strategy.num_replicas_in_sync,
            xla=uses_xla(strategy, config.training.xla),
            plan_file=start.resumed.plan_file if start.resumed else None,
            vocabulary=start.vocabulary,
        )


def recommended_batches(
    strategy: tf.distribute.Strategy, config: XTTSConfig, corpus: Corpus
) -> tuple[XTTSConfig, Corpus]:
    """With the batch size that suits the corpus, unless one is configured."""
    replicas = strategy.num_replicas_in_sync
    chosen, _ = with_recommended_batch_size(corpus.train.clips, config, replicas=replicas)
    if chosen == config:
        return config, corpus
    xla = uses_xla(strategy, config.training.xla)
    return chosen, replanned_corpus(corpus, chosen, replicas=replicas, xla=xla)


def start_trainer(
    opened: OpenedRun,
    run_dir: RunDir,
    interruption: Interruption,
    measurer: Measurer | None = None,
) -> XTTSTrainer:
    """Falls back to one device if mirrored training fails its test, unless strict."""
    while True:
        try:
            return _start(opened, run_dir, interruption, measurer)
        except ReplicasFailedError as error:
            opened = _on_first_device(opened, error)


def _start(
    opened: OpenedRun, run_dir: RunDir, interruption: Interruption, measurer: Measurer | None
) -> XTTSTrainer:
    start, observer = opened.start, opened.observer
    with contextlib.ExitStack() as on_failure:
        if start.resumed:
            # Before the model is built: a run from elsewhere may declare one of any size.
            opened.task.require_model(start.resumed)
        opened.task.require_memory()
        opened = _with_started_feed(opened)
        on_failure.callback(opened.feed.close)
        trainer = XTTSTrainer(
            opened.config,
            opened.corpus,
            run_dir,
            strategy=opened.devices.strategy,
            task=opened.task,
            observer=observer,
            account=opened.account,
            feed=opened.feed,
            interruption=interruption,
            measurer=measurer,
        )
        if start.resumed:
            step = trainer.resume(start.resumed, allow_changed_corpus=start.allow_changed_corpus)
            observer.on_phase(f"resuming from step {step}")
        elif start.init_from:
            trainer.start_from(start.init_from, partially=start.partially)
        trainer.prepare()
        on_failure.pop_all()
        return trainer


def _on_first_device(opened: OpenedRun, error: ReplicasFailedError) -> OpenedRun:
    devices = opened.devices
    if opened.config.training.strict_devices or place_of(devices.strategy).workers > 1:
        raise error
    first = devices_here(devices.strategy)[0]
    _log.warning(
        "mirrored training does not work here: %s; continuing on %s alone "
        "(--strict-devices stops instead)",
        error,
        first,
    )
    # Whoever opened the run holds this task to the end; its mirrored weights must not stay too.
    del opened.task.model
    alone = devices._replace(strategy=tf.distribute.OneDeviceStrategy(first))
    corpus = open_corpus_for(
        alone.strategy, opened.config, opened.start, opened.observer.on_prepare
    )
    return dataclasses.replace(opened, devices=alone, corpus=corpus)


def _with_started_feed(opened: OpenedRun) -> OpenedRun:
    """Starts the data device before the model, which waits for the first batches."""
    feed, devices = opened.feed, opened.devices
    feed.start(opened.start.resumed.info.step if opened.start.resumed else 0)
    if devices.data_device is None:
        return opened
    delay_seconds = opened.config.data.model_start_delay
    awaited = feed.batches_before_model
    opened.observer.on_notice(
        f"data device started; model starts in {delay_seconds:.1f} s, when {awaited} "
        f"{plural(awaited, 'batch')} {'is' if awaited == 1 else 'are'} ready"
    )
    try:
        waited_seconds, ready = feed.wait_until_ready(delay_seconds)
    except DeviceError as error:
        feed.close()
        turn_multi_gpu_mode_off(str(error), opened.config)
        without_data_device = devices._replace(data_device=None)
        return _with_started_feed(dataclasses.replace(opened, devices=without_data_device))
    except BaseException:
        feed.close()
        raise
    batches = f"{ready} {plural(ready, 'batch')}"
    opened.observer.on_notice(f"model started after {waited_seconds:.1f} s with {batches} ready")
    return opened
