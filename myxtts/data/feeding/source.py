"""Makes the batch of a step as a run makes it: of cached mels, or of samples.

Samples it is where features have a device of their own and where augmentation changes the clips.
Knows nothing of when batches are made and of how many wait.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import tensorflow as tf

from myxtts.batch import Batch
from myxtts.config.config import XTTSConfig
from myxtts.data.features.augmentation import Augmentation
from myxtts.data.feeding.batches import BatchLoader, batch_signature
from myxtts.data.feeding.device_features import (
    WaveformBatch,
    compile_features,
    waveform_signature,
)
from myxtts.data.opening import CorpusPart
from myxtts.text.tokenizer import Tokenizer

HOST = "CPU:0"


class BatchSource:
    def __init__(
        self,
        part: CorpusPart,
        tokenizer: Tokenizer,
        config: XTTSConfig,
        *,
        data_device: str | None = None,
        worker: int = 0,
        workers: int = 1,
    ) -> None:
        self.has_own_device = data_device is not None
        self.device = data_device or HOST
        self.uses_waveforms = self.has_own_device or Augmentation(config).is_on
        self._part = part
        self._config = config
        self._loader = BatchLoader(part.cache, tokenizer, config)
        self._place = worker, workers

    @property
    def signature(self) -> Batch | WaveformBatch:
        """Of what `load` gives."""
        return waveform_signature() if self.uses_waveforms else batch_signature(self._config)

    def load(self, step: int) -> Batch | WaveformBatch:
        """What is in the cache for this machine's part of the batch of a step."""
        planned = self._part.schedule.batch_at(step)
        if not self.uses_waveforms:
            return self._loader.load(planned.part(*self._place))
        changes = self._loader.changes(step, planned).part(*self._place)
        return self._loader.load_waveforms(planned.part(*self._place), changes)

    @functools.cached_property
    def features(self) -> Callable[[WaveformBatch], Batch]:
        return compile_features(self._config, self._part.cache.mel_mean)

    def computed(self, waveforms: WaveformBatch) -> Batch:
        """On the device for features, in the thread that asks for it."""
        with tf.device(self.device):
            return self.features(waveforms)
