"""Synthesizes speech from text and a few seconds of a voice."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.audio.files import clean_recording, read_audio, set_loudness, write_wav
from myxtts.audio.mel import clip_log_mel
from myxtts.audio.vocoder import Vocoder
from myxtts.errors import CheckpointError, DataError
from myxtts.models.sampler import SpeechSampler
from myxtts.models.speech_options import SpeechOptions
from myxtts.models.voice_encoder import Voice
from myxtts.models.xtts import XTTS
from myxtts.runs.model_loading import load_model
from myxtts.runs.run_dir import find_checkpoint
from myxtts.runs.vocoders import find_vocoder
from myxtts.synthesis.voices import (
    Reference,
    SavedVoice,
    VoiceFacts,
    read_voice,
    require_free_name,
    voices_folder,
    write_voice,
)
from myxtts.text.languages import find_language

FloatArray = npt.NDArray[np.float32]
Paths = str | Path | Sequence[str | Path]

_PAUSE_SECONDS = 0.25
_FADE_SECONDS = 0.005
_SPOKEN_LOUDNESS_DBFS = -23.0
_SHORTEST_REFERENCE_SECONDS = 0.5
# Memory grows with the square of the number of tokens; no real sentence comes close.
_MOST_TOKENS = 2_000
# Computing a mel takes dozens of times its own memory, so long recordings are cut.
_MEL_STRETCH_SECONDS = 60
_MOST_CHARACTERS = 1_000_000


class TTS:
    """A trained run, ready to speak.

    >>> tts = TTS("runs/demo")                                              # doctest: +SKIP
    >>> tts.tts_to_file(text="Hello.", speaker_wav="me.wav", language="en", file_path="out.wav")
    """

    def __init__(self, run_dir: str | Path, *, vocoder: Vocoder | str | Path | None = None) -> None:
        """`vocoder` is one, "griffin-lim" or the folder of a run; None is the included one."""
        folder = Path(run_dir)
        checkpoint = find_checkpoint(folder, for_synthesis=True)
        self.config = checkpoint.config()
        if self.config.training.task != "acoustic":
            raise CheckpointError(
                f"{checkpoint.folder}: is a {self.config.training.task}, expected a model that "
                "speaks; give a vocoder with --vocoder"
            )
        self.tokenizer = checkpoint.tokenizer()
        self.step = checkpoint.info.step
        self._weights_sha256 = checkpoint.weights_checksum()
        self._voices_folder = voices_folder(folder)
        make = functools.partial(
            XTTS,
            self.config,
            symbols=len(self.tokenizer.symbols),
            languages=len(self.tokenizer.languages),
            mel_mean=checkpoint.info.mel_mean,
            mel_deviation=checkpoint.info.mel_deviation,
        )
        model = load_model(checkpoint, make)
        self._sampler = SpeechSampler(model, self.config.training.default_guidance)
        if vocoder is None or isinstance(vocoder, str | Path):
            vocoder = find_vocoder(vocoder, self.config)
        self.vocoder = vocoder

    @property
    def languages(self) -> tuple[str, ...]:
        return self.tokenizer.languages

    @property
    def sample_rate_hz(self) -> int:
        return self.config.audio.sample_rate_hz

    def voice(self, speaker_wav: Paths) -> Voice:
        """Encodes the voice of one or more recordings."""
        recordings = self._recordings(speaker_wav)
        return self.voice_of(np.concatenate([recording for _, recording in recordings]))

    def save_voice(self, name: str, speaker_wav: Paths, *, replace: bool = False) -> Voice:
        """Encodes a voice and saves it in the run's folder, for `saved_voice`."""
        name = require_free_name(self._voices_folder, name, replace=replace)
        recordings = self._recordings(speaker_wav)
        voice = self.voice_of(np.concatenate([recording for _, recording in recordings]))
        facts = VoiceFacts(
            name=name,
            references=[
                Reference(_printable(file.name), recording.size / self.sample_rate_hz)
                for file, recording in recordings
            ],
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            step=self.step,
            weights_sha256=self._weights_sha256,
            width=self.config.model.voice_width,
            latents=self.config.model.voice_latents,
        )
        vector, latents = (part.numpy() for part in voice)
        write_voice(self._voices_folder, SavedVoice(facts, vector, latents))
        return voice

    def saved_voice(self, name: str) -> Voice:
        """A voice saved with this checkpoint; one encoded with other weights is an error."""
        saved = read_voice(self._voices_folder, name)
        saved.require_weights(self.step, self._weights_sha256)
        model = self.config.model
        if (saved.facts.width, saved.facts.latents) != (model.voice_width, model.voice_latents):
            raise CheckpointError(f"voice '{name}': its widths do not match its checkpoint")
        return Voice(tf.constant(saved.vector), tf.constant(saved.latents))

    def voice_of(self, waveform: FloatArray) -> Voice:
        """Encodes the voice of samples at `sample_rate_hz`, without preprocessing."""
        log_mel = clip_log_mel(self.config.audio, self.config.data.n_mels)
        stretch = _MEL_STRETCH_SECONDS * self.sample_rate_hz
        mels = [
            log_mel(waveform[start : start + stretch])
            for start in range(0, max(waveform.size, 1), stretch)
        ]
        return self._sampler.voice(np.concatenate(mels))

    def tts(
        self,
        text: str,
        speaker_wav: Paths | Voice,
        language: str | None = None,
        *,
        split_sentences: bool = True,
        options: SpeechOptions | None = None,
    ) -> FloatArray:
        """Samples in [-1, 1] at `sample_rate_hz`."""
        options = options or SpeechOptions()
        language = self.tokenizer.own_language(language or self.languages[0])
        language_id = self.tokenizer.language_id(language)
        training = self.config.training
        _check_guidance("text", options.text_guidance, training.text_drop_rate)
        _check_guidance("voice", options.voice_guidance, training.voice_drop_rate)
        # All input errors are found before anything is computed.
        encoded = self._encode(text, language, split_sentences)
        voice = speaker_wav if isinstance(speaker_wav, Voice) else self.voice(speaker_wav)
        rate = self.sample_rate_hz
        pause = np.zeros(int(_PAUSE_SECONDS * rate), np.float32)
        pieces: list[FloatArray] = []
        for token_ids in encoded:
            [mel] = self._sampler.mels([token_ids], [language_id], voice, options)
            waveform = self.vocoder.samples(mel, seed=options.seed)
            level = set_loudness(waveform, rate, _SPOKEN_LOUDNESS_DBFS)
            pieces += [_faded(level, int(_FADE_SECONDS * rate)), pause]
        return np.concatenate(pieces[:-1])

    def tts_to_file(
        self,
        *,
        text: str,
        speaker_wav: Paths | Voice,
        language: str | None = None,
        file_path: str | Path = "output.wav",
        split_sentences: bool = True,
        options: SpeechOptions | None = None,
    ) -> Path:
        file = Path(file_path)
        if not file.parent.is_dir():
            raise DataError(f"{file}: cannot be written (no folder {file.parent})")
        waveform = self.tts(
            text, speaker_wav, language, split_sentences=split_sentences, options=options
        )
        write_wav(file.resolve(), waveform, self.sample_rate_hz)
        return file

    def _recordings(self, speaker_wav: Paths) -> list[tuple[Path, FloatArray]]:
        """Each file with its samples: trimmed, normalised and long enough to encode a voice."""
        files = [speaker_wav] if isinstance(speaker_wav, str | Path) else list(speaker_wav)
        audio = self.config.audio
        recordings = []
        for file in files:
            recording = clean_recording(read_audio(Path(file), audio.sample_rate_hz), audio)
            seconds = recording.size / audio.sample_rate_hz
            if seconds < _SHORTEST_REFERENCE_SECONDS or not recording.any():
                raise DataError(
                    f"{file}: {seconds:.2f} s of audio, expected at least "
                    f"{_SHORTEST_REFERENCE_SECONDS} s of speech"
                )
            recordings.append((Path(file), recording))
        if not recordings:
            raise DataError("speaker_wav: is empty, expected at least one recording")
        return recordings

    def _encode(self, text: str, language: str, split: bool) -> list[list[int]]:
        """Token ids per sentence; sentences without speakable text are skipped unless all are."""
        if len(text) > _MOST_CHARACTERS:
            raise DataError(
                f"text has {len(text)} characters, expected at most {_MOST_CHARACTERS}; split it "
                "into parts"
            )
        sentences = find_language(language).sentences.split(text) if split else [text]
        encoded = []
        for sentence in sentences:
            try:
                encoded.append(self.tokenizer.encode(sentence, language))
            except DataError:
                continue
        encoded = encoded or [self.tokenizer.encode(text, language)]
        longest = max(map(len, encoded))
        if longest > _MOST_TOKENS:
            raise DataError(
                f"a sentence has {longest} tokens, expected at most {_MOST_TOKENS}; end sentences "
                "with a full stop"
            )
        return encoded


def _printable(file_name: str) -> str:
    """File names need not be valid Unicode."""
    return file_name.encode(errors="replace").decode()


def _faded(waveform: FloatArray, samples: int) -> FloatArray:
    """Fades in and out, to avoid clicks."""
    samples = min(samples, waveform.size // 2)
    ramp = np.linspace(0.0, 1.0, samples, endpoint=False, dtype=np.float32)
    faded = waveform.copy()
    faded[:samples] *= ramp
    faded[faded.size - samples :] *= ramp[::-1]
    return faded


def _check_guidance(condition: str, guidance: float | None, drop_rate: float) -> None:
    if guidance and not drop_rate:
        raise DataError(
            f"{condition}_guidance: found {guidance:g}, but this run was trained with "
            f"training.{condition}_drop_rate 0, without classifier-free guidance; expected 0"
        )
