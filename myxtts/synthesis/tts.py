"""Synthesizes speech from text and a few seconds of a voice."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from myxtts.audio.files import audio_writer, require_writable
from myxtts.audio.griffin_lim import Vocoder
from myxtts.audio.mel import clip_log_mel, log_mel
from myxtts.errors import CheckpointError, DataError
from myxtts.models.speech_options import SpeechOptions
from myxtts.models.vocoder import NeuralVocoder
from myxtts.models.voice_encoder import Voice
from myxtts.runs.run_dir import RunDir, run_or_base
from myxtts.runs.trained_model import find_vocoder, load_model
from myxtts.synthesis.script import FloatArray, Line, ScriptWriter, SpokenLine
from myxtts.synthesis.speaker import Speaker, always_wanted
from myxtts.synthesis.subtitles import TimedLine, require_subtitle_file, timed_line, write_subtitles
from myxtts.synthesis.voices import (
    Paths,
    Reference,
    ReferenceRecording,
    Samples,
    SavedVoice,
    VoiceFacts,
    VoiceStore,
    is_samples,
    read_reference,
    reference_files,
    reference_samples,
    reference_state,
    write_voice,
)
from myxtts.text.markup import Lexicon
from myxtts.version import VERSION

# done, total
OnProgress = Callable[[int, int], None]

# Silence at both ends of a file; ASR models and players miss words without it.
EDGE_SECONDS = 0.1
# Computing a mel takes many times its own memory, so long recordings are cut.
_MAX_MEL_SECONDS = 60
_REMEMBERED_VOICES = 64
# warm_up() prepares sentences up to these lengths; longer ones are rare.
_WARM_TOKENS = 256
_WARM_POSITIONS = 512


class _NamedVoice(NamedTuple):
    voice: Voice
    name: str
    """Name in the metadata of written files."""


class TTS:
    """A trained run, ready to speak; threads may share it.

    >>> tts = TTS("runs/demo")                                              # doctest: +SKIP
    >>> tts.tts_to_file(text="Hello.", speaker_wav="me.wav", language="en", file_path="out.wav")
    """

    def __init__(
        self,
        run: str | Path | None = None,
        *,
        vocoder: Vocoder | str | Path | None = None,
        compiled: bool = True,
        loudness: float = SpeechOptions.loudness,
    ) -> None:
        """Load a run; None is the included base model.

        `vocoder` is one, "griffin-lim" or the folder of a run; None is the included one. Without
        `compiled` the first sentence is spoken seconds earlier, and all others more slowly.
        `loudness` is used where no `options` are given.
        """
        self._default_options = SpeechOptions(loudness=loudness)
        folder = run_or_base(run)
        model = load_model(folder, compiled=compiled)
        self.config, self.tokenizer, self.step = model.config, model.tokenizer, model.step
        self.sampler = model.sampler
        self._run_name = RunDir.around(folder).path.resolve().name
        self._weights_sha256 = model.weights_sha256
        self.voice_store = VoiceStore(folder)
        if vocoder is None or isinstance(vocoder, str | Path):
            vocoder = find_vocoder(vocoder, self.config, compiled=compiled)
        self.vocoder = vocoder
        self._is_compiled = compiled
        self._speaker = Speaker(model.sampler, vocoder, self.config.audio)
        self._writer = ScriptWriter(self.tokenizer, self.config.data.max_text_length)
        self._encoded_voice = functools.lru_cache(maxsize=_REMEMBERED_VOICES)(self._encode_files)
        self._encoded_speaker = functools.lru_cache(maxsize=_REMEMBERED_VOICES)(
            lambda name: self._speaker.voice(self.voice_store.speakers[name])
        )

    def _with_speed(self, options: SpeechOptions | None, speed: float | None) -> SpeechOptions:
        options = options or self._default_options
        return options if speed is None else replace(options, speed=speed)

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages of the run; the first is the default."""
        first = self.tokenizer.language_or_default(None, self.config.text.default_language)
        return (first, *(one for one in self.tokenizer.languages if one != first))

    @property
    def sample_rate_hz(self) -> int:
        return self.config.audio.sample_rate_hz

    @property
    def edge(self) -> FloatArray:
        """Silence at both ends of every file."""
        return self._silence(EDGE_SECONDS)

    @property
    def traces(self) -> int:
        """How often TensorFlow traced a function for speaking; constant after `warm_up`."""
        of_vocoder = self.vocoder.traces if isinstance(self.vocoder, NeuralVocoder) else 0
        return self.sampler.traces + of_vocoder

    @property
    def voices(self) -> list[str]:
        """Names of saved voices, included ones and speakers of the corpus, the default first."""
        return self.voice_store.names

    def voice(self, speaker_wav: Paths) -> Voice:
        """Encode the voice of one or more recordings; cached while the files do not change."""
        files = reference_files(speaker_wav)
        return self._encoded_voice(files, tuple(map(reference_state, files)))

    def add_voice(self, name: str, speaker_wav: Paths, *, replace: bool = False) -> Voice:
        """Encode a voice and save it with the run, to speak with it by name.

        Voices of the included base model are saved in the user's data folder.
        """
        name = self.voice_store.require_free(name, replace=replace)
        recordings = self._read(reference_files(speaker_wav))
        voice = self.voice_of(np.concatenate([recording.samples for recording in recordings]))
        facts = VoiceFacts(
            name=name,
            references=[
                Reference(_printable(file.name), samples.size / self.sample_rate_hz)
                for file, samples in recordings
            ],
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            step=self.step,
            weights_sha256=self._weights_sha256,
            width=self.config.model.voice_width,
            latents=self.config.model.voice_latents,
        )
        vector, latents = (part.numpy() for part in voice)
        write_voice(self.voice_store.folder, SavedVoice(facts, vector, latents))
        return voice

    def saved_voice(self, name: str) -> Voice:
        """Return a voice by its name; one encoded with other weights is an error."""
        store = self.voice_store
        if name in store.speakers and store.source(name) == "speaker":
            return self._encoded_speaker(name)
        saved = store.read(name)
        saved.require_weights(self.step, self._weights_sha256)
        model = self.config.model
        if (saved.facts.width, saved.facts.latents) != (model.voice_width, model.voice_latents):
            raise CheckpointError(f"voice '{name}': its widths do not match its checkpoint")
        return Voice(tf.constant(saved.vector), tf.constant(saved.latents))

    def voice_of(self, waveform: FloatArray) -> Voice:
        """Encode the voice of samples at `sample_rate_hz`, without preprocessing."""
        length = _MAX_MEL_SECONDS * self.sample_rate_hz
        mels = [
            self._log_mel(waveform[start : start + length])
            for start in range(0, max(waveform.size, 1), length)
        ]
        return self._speaker.voice(np.concatenate(mels))

    def warm_up(self, options: SpeechOptions | None = None) -> None:
        """Run every usual shape once, so that the first sentence is as fast as the others."""
        self._speaker.warm_up(
            options or self._default_options, tokens=_WARM_TOKENS, positions=_WARM_POSITIONS
        )

    def tts(
        self,
        text: str,
        speaker_wav: Paths | Samples | Voice | None = None,
        language: str | None = None,
        *,
        voice: str | None = None,
        split_sentences: bool = True,
        lexicon: Lexicon | None = None,
        speed: float | None = None,
        options: SpeechOptions | None = None,
    ) -> FloatArray:
        """Return samples in [-1, 1] at `sample_rate_hz`.

        >>> samples = tts.tts("Hello.", voice="anna", speed=1.2)  # doctest: +SKIP

        The text may be SSML. The voice is that of recordings, of samples with their rate, or one of
        `voices` by its name. Without them it is the first of `voices`: the speaker of a run with
        one.
        """
        spoken = self.lines(
            text,
            speaker_wav,
            language,
            voice=voice,
            split_sentences=split_sentences,
            lexicon=lexicon,
            options=self._with_speed(options, speed),
        )
        return np.concatenate([self._with_pause(one) for one in spoken])

    def tts_to_file(
        self,
        *,
        text: str,
        speaker_wav: Paths | Samples | Voice | None = None,
        language: str | None = None,
        file_path: str | Path = "output.wav",
        voice: str | None = None,
        split_sentences: bool = True,
        lexicon: Lexicon | None = None,
        speed: float | None = None,
        options: SpeechOptions | None = None,
        subtitles: str | Path | None = None,
        on_progress: OnProgress = lambda done, total: None,
        on_samples: Callable[[FloatArray], None] | None = None,
    ) -> Path:
        """Write wav, flac, ogg or mp3, by the file extension, while speech is computed.

        The file has a tenth of a second of silence at both ends.

        `subtitles` is a .srt, .vtt or .json file for the times of sentences and words.
        `on_progress` counts sentences.
        `on_samples` receives the written samples in chunks, as from `stream`; subtitles are not
        available then.
        """
        file = Path(file_path)
        require_writable(file)
        if subtitles is not None:
            require_subtitle_file(Path(subtitles))
        options = self._with_speed(options, speed)
        lines = self._script(text, language, split_sentences, options, lexicon)
        chosen = self._chosen_voice(speaker_wav, voice)
        tags = tags_of(self._run_name, self.step, chosen.name)
        with audio_writer(file, self.sample_rate_hz, tags) as write:
            write(self.edge)
            if on_samples is not None:
                for chunk in self._stream(lines, chosen.voice, options):
                    on_samples(chunk)
                    write(chunk)
                write(self.edge)
                return file
            timed: list[TimedLine] = []
            start_seconds = EDGE_SECONDS
            for done, one in enumerate(self._speaker.speak(lines, chosen.voice, options)):
                on_progress(done, len(lines))
                samples = self._with_pause(one)
                write(samples)
                if subtitles is not None and one.line.token_ids:
                    timed.append(timed_line(one, self.tokenizer, start_seconds))
                start_seconds += samples.size / self.sample_rate_hz
            write(self.edge)
            on_progress(len(lines), len(lines))
            if subtitles is not None:
                write_subtitles(Path(subtitles), timed)
        return file

    def stream(
        self,
        text: str,
        speaker_wav: Paths | Samples | Voice | None = None,
        language: str | None = None,
        *,
        voice: str | None = None,
        split_sentences: bool = True,
        lexicon: Lexicon | None = None,
        speed: float | None = None,
        options: SpeechOptions | None = None,
    ) -> Iterator[FloatArray]:
        """Yield the samples of `tts` in chunks, each as soon as it is ready.

        With a trained vocoder the first chunk comes before its sentence is done. The level of a
        sentence is that of its first chunk.
        """
        options = self._with_speed(options, speed)
        lines = self._script(text, language, split_sentences, options, lexicon)
        chosen = self._chosen_voice(speaker_wav, voice)
        return self._stream(lines, chosen.voice, options)

    def lines(
        self,
        text: str,
        speaker_wav: Paths | Samples | Voice | None = None,
        language: str | None = None,
        *,
        voice: str | None = None,
        split_sentences: bool = True,
        lexicon: Lexicon | None = None,
        options: SpeechOptions | None = None,
        is_wanted: Callable[[], bool] = always_wanted,
    ) -> Iterator[SpokenLine]:
        """Yield one sentence after the other, with its times; errors come before the first.

        Raises UnwantedError once `is_wanted` returns False.
        """
        options = options or self._default_options
        lines = self._script(text, language, split_sentences, options, lexicon)
        chosen = self._chosen_voice(speaker_wav, voice)
        return self._speaker.speak(lines, chosen.voice, options, is_wanted)

    def _log_mel(self, waveform: FloatArray) -> FloatArray:
        audio, n_mels = self.config.audio, self.config.data.n_mels
        if self._is_compiled:
            return clip_log_mel(audio, n_mels)(waveform)
        of_waveform: FloatArray = log_mel(waveform, audio, n_mels).numpy()
        return of_waveform

    def _script(
        self,
        text: str,
        language: str | None,
        split: bool,
        options: SpeechOptions,
        lexicon: Lexicon | None,
    ) -> list[Line]:
        if not isinstance(text, str):
            raise DataError(f"text: found {type(text).__name__}, expected a string")
        language = self.tokenizer.own_language(language or self.languages[0])
        training = self.config.training
        for condition, guidance, drop_rate in (
            ("text", options.text_guidance, training.text_drop_rate),
            ("voice", options.voice_guidance, training.voice_drop_rate),
        ):
            if guidance and not drop_rate:
                raise DataError(
                    f"{condition}_guidance: found {guidance:g}, but this run was trained with "
                    f"training.{condition}_drop_rate 0, without classifier-free guidance; "
                    "expected 0"
                )
        return self._writer.lines(text, language, split=split, lexicon=lexicon)

    def _chosen_voice(
        self, speaker_wav: Paths | Samples | Voice | None, name: str | None
    ) -> _NamedVoice:
        if speaker_wav is not None and name is not None:
            raise DataError("speaker_wav and voice: both are given, expected one of them")
        if isinstance(speaker_wav, Voice):
            return _NamedVoice(speaker_wav, "given as numbers")
        if is_samples(speaker_wav):
            waveform = reference_samples(*speaker_wav, self.config.audio)
            return _NamedVoice(self.voice_of(waveform), "given as samples")
        if speaker_wav is not None:
            files = reference_files(speaker_wav)
            names = ", ".join(_printable(file.name) for file in files)
            return _NamedVoice(self.voice(files), names)
        if name is None:
            saved = self.voices
            if not saved:
                raise DataError(
                    f"no voice was given, and {self._run_name} has none; give recordings "
                    "(speaker_wav), or save a voice with myxtts voice add"
                )
            name = saved[0]
        return _NamedVoice(self.saved_voice(name), name)

    def _encode_files(self, files: tuple[Path, ...], states: tuple[object, ...]) -> Voice:
        """Encode reference files; `states` invalidate the cache when files change."""
        return self.voice_of(np.concatenate([it.samples for it in self._read(files)]))

    def _read(self, files: tuple[Path, ...]) -> list[ReferenceRecording]:
        return [read_reference(file, self.config.audio) for file in files]

    def _stream(
        self, lines: list[Line], voice: Voice, options: SpeechOptions
    ) -> Iterator[FloatArray]:
        for line in lines:
            yield from self._speaker.stream(line, voice, options)
            if line.pause_seconds:
                yield self._silence(line.pause_seconds)

    def _with_pause(self, spoken: SpokenLine) -> FloatArray:
        return np.concatenate([spoken.samples, self._silence(spoken.line.pause_seconds)])

    def _silence(self, seconds: float) -> FloatArray:
        return np.zeros(int(seconds * self.sample_rate_hz), np.float32)


def _printable(file_name: str) -> str:
    """Return the path as text: file names need not be valid Unicode."""
    return file_name.encode(errors="replace").decode()


def tags_of(run: str, step: int, voice: str) -> dict[str, str]:
    """Return the metadata tags of a file."""
    return {
        "comment": f"Synthetic speech, not a recording. Made by MyXTTS {VERSION} with the "
        f"model {run} (step {step}) in the voice: {voice}",
        "artist": f"MyXTTS (synthetic voice: {voice})",
        "date": datetime.now(UTC).date().isoformat(),
    }
