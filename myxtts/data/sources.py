"""Sources of batches; the feed moves them to the device."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.data.augmentation import Augmentation
from myxtts.data.batch import BatchLoader, batch_signature
from myxtts.data.cache import FeatureCache
from myxtts.data.corpus import CorpusPart
from myxtts.data.device_features import compile_features, waveform_signature
from myxtts.data.shapes import Shape
from myxtts.text.tokenizer import Tokenizer

HOST = "CPU:0"


class BatchSource(Protocol):
    """Loads the arrays of a step, in any thread, and computes the batch from them.

    Knows nothing of scheduling and prefetching.
    """

    @property
    def device(self) -> str:
        """The device where features are computed."""

    @property
    def has_own_device(self) -> bool:
        """Whether that is a separate data device."""

    @property
    def computes_features(self) -> bool:
        """Whether `features` must be applied to the result of `load`."""

    @property
    def cache(self) -> FeatureCache: ...

    @property
    def arrays_read(self) -> Sequence[str]:
        """Names of the cache arrays that `load` reads."""

    @property
    def signature(self) -> Any:
        """Tensor specs of the result of `load`."""

    @property
    def largest_batch_bytes(self) -> int: ...

    def load(self, step: int) -> Any: ...

    @property
    def features(self) -> Callable[[Any], Any]:
        """A compiled function from the result of `load` to a batch; runs on the caller's device."""

    def computed(self, loaded: Any) -> Any:
        """Applies `features` on `device`."""


class AcousticSource:
    """Texts with cached mels, or with mels computed from cached samples.

    Mels are computed if there is a data device or augmentation. In multi-worker training each
    worker loads its own part of every batch.
    """

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
        self.device = data_device or HOST
        self.has_own_device = data_device is not None
        self.computes_features = self.has_own_device or Augmentation(config).is_on
        self.cache = part.cache
        self.largest_batch_bytes = max(_bytes_of_batch(it, config) for it in part.plan.shapes)
        self._schedule = part.schedule
        self._config = config
        self._place = worker, workers
        self._loader = BatchLoader(part.cache, tokenizer, config)

    @property
    def arrays_read(self) -> Sequence[str]:
        return "tokens", "audio" if self.computes_features else "mels"

    @property
    def signature(self) -> Any:
        return waveform_signature() if self.computes_features else batch_signature(self._config)

    def load(self, step: int) -> Any:
        planned = self._schedule.batch_at(step)
        if not self.computes_features:
            return self._loader.load(planned.part(*self._place))
        changes = self._loader.changes(step, planned).part(*self._place)
        return self._loader.load_waveforms(planned.part(*self._place), changes)

    @functools.cached_property
    def features(self) -> Callable[[Any], Any]:
        features: Callable[[Any], Any] = compile_features(self._config, self.cache.mel_mean)
        return features

    def computed(self, loaded: Any) -> Any:
        with tf.device(self.device):
            return self.features(loaded)


def _bytes_of_batch(shape: Shape, config: XTTSConfig) -> int:
    frames = shape.frames + config.model.reference_frames
    return 4 * shape.batch * (frames * config.data.n_mels + shape.tokens)
