"""The mels that a trained model predicts for the clips of a corpus, to train a vocoder on.

They have the timing and the pitch of the recordings, so that each frame belongs to the samples at
its place. They are kept beside the prepared features, in
CACHE/<fingerprint>-resynthesis-<weights>.npy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from myxtts.config.config import XTTSConfig
from myxtts.data.batch import BatchLoader
from myxtts.data.cache import FeatureCache
from myxtts.data.segments import ClipMels, write_clip_mels
from myxtts.errors import CheckpointError
from myxtts.models.sampler import Resynthesis
from myxtts.runs.trained_model import find_predicting_checkpoint, load_model

_DIGITS = 16


class PredictedMels:
    """By the model of one run; opened, or made where they are not there yet."""

    def __init__(self, config: XTTSConfig) -> None:
        """`config` is that of the vocoder; raises a CheckpointError if the run does not fit it."""
        checkpoint = find_predicting_checkpoint(config)
        self._folder = checkpoint.folder
        # Of the weights that predict them.
        self.fingerprint = checkpoint.weights_checksum()[:_DIGITS]
        self._config = config

    def of(self, cache: FeatureCache, on_progress: Callable[[int, int], None]) -> ClipMels:
        file = cache.folder.with_name(f"{cache.folder.name}-resynthesis-{self.fingerprint}.npy")
        if not file.exists():
            made = self._made(cache, on_progress)
            write_clip_mels(file, cache, self._config.data.n_mels, made)
        return ClipMels(file, cache, self._config.data.n_mels)

    def _made(
        self, cache: FeatureCache, on_progress: Callable[[int, int], None]
    ) -> Iterator[npt.NDArray[np.float32]]:
        model = load_model(self._folder, compiled=True)
        for kind, theirs, ours in (
            ("language", model.tokenizer.languages, cache.tokenizer.languages),
            ("symbol", model.tokenizer.symbols, cache.tokenizer.symbols),
        ):
            unknown = sorted(set(ours) - set(theirs))
            if unknown:
                raise CheckpointError(
                    f"vocoder.mels_from: {self._folder} does not know the {kind} '{unknown[0]}' of "
                    "the corpus; give a run that was trained on it"
                )
        loader = BatchLoader(cache, model.tokenizer, self._config)
        speech = Resynthesis(model.sampler)
        for clip in range(len(cache)):
            on_progress(clip, len(cache))
            yield speech.mel(
                cache.clip_mel(clip).astype(np.float32),
                loader.token_ids(clip).tolist(),
                loader.language_id(clip),
            )
        on_progress(len(cache), len(cache))
