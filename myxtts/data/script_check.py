"""A corpus whose rows name no language and are written in another script than the default one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from myxtts.errors import DataError
from myxtts.text.languages import other_script, script_name, suggested_language
from myxtts.wording import quoted

if TYPE_CHECKING:
    from myxtts.data.metadata import Utterance

_SAMPLE_ROWS = 200


def require_script(file: Path, utterances: Sequence[Utterance], language: str) -> None:
    """Raises an error that names one row and the option to add, if most rows are so."""
    sample = utterances[:_SAMPLE_ROWS]
    foreign = [(item, other_script(item.text, language)) for item in sample]
    found = [(item, script) for item, script in foreign if script is not None]
    if 2 * len(found) <= len(sample):
        return
    item, script = found[0]
    raise DataError(
        f"{file.parent / item.source}: {quoted(item.text)} is written in {script_name(script)} "
        f"letters, but its language is taken to be '{language}'; add --language "
        f"{suggested_language(script)}, or a language column"
    )
