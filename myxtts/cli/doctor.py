"""`myxtts doctor`: checks that everything training needs is installed and works."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myxtts.cli.console import say
from myxtts.cli.exit_codes import CHECK_FAILED
from myxtts.errors import MyXTTSError

if TYPE_CHECKING:
    from myxtts.devices.checkup import CheckResult

# TensorFlow alone takes 0.6 GB, a run of the tiny model 1.3 GB.
_LEAST_MEMORY_MB, _ENOUGH_MEMORY_MB = 1_536, 4_096
# Three checkpoints of the tiny model take 0.3 GB, the features of an hour of speech 0.2 GB.
_LEAST_DISK_MB, _ENOUGH_DISK_MB = 1_024, 10_240


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "doctor",
        help="check TensorFlow, GPUs, memory, disk, audio and phonemes",
        description="Check what training needs, one line each, with a fix for what is wrong. Exit "
        "code 0: nothing is broken (training needs no GPU); 1: something is.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def run(options: argparse.Namespace) -> int:
    from myxtts.devices.checkup import check_up
    from myxtts.devices.machine import describe_machine
    from myxtts.devices.nvml import read_nvml
    from myxtts.devices.probe import ask_tensorflow

    results = list(_show(_check_surroundings(), options.json))
    machine, tensorflow, nvml = describe_machine(), ask_tensorflow(), read_nvml()
    results += _show(check_up(machine, tensorflow, nvml), options.json)
    broken = [result.name for result in results if result.state == "broken"]
    if options.json:
        content = {
            "ok": not broken,
            "checks": [dataclasses.asdict(result) for result in results],
            "machine": dataclasses.asdict(machine),
            "tensorflow": dataclasses.asdict(tensorflow),
            "nvml": dataclasses.asdict(nvml),
        }
        print(json.dumps(content, ensure_ascii=False, indent=1))
    else:
        say(f"\nBroken: {', '.join(broken)}" if broken else "\nNothing is broken.")
    return CHECK_FAILED if broken else 0


def _show(results: Iterable[CheckResult], as_json: bool) -> Iterator[CheckResult]:
    for result in results:
        if not as_json:
            remedy = f"; fix: {result.remedy}" if result.remedy else ""
            say(f"{result.state:<8}{result.name:<12}{result.text}{remedy}")
        yield result


def _check_surroundings() -> Iterator[CheckResult]:
    yield check_memory()
    yield check_disk(Path.cwd())
    yield check_audio()
    yield check_phonemes()


def check_memory(root: Path = Path("/")) -> CheckResult:
    from myxtts.devices.checkup import CheckResult
    from myxtts.devices.machine import read_memory

    memory = read_memory(root)
    if memory is None:
        return CheckResult("Memory", "note", "unknown on this system")
    return _judge_amount(
        CheckResult("Memory", "fine", f"{_gb(memory.free_mb)} of {_gb(memory.total_mb)} free"),
        memory.free_mb,
        (_LEAST_MEMORY_MB, _ENOUGH_MEMORY_MB),
        "close other programs, or train with a smaller --batch-size",
    )


def check_disk(folder: Path) -> CheckResult:
    from myxtts.devices.checkup import CheckResult
    from myxtts.devices.machine import free_disk_mb

    elsewhere = "--run-dir DIR --set data.cache_dir=DIR"
    if not os.access(folder, os.W_OK):
        text = f"no permission to write to {folder}"
        return CheckResult(
            "Disk", "broken", text, f"change to another folder, or train with {elsewhere}"
        )
    free_mb = free_disk_mb(folder)
    return _judge_amount(
        CheckResult("Disk", "fine", f"{_gb(free_mb)} free in {folder}"),
        free_mb,
        (_LEAST_DISK_MB, _ENOUGH_DISK_MB),
        f"free some space, or train with {elsewhere}",
    )


def _judge_amount(
    result: CheckResult, free_mb: int, bounds_mb: tuple[int, int], remedy: str
) -> CheckResult:
    """Unchanged if the upper bound is free; a note below it; broken below the lower one."""
    least_mb, enough_mb = bounds_mb
    if free_mb >= enough_mb:
        return result
    too_little = free_mb < least_mb
    return dataclasses.replace(
        result,
        state="broken" if too_little else "note",
        text=f"{result.text}; {_gb(least_mb if too_little else enough_mb)} or more "
        f"{'needed' if too_little else 'recommended'}",
        remedy=remedy,
    )


def _gb(size_mb: int) -> str:
    return f"{size_mb / 1024:.1f} GB"


def check_audio() -> CheckResult:
    """Writes one second of audio, reads it back and resamples it."""
    from myxtts.devices.checkup import CheckResult, pip_command

    remedy = f"{pip_command()} install --force-reinstall soundfile soxr"
    try:
        import numpy as np
        import soundfile
        import soxr

        from myxtts.audio.files import read_audio
        from myxtts.audio.writing import write_audio

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


def check_phonemes() -> CheckResult:
    from myxtts.devices.checkup import CheckResult, pip_command

    try:
        from myxtts.text.languages import REGISTRY
        from myxtts.text.phonemes import phoneme_symbols

        spoken = [
            f"{code} ({''.join(phoneme_symbols(language.greeting, code))})"
            for code, language in REGISTRY.items()
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
