"""`myxtts voice`: encodes voices once and saves them with their run; lists and removes them."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from myxtts.cli.console import Progress, say, say_json
from myxtts.cli.parser import CommandParser, add_json, add_message_flags
from myxtts.devices.startup import load_tensorflow
from myxtts.errors import CheckpointError, ConfigError, plural
from myxtts.runs.run_dir import find_checkpoint, model_name, run_or_base
from myxtts.synthesis.voices import (
    VoiceFacts,
    read_voice,
    remove_voice,
    require_free_name,
    voice_names,
    voices_folder,
)


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: CommandParser = commands.add_parser(
        "voice",
        help="save voices and use them by name",
        description="Encode a voice once and save it with the run, to use by name. A voice works "
        "only with the checkpoint that encoded it.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = actions.add_parser("add", help="encode a voice and save it")
    _add_run(add)
    add.add_argument("name", metavar="NAME", help="name of the voice: letters, digits and . _ -")
    add.add_argument(
        "recordings",
        nargs="+",
        metavar="REF",
        help="recordings of one speaker; a few seconds in total are enough",
    )
    add.add_argument("--replace", action="store_true", help="replace an existing voice")
    listing = actions.add_parser("list", help="list the saved voices")
    _add_run(listing)
    add_json(listing)
    remove = actions.add_parser("remove", help="delete a voice")
    _add_run(remove)
    remove.add_argument("name", metavar="NAME", help="name of the voice")
    for action, run_action in ((add, _add), (listing, _list), (remove, _remove)):
        # Flags that also work before the action.
        add_message_flags(action, argparse.SUPPRESS)
        action.set_defaults(run_action=run_action)
    for one in (parser, add, listing, remove):
        one.why_no_language = "a voice works in every language of its run"
    return parser


def run(options: argparse.Namespace) -> int:
    done: int = options.run_action(options)
    return done


def _add_run(action: argparse.ArgumentParser) -> None:
    action.add_argument(
        "run_dir", nargs="?", metavar="RUN", help="folder of a trained run, or base"
    )
    action.add_argument(
        "--checkpoint", metavar="RUN", help="the same as the argument (default: none)"
    )


def _arguments(options: argparse.Namespace, usage: str) -> list[str]:
    """Return the arguments of an action from the run on, wherever --checkpoint moved them."""
    given = (options.checkpoint, options.run_dir, getattr(options, "name", None))
    words = [word for word in given if word is not None] + getattr(options, "recordings", [])
    names = usage.removesuffix(" ...").split()
    if len(words) < len(names) or (len(words) > len(names) and not usage.endswith("...")):
        found = ", ".join(words) or "nothing"
        raise ConfigError(f"found {found}; expected myxtts voice {options.action} {usage}")
    return words


def _add(options: argparse.Namespace) -> int:
    run, name, *files = _arguments(options, "RUN NAME REF ...")
    recordings = [Path(file) for file in files]
    run_dir = run_or_base(run)
    folder = voices_folder(run_dir)
    name = require_free_name(folder, name, replace=options.replace)
    with Progress() as progress:
        progress.begin("loading TensorFlow")
        load_tensorflow()
        from myxtts.synthesis.tts import TTS

        progress.begin(f"loading {model_name(run_dir)}")
        tts = TTS(run_dir)
        progress.begin("encoding the voice")
        tts.add_voice(name, recordings, replace=options.replace)
    facts = read_voice(folder, name).facts
    seconds = sum(reference.seconds for reference in facts.references)
    count = len(facts.references)
    say(
        f"{folder / name}.json: encoded {seconds:.1f} s from {count} "
        f"{plural(count, 'recording')} with the checkpoint of step {facts.step:,}"
    )
    return 0


def _list(options: argparse.Namespace) -> int:
    [run] = _arguments(options, "RUN")
    run_dir = run_or_base(run)
    checkpoint = find_checkpoint(run_dir, for_synthesis=True)
    folder = voices_folder(run_dir)
    step, weights = checkpoint.info.step, checkpoint.weights_checksum()
    voices = [_row(folder, name, step, weights) for name in voice_names(folder)]
    if options.json:
        content = {"checkpoint": str(checkpoint.folder), "step": step, "voices": voices}
        say_json(content)
        return 0
    say("\n".join(_table(voices)) if voices else f"{folder}: no voices yet")
    return 0


def _row(folder: Path, name: str, step: int, weights: str) -> dict[str, Any]:
    """Describe a voice; `problem` is None if it can be used."""
    facts: dict[str, Any] = dict.fromkeys(VoiceFacts.__dataclass_fields__)
    problem = None
    try:
        voice = read_voice(folder, name)
        facts = asdict(voice.facts)
        voice.require_weights(step, weights)
    except CheckpointError as error:
        problem = str(error)
    return {**facts, "name": name, "problem": problem}


def _table(voices: list[dict[str, Any]]) -> list[str]:
    width = max(4, *(len(voice["name"]) for voice in voices))
    lines = [f"{'name':<{width}}{'step':>10}{'seconds':>9}  {'made':<22}recordings"]
    for voice in voices:
        if voice["made"] is not None:
            seconds = sum(reference["seconds"] for reference in voice["references"])
            files = ", ".join(reference["file"] for reference in voice["references"])
            lines.append(
                f"{voice['name']:<{width}}{voice['step']:>10,}{seconds:>9.1f}  "
                f"{voice['made'][:19]:<22}{files}"
            )
        if voice["problem"]:
            lines.append(f"  {voice['problem']}")
    return lines


def _remove(options: argparse.Namespace) -> int:
    run, name = _arguments(options, "RUN NAME")
    folder = voices_folder(run_or_base(run))
    remove_voice(folder, name)
    say(f"{folder}: removed '{name}'")
    return 0
