"""Sets up devices and a trainer, in the order in which TensorFlow allows it."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.data.feeding.pipeline import Feed
from myxtts.data.opening import Corpus, OnProgress, open_corpus
from myxtts.data.planning.plan_files import PLAN_FILE
from myxtts.devices.cluster import find_cluster
from myxtts.devices.compilations import CompilationLog
from myxtts.devices.discovery import Accelerators, find_accelerators
from myxtts.devices.limits import recommend_limits
from myxtts.devices.memory import setup_gpu_memory_isolation
from myxtts.devices.placement import named_model_gpus, place
from myxtts.devices.strategy import (
    choose_strategy,
    devices_here,
    machines_strategy,
    place_of,
    uses_xla,
    wait_for_all,
)
from myxtts.errors import DeviceError
from myxtts.runs.checkpoints import Checkpoint
from myxtts.text.tokenizer import Tokenizer
from myxtts.training.interruption import Interruption
from myxtts.training.replicas import ReplicasFailedError
from myxtts.training.trainer import XTTSTrainer, make_feed
from myxtts.training.watching.accounting import TimeAccount
from myxtts.training.watching.judging import Measurer
from myxtts.training.watching.reporting import Observer
from myxtts.wording import plural

_log = logging.getLogger(__name__)


class Devices(NamedTuple):
    """Where a run takes place."""

    strategy: tf.distribute.Strategy
    data_device: str | None
    """The device that computes features; None: they come from the cache."""


def set_up_devices(config: XTTSConfig) -> Devices:
    """To be called before any other TensorFlow work."""
    devices = config.devices
    accelerators = find_accelerators(devices.virtual_devices, config.training.visible_gpus)
    if devices.enable_memory_isolation:
        _isolate_memory(config, accelerators)
    cluster = find_cluster()
    placement = place(config, accelerators.gpu_count, cluster.workers if cluster else 1)
    if placement.missing is not None:
        _log.warning("model %s; going on with the devices there are", placement.missing)
    if placement.problem is not None:
        _turn_multi_gpu_mode_off(placement.problem, config)
    data_gpu, model_gpus = placement.data_gpu, placement.model_gpus
    data_device = None if data_gpu is None else accelerators.devices[data_gpu]
    if cluster is not None:
        strategy = machines_strategy(cluster, accelerators, config.training.multi_gpu)
    elif placement.reason is not None:
        chosen = tuple(accelerators.devices[number] for number in model_gpus)
        accelerators = dataclasses.replace(accelerators, devices=chosen)
        strategy = choose_strategy(
            accelerators, multi_gpu=len(model_gpus) > 1, reason=placement.reason
        )
    else:
        strategy = choose_strategy(accelerators, config.training.multi_gpu)
    return Devices(strategy, data_device)


def _isolate_memory(config: XTTSConfig, accelerators: Accelerators) -> None:
    if accelerators.kind == "virtual":
        _log.warning("GPU memory isolation is off: virtual devices have no memory of their own")
        return
    devices = config.devices
    data_gpu_id = 0 if devices.data_gpu is None else devices.data_gpu
    model_gpu_id = named_model_gpus(config)[0]
    recommended = recommend_limits(data_gpu_id, model_gpu_id)
    data_mb, model_mb = devices.data_gpu_memory_mb, devices.model_gpu_memory_mb
    setup_gpu_memory_isolation(
        data_gpu_id=data_gpu_id,
        model_gpu_id=model_gpu_id,
        data_gpu_memory_limit=recommended.data_mb if data_mb is None else data_mb,
        model_gpu_memory_limit=recommended.model_mb if model_mb is None else model_mb,
    )


def describe_mode(config: XTTSConfig, corpus: Corpus, devices: Devices) -> str:
    """Where data and model are and how much is kept ready, in one line."""
    feed = _make_feed(config, corpus, devices)
    aside = " (no GPU set aside for data)" if devices.data_device is None else ""
    model_devices = devices_here(devices.strategy)
    placed = "mirrored on" if len(model_devices) > 1 else "on"
    return (
        f"Mode: {feed.mode}{aside}; data on {feed.data_device}, model {placed} "
        f"{', '.join(model_devices)}; up to {feed.buffer_size} "
        f"{plural(feed.buffer_size, 'batch')} kept ready"
    )


def open_corpus_for(
    strategy: tf.distribute.Strategy,
    config: XTTSConfig,
    on_progress: OnProgress,
    plan_file: Path | None,
    vocabulary: Tokenizer | None = None,
) -> Corpus:
    """The corpus, planned for the replicas and for XLA where it is used.

    Of several machines the chief comes first: where they share a disk, the others find its work.
    """
    is_chief = place_of(strategy).is_chief
    if not is_chief:
        wait_for_all(strategy)
    corpus = open_corpus(
        config,
        on_progress,
        replicas=strategy.num_replicas_in_sync,
        xla=uses_xla(strategy, config.training.xla),
        plan_file=plan_file,
        vocabulary=vocabulary,
    )
    if is_chief:
        wait_for_all(strategy)
    return corpus


def start_trainer(
    config: XTTSConfig,
    corpus: Corpus,
    run_dir: Path,
    devices: Devices,
    *,
    observer: Observer,
    account: TimeAccount,
    compilation_log: CompilationLog | None = None,
    resume: Checkpoint | None = None,
    init_from: Checkpoint | None = None,
    init_partially: bool = False,
    measurer: Measurer | None = None,
    interruption: Interruption | None = None,
) -> XTTSTrainer:
    """A trainer that is ready for its first step.

    Where mirrored training fails its trial, one device goes on alone, unless the devices are
    strict.
    """

    def start(devices: Devices, corpus: Corpus) -> XTTSTrainer:
        with contextlib.ExitStack() as on_failure:
            first_step = resume.info.step if resume else 0
            feed = _start_feed(config, corpus, devices, first_step)
            on_failure.callback(feed.close)
            trainer = XTTSTrainer(
                config,
                corpus,
                run_dir,
                strategy=devices.strategy,
                observer=observer,
                account=account,
                compilation_log=compilation_log,
                feed=feed,
                measurer=measurer,
                interruption=interruption,
            )
            if resume:
                step = trainer.resume(resume)
                observer.on_phase(f"going on from step {step}")
            elif init_from is not None:
                trainer.start_from(init_from, partially=init_partially)
            trainer.prepare()
            on_failure.pop_all()
            return trainer

    try:
        return start(devices, corpus)
    except ReplicasFailedError as error:
        if config.devices.strict_devices or place_of(devices.strategy).workers > 1:
            raise
        first = devices_here(devices.strategy)[0]
        _log.warning(
            "mirrored training does not work here: %s; going on with %s alone "
            "(--strict-devices stops instead)",
            error,
            first,
        )
    alone = devices._replace(strategy=tf.distribute.OneDeviceStrategy(first))
    plan_file = run_dir / PLAN_FILE
    corpus = open_corpus_for(
        alone.strategy, config, observer.on_prepare, plan_file, corpus.tokenizer
    )
    return start(alone, corpus)


def _make_feed(config: XTTSConfig, corpus: Corpus, devices: Devices) -> Feed:
    last_step = corpus.train.schedule.planned_steps(config.training)
    return make_feed(corpus, config, devices.strategy, last_step, devices.data_device)


def _start_feed(config: XTTSConfig, corpus: Corpus, devices: Devices, first_step: int) -> Feed:
    """The data device starts before the model, which waits for its first batch."""
    feed = _make_feed(config, corpus, devices)
    feed.start(first_step)
    if devices.data_device is None:
        return feed
    try:
        feed.wait_until_ready(config.devices.model_start_delay_seconds)
    except DeviceError as error:
        feed.close()
        _turn_multi_gpu_mode_off(str(error), config)
        return _start_feed(config, corpus, devices._replace(data_device=None), first_step)
    except BaseException:
        feed.close()
        raise
    return feed


def _turn_multi_gpu_mode_off(problem: str, config: XTTSConfig) -> None:
    if config.devices.strict_devices:
        raise DeviceError(f"multi-GPU mode: {problem}; leave out --strict-devices to go on without")
    _log.warning("multi-GPU mode is off: %s; going on in single-GPU buffered mode", problem)
