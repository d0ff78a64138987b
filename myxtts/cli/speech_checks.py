"""Mistakes in what a command should speak, found before TensorFlow is loaded."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from myxtts.errors import CheckpointError

if TYPE_CHECKING:
    from myxtts.runs.first_look import FirstLook
    from myxtts.text.lexicon import Lexicon

_log = logging.getLogger(__name__)

# Longer texts are checked sentence by sentence, when they are spoken.
_CHARACTERS_CHECKED = 2_000


def look_at_speaker(run: Path, vocoder: str | Path | None) -> FirstLook:
    """A run that speaks, with a vocoder for its mels."""
    from myxtts.runs.first_look import first_look
    from myxtts.runs.vocoder_fit import require_fit

    look = first_look(run)
    task = look.config.training.task
    if task != "acoustic":
        raise CheckpointError(
            f"{look.folder}: is a {task}, expected a model that speaks; give a vocoder with "
            "--vocoder"
        )
    # "griffin-lim" stands in runs.vocoders, which loads TensorFlow.
    if vocoder is not None and str(vocoder) != "griffin-lim":
        found = first_look(vocoder)
        require_fit(found.folder, found.config, look.config)
    return look


def check_text(
    look: FirstLook, text: str, language: str | None, lexicon: Lexicon | None = None
) -> None:
    """A language of the run, and something to say in it; symbols without words are counted."""
    from myxtts.synthesis.script import ScriptWriter, require_speakable_length
    from myxtts.text.left_out import describe_left_out, left_out_symbols

    own = check_language(look, language)
    require_speakable_length(text)
    if len(text) <= _CHARACTERS_CHECKED:
        writer = ScriptWriter(look.tokenizer, look.config.data.max_text_length)
        writer.lines(text, own, lexicon=lexicon)
    if symbols := left_out_symbols(text, own):
        _log.warning("%s", describe_left_out(symbols))


def check_language(look: FirstLook, language: str | None) -> str:
    """The language of the run that is meant."""
    return look.tokenizer.language_or_default(language, look.config.text.default_language)


def check_references(files: Iterable[Path], look: FirstLook) -> None:
    from myxtts.synthesis.references import read_reference

    for file in files:
        read_reference(file, look.config.audio)


def check_voice(run: Path, name: str) -> None:
    from myxtts.synthesis.voices import read_voice, voices_folder

    read_voice(voices_folder(run), name)
