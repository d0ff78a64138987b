"""`myxtts doctor`: check what training needs, and prove what only GPUs can show."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myxtts.cli.console import say, say_json
from myxtts.cli.parser import CHECK_FAILED, add_json, flag_group
from myxtts.config.config import ASR_LANGUAGES, ASR_PACKAGE
from myxtts.errors import DeviceError, MyXTTSError, plural_count
from myxtts.files import write_file

if TYPE_CHECKING:
    from myxtts.devices.doctor import CheckResult, TensorFlowView

_NEEDED = ("TensorFlow",)
# Digits, which espeak-ng can read in any language.
_COUNTED = "1 2 3"
# TensorFlow alone takes 0.6 GB, a run of the tiny model 1.3 GB.
_MIN_MEMORY_MB, _RECOMMENDED_MEMORY_MB = 1_536, 4_096
# Three checkpoints of the tiny model take 0.3 GB, the features of an hour of speech 0.2 GB.
_MIN_DISK_MB, _RECOMMENDED_DISK_MB = 1_024, 10_240


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "doctor",
        help="check TensorFlow, GPUs, memory, disk, audio and phonemes",
        description="Check everything that training needs, one line each, with a fix for every "
        "problem. Exit code 0: ready to train (a GPU is not required); 1: something is "
        "broken.",
    )
    parser.add_argument(
        "--language",
        metavar="TAG",
        help="check the requirements of this language, such as de (default: en and fa)",
    )
    group = flag_group(parser, "proof")
    group.add_argument(
        "--prove",
        action="store_true",
        help="confirm what only GPUs can show with short runs, in half an hour or so, and write "
        "proof.json and proof.html",
    )
    group.add_argument(
        "--quick", action="store_true", help="with --prove: smaller and shorter runs"
    )
    group.add_argument(
        "--virtual-devices",
        type=int,
        default=0,
        metavar="N",
        help="with --prove: logical CPU devices that stand in for GPUs",
    )
    group.add_argument(
        "--out",
        type=Path,
        default=Path("myxtts-proof"),
        metavar="DIR",
        help="with --prove: folder for the two files (default: %(default)s)",
    )
    add_json(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    if options.prove:
        return _prove(options)
    from myxtts.devices.doctor import ask_tensorflow, check_up
    from myxtts.devices.machine import describe_machine
    from myxtts.devices.monitor import read_nvml

    language = None
    if options.language is not None:
        from myxtts.text.languages import parse_tag

        language = parse_tag(options.language, "--language")
    surroundings = list(_check_surroundings(language))
    machine, tensorflow, nvml = describe_machine(), ask_tensorflow(), read_nvml()
    found = list(check_up(machine, tensorflow, nvml))
    needed = [*surroundings, *(it for it in found if it.name in _NEEDED)]
    of_gpus = [it for it in found if it.name not in _NEEDED]
    extras = list(_check_extras(language))
    results = [*needed, *of_gpus, *extras]
    if not options.json:
        _show("Needed", needed)
        _show("For training on GPUs", of_gpus)
        _show("Extras", extras)
    broken = [result.name for result in results if result.state == "broken"]
    if options.json:
        content = {
            "ok": not broken,
            "checks": [dataclasses.asdict(result) for result in results],
            "machine": dataclasses.asdict(machine),
            "tensorflow": dataclasses.asdict(tensorflow),
            "nvml": dataclasses.asdict(nvml),
        }
        say_json(content)
    else:
        say(f"\nBroken: {', '.join(broken)}" if broken else f"\n{_conclusion(tensorflow)}")
    return CHECK_FAILED if broken else 0


def _prove(options: argparse.Namespace) -> int:
    from myxtts.devices.doctor import ask_tensorflow, explain_missing_gpu
    from myxtts.devices.machine import describe_machine
    from myxtts.devices.monitor import read_nvml
    from myxtts.evaluation.proof import Bench, machine_facts, prove
    from myxtts.evaluation.proof_page import proof_page

    view, nvml = ask_tensorflow(), read_nvml()
    devices = options.virtual_devices or len(view.gpus)
    if devices < 1:
        reason, _ = explain_missing_gpu(describe_machine(), view, nvml)
        raise DeviceError(f"--prove: found no GPU ({reason}); try --virtual-devices 3")
    started, claims = time.monotonic(), []
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        is_virtual = options.virtual_devices > 0
        bench = Bench(Path(folder).resolve(), devices, is_virtual, options.quick, nvml)
        for claim in prove(bench):
            claims.append({"devices": bench.where, **claim._asdict()})
            if not options.json:
                line = "{result}, {devices}: {subject}: {found}; expected: {expected}"
                say(line.format(**claims[-1]))
    content = {
        "devices": bench.where,
        "quick": options.quick,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "minutes": (time.monotonic() - started) / 60,
        "machine": machine_facts(view, nvml),
        "claims": claims,
        "charts": bench.charts,
    }
    write_file(options.out / "proof.json", json.dumps(content, indent=1))
    write_file(options.out / "proof.html", proof_page(content))
    if options.json:
        say_json(content)
    else:
        say(f"\nWritten: {options.out / 'proof.json'}, {options.out / 'proof.html'}")
    return CHECK_FAILED if any(claim["result"] == "fail" for claim in claims) else 0


def _show(title: str, results: Iterable[CheckResult]) -> None:
    say(title)
    for result in results:
        remedy = f"; fix: {result.remedy}" if result.remedy else ""
        say(f"  {result.state:<8}{result.name:<12}{result.text}{remedy}")


def _conclusion(tensorflow: TensorFlowView) -> str:
    count = len(tensorflow.gpus)
    where = f"on {plural_count(count, 'GPU')}" if count else "on the CPU, which is slow"
    return f"Nothing is broken: ready to train {where}."


def _check_surroundings(language: str | None) -> Iterator[CheckResult]:
    yield check_memory()
    yield check_disk(Path.cwd())
    yield check_audio()
    yield check_phonemes(language)


def _check_extras(language: str | None) -> Iterator[CheckResult]:
    """Check the optional extras."""
    from myxtts.devices.doctor import CheckResult, install_command

    if shutil.which("ffmpeg") is not None:
        yield CheckResult("ffmpeg", "fine", "reads m4a, aac, wma and the audio of videos")
    else:
        yield CheckResult(
            "ffmpeg",
            "note",
            "not installed: m4a, aac, wma and videos cannot be read",
            "apt install ffmpeg, or brew install ffmpeg",
        )
    missing = [module for module in ("jiwer", ASR_PACKAGE) if find_spec(module) is None]
    if missing:
        text = "not installed: myxtts evaluate cannot measure WER"
        yield CheckResult("Evaluation", "note", text, install_command("eval"))
    elif language is None or language.partition("-")[0] in ASR_LANGUAGES:
        yield CheckResult("Evaluation", "fine", "myxtts evaluate measures WER")
    else:
        text = f"the included ASR model is English only; WER in {language} needs Whisper"
        remedy = "myxtts evaluate --whisper DIR, with a model for faster-whisper"
        yield CheckResult("Evaluation", "note", text, remedy)


def check_memory() -> CheckResult:
    from myxtts.devices.doctor import CheckResult
    from myxtts.devices.machine import read_memory

    memory = read_memory()
    return _judge_amount(
        CheckResult("Memory", "fine", f"{_gb(memory.free_mb)} of {_gb(memory.total_mb)} free"),
        memory.free_mb,
        (_MIN_MEMORY_MB, _RECOMMENDED_MEMORY_MB),
        "close other programs, or train with a smaller --batch-size",
    )


def check_disk(folder: Path) -> CheckResult:
    from myxtts.devices.doctor import CheckResult

    elsewhere = "--run-dir DIR --set data.cache_dir=DIR"
    if not os.access(folder, os.W_OK):
        text = f"no permission to write to {folder}"
        return CheckResult(
            "Disk", "broken", text, f"change to another folder, or train with {elsewhere}"
        )
    free_mb = shutil.disk_usage(folder).free >> 20
    return _judge_amount(
        CheckResult("Disk", "fine", f"{_gb(free_mb)} free in {folder}"),
        free_mb,
        (_MIN_DISK_MB, _RECOMMENDED_DISK_MB),
        f"free some space, or train with {elsewhere}",
    )


def _judge_amount(
    result: CheckResult, free_mb: int, bounds_mb: tuple[int, int], remedy: str
) -> CheckResult:
    """Downgrade a result to a note below the upper bound and to broken below the lower one."""
    min_mb, recommended_mb = bounds_mb
    if free_mb >= recommended_mb:
        return result
    too_little = free_mb < min_mb
    return dataclasses.replace(
        result,
        state="broken" if too_little else "note",
        text=f"{result.text}; {_gb(min_mb if too_little else recommended_mb)} or more "
        f"{'needed' if too_little else 'recommended'}",
        remedy=remedy,
    )


def _gb(size_mb: int) -> str:
    return f"{size_mb / 1024:.1f} GB"


def check_audio() -> CheckResult:
    """Write one second of audio, read it back and resample it."""
    from myxtts.devices.doctor import CheckResult, pip_command

    remedy = f"{pip_command()} install --force-reinstall soundfile soxr"
    try:
        import numpy as np
        import soundfile
        import soxr

        from myxtts.audio.files import read_audio, write_audio

        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "second.wav"
            write_audio(file, np.zeros(22_050, np.float32), 22_050)
            samples = read_audio(file, 16_000).size
    except (ImportError, OSError, MyXTTSError) as error:
        return CheckResult("Audio", "broken", str(error), remedy)
    if samples != 16_000:
        text = f"one second resampled to {samples} samples, expected 16000"
        return CheckResult("Audio", "broken", text, remedy)
    formats = {"WAV", "FLAC", "OGG", "MP3"} & soundfile.available_formats().keys()
    return CheckResult(
        "Audio",
        "fine",
        f"soundfile {soundfile.__version__} with libsndfile {soundfile.__libsndfile_version__} "
        f"reads {', '.join(sorted(formats)).lower()}; soxr {soxr.__version__}",
    )


def check_phonemes(language: str | None = None) -> CheckResult:
    """Check phonemes of one language, or of all that have rules of their own."""
    from myxtts.devices.doctor import CheckResult, pip_command

    try:
        from myxtts.text.languages import REGISTRY, find_language
        from myxtts.text.tokenizer import phoneme_symbols

        spoken = [
            f"{code} ({''.join(phoneme_symbols(find_language(code).greeting or _COUNTED, code))})"
            for code in (REGISTRY if language is None else (language,))
        ]
    except (ImportError, OSError, MyXTTSError) as error:
        return CheckResult(
            "Phonemes",
            "broken",
            str(error),
            f"{pip_command()} install --force-reinstall espeakng-loader, or train with "
            "--set text.tokens=graphemes",
        )
    return CheckResult("Phonemes", "fine", f"espeak-ng speaks {', '.join(spoken)}")
