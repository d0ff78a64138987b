"""Formats that libsndfile does not read, decoded by ffmpeg where it is installed."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from pathlib import Path

# Sound alone, and video whose sound is taken.
FFMPEG_EXTENSIONS = (
    *(".m4a", ".aac", ".wma", ".amr", ".m4b", ".ac3"),
    *(".mp4", ".mov", ".mkv", ".webm", ".avi", ".3gp", ".wmv"),
)
_SECONDS_ALLOWED = 600


class FfmpegError(Exception):
    """What went wrong, in one line."""


def is_for_ffmpeg(file: Path) -> bool:
    return file.suffix.lower() in FFMPEG_EXTENSIONS


def decode(file: Path, longest_seconds: float) -> io.BytesIO:
    """The first sound of a file as WAV, a little longer than allowed if it is too long."""
    arguments = ["-map", "0:a:0", "-t", str(longest_seconds + 1), "-f", "wav"]
    output = _run("ffmpeg", file, [*arguments, "-c:a", "pcm_f32le", "pipe:1"])
    return io.BytesIO(output)


def duration_seconds(file: Path) -> float:
    shown = _run("ffprobe", file, ["-show_entries", "format=duration", "-of", "json"])
    try:
        return float(json.loads(shown)["format"]["duration"])
    except (ValueError, KeyError, TypeError):
        raise FfmpegError("no duration in it") from None


def _run(program: str, file: Path, arguments: list[str]) -> bytes:
    if shutil.which(program) is None:
        raise FfmpegError(
            f"{file.suffix.lower().lstrip('.')} is read through {program}, which is not "
            "installed; install ffmpeg (apt install ffmpeg, brew install ffmpeg), or convert the "
            "file to wav or flac"
        )
    quiet = ["-v", "error", *(["-nostdin"] if program == "ffmpeg" else [])]
    # Playlists inside a file must not lead to the network or to other files.
    source = ["-protocol_whitelist", "file,pipe", "-i", f"file:{file}"]
    try:
        result = subprocess.run(
            [program, *quiet, *source, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS_ALLOWED,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise FfmpegError(f"{program} failed ({type(error).__name__})") from None
    if result.returncode:
        lines = result.stderr.decode(errors="replace").strip().splitlines()
        raise FfmpegError(f"{program}: {lines[-1] if lines else 'failed'}")
    return result.stdout
