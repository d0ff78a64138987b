"""The mels that a trained model predicts for the clips of a corpus, to train a vocoder on.

They have the timing of the recordings, so that each frame belongs to the samples at its place. They
are kept beside the prepared features: CACHE/<fingerprint>-mels-<weights>.npy, rows like mels.npy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from myxtts.config.config import XTTSConfig
from myxtts.data.features.cache import FeatureCache
from myxtts.data.features.stored_array import StoredArray
from myxtts.data.feeding.batches import BatchLoader
from myxtts.errors import CheckpointError, DataError
from myxtts.models.copied_timing import CopiedTiming, Recorded
from myxtts.runs.loaded_model import load_model
from myxtts.runs.vocoder_fit import find_predicting_checkpoint
from myxtts.whole_files import whole_file

# Those of like length are decoded together.
_CLIPS_AT_ONCE = 64
_DIGITS = 16


class PredictedMels:
    """By the model of one run; opened, or made where they are not there yet."""

    def __init__(self, config: XTTSConfig) -> None:
        """`config` is that of the vocoder; raises a CheckpointError if the run does not fit it."""
        checkpoint = find_predicting_checkpoint(config)
        self._folder = checkpoint.folder
        self._weights = checkpoint.weights_checksum()[:_DIGITS]
        self._config = config

    def of(self, cache: FeatureCache, on_progress: Callable[[int, int], None]) -> StoredArray:
        file = cache.folder.with_name(f"{cache.folder.name}-mels-{self._weights}.npy")
        if not file.exists():
            with whole_file(file) as stream:
                header = {
                    "descr": np.lib.format.dtype_to_descr(np.dtype(np.float16)),
                    "fortran_order": False,
                    "shape": (int(cache.frame_counts.sum()), self._config.data.n_mels),
                }
                np.lib.format.write_array_header_1_0(stream, header)
                for mel in self._made(cache, on_progress):
                    stream.write(mel.astype(np.float16).tobytes())
        try:
            return StoredArray(file, np.float16, 2)
        except ValueError as error:
            raise DataError(f"{file}: {error}; delete it, it will be recreated") from None

    def _made(
        self, cache: FeatureCache, on_progress: Callable[[int, int], None]
    ) -> Iterator[npt.NDArray[np.float32]]:
        """In the order of the rows of mels.npy."""
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
        speech = CopiedTiming(model.sampler)
        clips = np.argsort(cache.index["mels_start"], kind="stable").tolist()
        for first in range(0, len(clips), _CLIPS_AT_ONCE):
            on_progress(first, len(clips))
            yield from speech.mels(
                [
                    Recorded(
                        cache.clip_mel(clip).astype(np.float32),
                        loader.token_ids(clip).tolist(),
                        loader.language_id(clip),
                    )
                    for clip in clips[first : first + _CLIPS_AT_ONCE]
                ]
            )
        on_progress(len(clips), len(clips))
