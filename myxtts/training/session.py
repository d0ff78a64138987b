"""Sets up devices and a trainer, in the order in which TensorFlow allows it."""

from __future__ import annotations

import logging
from pathlib import Path

import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.data.corpus import Corpus
from myxtts.devices.discovery import find_accelerators
from myxtts.devices.strategy import choose_strategy
from myxtts.training.accounting import TimeAccount
from myxtts.training.reporting import Observer
from myxtts.training.trainer import XTTSTrainer

_log = logging.getLogger(__name__)


def set_up_devices(config: XTTSConfig) -> tf.distribute.Strategy:
    """To be called before any other TensorFlow work."""
    accelerators = find_accelerators(config.devices.virtual_devices, config.training.visible_gpus)
    return choose_strategy(accelerators, config.training.multi_gpu)


def start_trainer(
    config: XTTSConfig,
    corpus: Corpus,
    run_dir: Path,
    strategy: tf.distribute.Strategy,
    *,
    observer: Observer,
    account: TimeAccount,
    resume: bool,
    init_from: Path | None,
) -> XTTSTrainer:
    trainer = XTTSTrainer(
        config, corpus, run_dir, strategy=strategy, observer=observer, account=account
    )
    if resume:
        step = trainer.resume()
        observer.on_phase(f"going on from step {step}")
    elif init_from is not None:
        trainer.start_from(init_from)
    return trainer
