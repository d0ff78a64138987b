"""Whether the included base model finds the text of a clip in its sound.

It aligns the clip with its text and with as many phonemes of other sentences. A clip with the wrong
text is aligned no better with it than with those.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from myxtts.audio.files import FloatArray, clean_recording, read_audio
from myxtts.collecting.records import AGREEMENT_LINE, CorpusFolder, append, read_lines
from myxtts.errors import CheckpointError, DataError
from myxtts.runs.base import run_or_base
from myxtts.text.languages import find_language

if TYPE_CHECKING:
    from myxtts.runs.loaded_model import LoadedModel

_OTHERS = 4
_SENTENCES_OF_OTHERS = 160


class Listener(Protocol):
    name: str
    sample_rate_hz: int

    def agreement(self, samples: FloatArray, text: str) -> float | None:
        """About 0 if the text is of something else; None if it cannot be said."""


def open_listener(language: str) -> Listener | None:
    """None if there is no base model, or none that knows the language."""
    from myxtts.devices.loading import load_tensorflow

    try:
        folder = run_or_base(None)
    except CheckpointError:
        return None
    load_tensorflow()
    from myxtts.runs.loaded_model import load_model

    model = load_model(folder, compiled=False)
    # One that knows English can judge British English too.
    for tag in (language, find_language(language).base):
        with contextlib.suppress(DataError):
            return BaseListener(model, tag)
    return None


class BaseListener:
    def __init__(self, model: LoadedModel, language: str) -> None:
        """Raises DataError for a language that the model does not know."""
        from myxtts.audio.mel import clip_log_mel
        from myxtts.models.text_agreement import TextAgreement

        self._audio, self._tokenizer = model.config.audio, model.tokenizer
        self.sample_rate_hz = self._audio.sample_rate_hz
        self.name = f"base {model.weights_sha256[:16]}"
        self._language = self._tokenizer.own_language(language)
        self._language_id = self._tokenizer.language_id(language)
        self._log_mel = clip_log_mel(self._audio, model.config.data.n_mels)
        self._measure = TextAgreement(model.sampler)
        sentences = find_language(self._language).demo_sentences()[:_SENTENCES_OF_OTHERS]
        if not sentences:
            raise DataError(f"no sentences to compare with in '{language}'")
        # Without the tokens at both ends of a sentence.
        self._other_ids = [
            token
            for text in sentences
            for token in self._tokenizer.encode(text, self._language)[1:-1]
        ]

    def agreement(self, samples: FloatArray, text: str) -> float | None:
        try:
            token_ids = self._tokenizer.encode(text, self._language)
        except DataError:
            return None
        log_mel = self._log_mel(clean_recording(samples, self._audio))
        start, *inner, end = token_ids
        others = [[start, *self._others(n, len(inner)), end] for n in range(_OTHERS)]
        return self._measure.of(log_mel, token_ids, others, self._language_id)

    def _others(self, number: int, count: int) -> list[int]:
        """Tokens of other sentences, beginning with one of them."""
        first = number * len(self._other_ids) // _OTHERS
        every = len(self._other_ids)
        return [self._other_ids[(first + index) % every] for index in range(count)]


def measure_agreement(
    texts: Mapping[str, str],
    folder: CorpusFolder,
    listener: Listener,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, float]:
    """By clip, of those that can be measured; continues where it stopped."""
    known = {
        (line["id"], line["text"]): line["agreement"]
        for line in read_lines(folder.agreements, AGREEMENT_LINE)
        if line["by"] == listener.name
    }
    found: dict[str, float] = {}
    for done, (clip_id, text) in enumerate(texts.items(), 1):
        if (clip_id, text) not in known:
            samples = read_audio(folder.clip(clip_id), listener.sample_rate_hz)
            value = listener.agreement(samples, text)
            known[clip_id, text] = value
            line = {"id": clip_id, "text": text, "by": listener.name, "agreement": value}
            append(folder.agreements, line)
        value = known[clip_id, text]
        if value is not None:
            found[clip_id] = value
        on_progress(done, len(texts))
    return found
