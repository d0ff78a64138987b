"""The espeak-ng library of the `espeakng-loader` wheel, through ctypes.

Only phonemes and the demo corpus need it, so it is loaded on first use. The library has global
state (one voice at a time per process), hence the lock.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from myxtts.errors import DataError

SAMPLE_RATE_HZ = 22_050

_AUDIO_OUTPUT_SYNCHRONOUS = 2
_INITIALIZE_DONT_EXIT = 0x8000
_CHARS_UTF8 = 1
_PHONEMES_IPA = 0x02
_PARAMETER_RATE, _PARAMETER_PITCH, _PARAMETER_RANGE = 1, 3, 4
_POSITION_CHARACTER = 1
# espeak-ng copies the path into a buffer of 160 bytes and truncates longer ones.
_MAX_DATA_PATH = 120

_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
)
# Words have six or so on average.
_MAX_LETTERS_PER_WORD = 18
_lock = threading.Lock()
# Loading a voice takes longer than converting a sentence.
_chosen_voice: str | None = None


@functools.cache
def _library() -> Any:
    import espeakng_loader

    with _short_path(Path(espeakng_loader.get_data_path())) as data_path:
        library = ctypes.CDLL(espeakng_loader.get_library_path())
        library.espeak_TextToPhonemes.restype = ctypes.c_char_p
        rate = library.espeak_Initialize(
            _AUDIO_OUTPUT_SYNCHRONOUS, 0, str(data_path).encode(), _INITIALIZE_DONT_EXIT
        )
        if rate != SAMPLE_RATE_HZ:
            raise DataError(
                f"espeak-ng did not start with its data in {data_path} (returned {rate}, expected "
                f"{SAMPLE_RATE_HZ}); try 'pip install --force-reinstall espeakng-loader'"
            )
    # espeak-ng seeds its noise with the time; a fixed seed makes corpora reproducible.
    library.espeak_ng_SetRandSeed(ctypes.c_long(1))
    return library


def _stop() -> None:
    """Stop the library; the next use starts it again."""
    global _chosen_voice
    _library().espeak_Terminate()
    _library.cache_clear()
    _chosen_voice = None


@contextlib.contextmanager
def _short_path(path: Path) -> Iterator[Path]:
    """Yield `path` itself, or a link to it that is short enough for espeak-ng.

    The link lives as long as the process: espeak-ng opens dictionaries later.
    """
    if len(str(path).encode()) <= _MAX_DATA_PATH:
        yield path
        return
    link = Path(tempfile.mkdtemp(prefix="espeak-")) / "espeak-ng-data"
    link.symlink_to(path, target_is_directory=True)
    yield link


def _choose_voice(library: Any, voice: str) -> None:
    global _chosen_voice
    if voice == _chosen_voice:
        return
    _chosen_voice = None
    if library.espeak_SetVoiceByName(voice.encode()) != 0:
        raise DataError(
            f"espeak-ng has no voice '{voice}': choose a language code it supports, "
            "such as en-us, fa, de, or set text.tokens to graphemes"
        )
    _chosen_voice = voice


def phonemes(text: str, voice: str) -> str:
    """Return IPA phonemes; clauses are joined by a space and punctuation is lost."""
    with _lock:
        library = _library()
        _choose_voice(library, voice)
        buffer = ctypes.create_string_buffer(text.encode())
        cursor = ctypes.c_void_p(ctypes.addressof(buffer))
        clauses = []
        while cursor.value:
            clause = library.espeak_TextToPhonemes(ctypes.byref(cursor), _CHARS_UTF8, _PHONEMES_IPA)
            clauses.append((clause or b"").decode().strip())
    return " ".join(clause for clause in clauses if clause)


def speak(
    text: str, voice: str, *, words_per_minute: int = 175, pitch: int = 50, pitch_range: int = 50
) -> npt.NDArray[np.int16]:
    """Return the waveform at SAMPLE_RATE_HZ; pitch and range are 0 to 100."""
    parameters = {
        _PARAMETER_RATE: words_per_minute,
        _PARAMETER_PITCH: pitch,
        _PARAMETER_RANGE: pitch_range,
    }
    with _lock:
        samples = _spoken(text, voice, parameters)
        if not _is_whole(samples, text, words_per_minute):
            # Rarely, after many texts, the output is empty or incomplete until espeak-ng is
            # restarted.
            _stop()
            samples = _spoken(text, voice, parameters)
    if not samples.size:
        raise DataError(f"espeak-ng produced no audio for {text!r} with voice '{voice}'")
    return samples


def _is_whole(samples: npt.NDArray[np.int16], text: str, words_per_minute: int) -> bool:
    """Return whether the audio may be complete; symbols may be silent, letters are not."""
    max_letters_per_second = words_per_minute / 60 * _MAX_LETTERS_PER_WORD
    letters = sum(map(str.isalpha, text))
    return bool(samples.any()) and samples.size > letters / max_letters_per_second * SAMPLE_RATE_HZ


def _spoken(text: str, voice: str, parameters: Mapping[int, int]) -> npt.NDArray[np.int16]:
    pieces = [np.zeros(0, np.int16)]

    def collect(samples: Any, count: int, _events: Any) -> int:
        if samples and count > 0:
            pieces.append(np.ctypeslib.as_array(samples, shape=(count,)).copy())
        return 0

    library = _library()
    _choose_voice(library, voice)
    for parameter, value in parameters.items():
        library.espeak_SetParameter(parameter, value, 0)
    callback = _CALLBACK(collect)  # keep a reference: ctypes does not
    library.espeak_SetSynthCallback(callback)
    encoded = text.encode() + b"\0"
    library.espeak_Synth(encoded, len(encoded), 0, _POSITION_CHARACTER, 0, _CHARS_UTF8, None, None)
    library.espeak_Synchronize()
    return np.concatenate(pieces)
