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
from myxtts.synthesis.voices import VoiceFacts, VoiceStore

_MAX_FILES_WIDTH = 40


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: CommandParser = commands.add_parser(
        "voice",
        help="save voices and use them by name",
        description="Encode a voice once and save it with the run, to use by name; voices for the "
        "base model are saved in your own data folder. A saved voice works only with the "
        "checkpoint that encoded it. The speakers of a run's corpus are voices too.",
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
    listing = actions.add_parser("list", help="list the voices of a run or of the base model")
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
    action.add_argument("--checkpoint", metavar="RUN", help="the same as the argument")


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
    store = VoiceStore(run_dir)
    name = store.require_free(name, replace=options.replace)
    with Progress() as progress:
        progress.begin("loading TensorFlow")
        load_tensorflow()
        from myxtts.synthesis.tts import TTS

        progress.begin(f"loading {model_name(run_dir)}")
        tts = TTS(run_dir)
        progress.begin("encoding the voice")
        tts.add_voice(name, recordings, replace=options.replace)
    facts = store.read(name).facts
    seconds = sum(reference.seconds for reference in facts.references)
    count = len(facts.references)
    say(
        f"{store.folder / name}.json: encoded {seconds:.1f} s from {count} "
        f"{plural(count, 'recording')} with the checkpoint of step {facts.step:,}"
    )
    return 0


def _list(options: argparse.Namespace) -> int:
    run_dir = run_or_base(options.run_dir or options.checkpoint)
    checkpoint = find_checkpoint(run_dir, for_synthesis=True)
    store = VoiceStore(run_dir)
    step, weights = checkpoint.info.step, checkpoint.weights_checksum()
    voices = [_row(store, name, step, weights) for name in store.names]
    if options.json:
        content = {"checkpoint": str(checkpoint.folder), "step": step, "voices": voices}
        say_json(content)
        return 0
    say("\n".join(_table(voices)) if voices else f"{store.folder}: no voices yet")
    return 0


def _row(store: VoiceStore, name: str, step: int, weights: str) -> dict[str, Any]:
    """Describe a voice; `problem` is None if it can be used."""
    facts: dict[str, Any] = dict.fromkeys(VoiceFacts.__dataclass_fields__)
    problem, source = None, store.source(name)
    if source != "speaker":
        try:
            voice = store.read(name)
            facts = asdict(voice.facts)
            voice.require_weights(step, weights)
        except CheckpointError as error:
            problem = str(error)
    return {**facts, "name": name, "source": source, "problem": problem}


def _table(voices: list[dict[str, Any]]) -> list[str]:
    width = max(4, *(len(voice["name"]) for voice in voices))
    lines = [f"{'name':<{width}}  {'source':<10}{'made':<12}{'seconds':>7}  recordings"]
    for voice in voices:
        references = voice["references"] or []
        seconds = f"{sum(it['seconds'] for it in references):.1f}" if references else ""
        files = ", ".join(it["file"] for it in references)
        if len(references) > 1 and len(files) > _MAX_FILES_WIDTH:
            files = f"{references[0]['file']} and {len(references) - 1} more"
        made = (voice["made"] or "")[:10]
        line = f"{voice['name']:<{width}}  {voice['source']:<10}{made:<12}{seconds:>7}  {files}"
        lines.append(line.rstrip())
        if voice["problem"]:
            lines.append(f"  {voice['problem']}")
    return lines


def _remove(options: argparse.Namespace) -> int:
    run, name = _arguments(options, "RUN NAME")
    store = VoiceStore(run_or_base(run))
    store.remove(name)
    say(f"{store.folder}: removed '{name}'")
    return 0
