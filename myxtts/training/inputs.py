"""Fits the input of a run to the devices of its strategy: the plan of its corpus, and its feed."""

from __future__ import annotations

import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.data.corpus import Corpus, replanned_corpus
from myxtts.data.pipeline import HOST, Feed
from myxtts.devices.strategy import devices_here, place_of, uses_xla
from myxtts.errors import ConfigError
from myxtts.training.task import Task


def make_feed(
    task: Task,
    config: XTTSConfig,
    strategy: tf.distribute.Strategy,
    last_step: int,
    data_device: str | None = None,
) -> Feed:
    """The feed that brings the batches of a task to the devices of a strategy."""
    devices, place = devices_here(strategy), place_of(strategy)
    # Replicas take their shares of a batch from the host or from the first model device.
    model_device = devices[0] if len(devices) == 1 or data_device is not None else HOST
    source = task.source(data_device=data_device, **place._asdict())
    return Feed(source, config, last_step, model_device=model_device)


def planned_for(strategy: tf.distribute.Strategy, corpus: Corpus, config: XTTSConfig) -> Corpus:
    """The corpus, planned again if its plan is for another number of replicas."""
    replicas = strategy.num_replicas_in_sync
    if corpus.train.plan.shares == replicas * config.training.gradient_accumulation_steps:
        return corpus
    xla = uses_xla(strategy, config.training.xla)
    return replanned_corpus(corpus, config, replicas=replicas, xla=xla)


def require_planned_for(corpus: Corpus, config: XTTSConfig, replicas: int) -> None:
    shares = replicas * config.training.gradient_accumulation_steps
    if corpus.train.plan.shares != shares:
        raise ConfigError(
            f"the corpus was planned for {corpus.train.plan.shares} micro-batches per step, but "
            f"{replicas} replicas times training.gradient_accumulation_steps make {shares}; open "
            f"it with replicas={replicas}"
        )
