"""Sets up devices and a trainer, in the order in which TensorFlow allows it."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.data.corpus import Corpus, OnProgress, open_corpus
from myxtts.data.plan_files import PLAN_FILE
from myxtts.devices.cluster import find_cluster
from myxtts.devices.compilations import CompilationLog
from myxtts.devices.discovery import Accelerators, find_accelerators
from myxtts.devices.limits import recommend_limits
from myxtts.devices.memory import setup_gpu_memory_isolation
from myxtts.devices.strategy import (
    choose_strategy,
    devices_here,
    machines_strategy,
    place_of,
    uses_xla,
    wait_for_all,
)
from myxtts.errors import DeviceError
from myxtts.training.accounting import TimeAccount
from myxtts.training.interruption import Interruption
from myxtts.training.replicas import ReplicasFailedError
from myxtts.training.reporting import Observer
from myxtts.training.trainer import DATA_DEVICE, MODE, XTTSTrainer

_log = logging.getLogger(__name__)


def set_up_devices(config: XTTSConfig) -> tf.distribute.Strategy:
    """To be called before any other TensorFlow work."""
    devices = config.devices
    accelerators = find_accelerators(devices.virtual_devices, config.training.visible_gpus)
    if devices.enable_memory_isolation:
        _isolate_memory(config)
    if devices.data_gpu is not None and devices.model_gpu is not None:
        _log.warning(
            "multi-GPU mode is off: this version computes no features on a data GPU; "
            "going on in single-GPU buffered mode"
        )
    model_gpus = _model_gpus(config)
    cluster = find_cluster()
    if cluster is not None:
        return machines_strategy(cluster, accelerators, config.training.multi_gpu)
    if not model_gpus:
        return choose_strategy(accelerators, config.training.multi_gpu)
    chosen = _choose(accelerators, model_gpus)
    return choose_strategy(chosen, multi_gpu=len(model_gpus) > 1)


def _isolate_memory(config: XTTSConfig) -> None:
    devices = config.devices
    data_gpu_id = 0 if devices.data_gpu is None else devices.data_gpu
    model_gpu_id = _model_gpus(config)[0]
    recommended = recommend_limits(data_gpu_id, model_gpu_id)
    data_mb, model_mb = devices.data_gpu_memory_mb, devices.model_gpu_memory_mb
    setup_gpu_memory_isolation(
        data_gpu_id=data_gpu_id,
        model_gpu_id=model_gpu_id,
        data_gpu_memory_limit=recommended.data_mb if data_mb is None else data_mb,
        model_gpu_memory_limit=recommended.model_mb if model_mb is None else model_mb,
    )


def _model_gpus(config: XTTSConfig) -> list[int]:
    """Ids of the GPUs that train, or none where it was not said."""
    given = config.devices.model_gpu
    if given is None:
        # With memory isolation the first GPU is for data.
        return [1] if config.devices.enable_memory_isolation else []
    parts = [part.strip() for part in given.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise DeviceError(f'devices.model_gpu: found {given!r}, allowed: ids such as "1" or "1,2"')
    return [int(part) for part in parts]


def _choose(accelerators: Accelerators, ids: list[int]) -> Accelerators:
    count = accelerators.gpu_count
    unknown = [number for number in ids if number >= count]
    if not unknown:
        return dataclasses.replace(
            accelerators, devices=tuple(accelerators.devices[number] for number in ids)
        )
    _log.warning(
        "model GPU %s is not there (found %d GPUs); going on with the devices there are",
        ", ".join(map(str, unknown)),
        count,
    )
    return accelerators


def describe_mode(strategy: tf.distribute.Strategy, config: XTTSConfig) -> str:
    """Where data and model are and how much is kept ready, in one line."""
    return (
        f"Mode: {MODE}; data on {DATA_DEVICE}, model on {', '.join(devices_here(strategy))}; "
        f"up to {config.data.buffer_size} batches kept ready"
    )


def open_corpus_for(
    strategy: tf.distribute.Strategy,
    config: XTTSConfig,
    on_progress: OnProgress,
    plan_file: Path | None,
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
    )
    if is_chief:
        wait_for_all(strategy)
    return corpus


def start_trainer(
    config: XTTSConfig,
    corpus: Corpus,
    run_dir: Path,
    strategy: tf.distribute.Strategy,
    *,
    observer: Observer,
    account: TimeAccount,
    compilation_log: CompilationLog | None = None,
    resume: bool = False,
    init_from: Path | None = None,
    interruption: Interruption | None = None,
) -> XTTSTrainer:
    """A trainer that is ready for its first step.

    Where mirrored training fails its trial, one device goes on alone, unless the devices are
    strict.
    """

    def start(strategy: tf.distribute.Strategy, corpus: Corpus) -> XTTSTrainer:
        trainer = XTTSTrainer(
            config,
            corpus,
            run_dir,
            strategy=strategy,
            observer=observer,
            account=account,
            compilation_log=compilation_log,
            interruption=interruption,
        )
        if resume:
            step = trainer.resume()
            observer.on_phase(f"going on from step {step}")
        elif init_from is not None:
            trainer.start_from(init_from)
        trainer.prepare()
        return trainer

    try:
        return start(strategy, corpus)
    except ReplicasFailedError as error:
        if config.devices.strict_devices or place_of(strategy).workers > 1:
            raise
        first = devices_here(strategy)[0]
        _log.warning(
            "mirrored training does not work here: %s; going on with %s alone "
            "(--strict-devices stops instead)",
            error,
            first,
        )
    alone = tf.distribute.OneDeviceStrategy(first)
    plan_file = run_dir / PLAN_FILE
    return start(alone, open_corpus_for(alone, config, observer.on_prepare, plan_file))
