"""Formats that libsndfile does not read, decoded by ffmpeg if it is installed."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

# Audio files, and videos whose audio track is used.
FFMPEG_EXTENSIONS = (
    *(".m4a", ".aac", ".wma", ".amr", ".m4b", ".ac3"),
    *(".mp4", ".mov", ".mkv", ".webm", ".avi", ".3gp", ".wmv"),
)
_TIMEOUT_SECONDS = 600
# Codec tags in MP4 of audio that FairPlay and Audible protect; ffprobe hides those of others.
_PROTECTED = ("drms", "aavd")


class FfmpegError(Exception):
    """An error of ffmpeg, in one line."""


def is_for_ffmpeg(file: Path) -> bool:
    return file.suffix.lower() in FFMPEG_EXTENSIONS


def is_installed() -> bool:
    return shutil.which("ffmpeg") is not None and shutil.which("ffprobe") is not None


def decode(file: Path, longest_seconds: float) -> io.BytesIO:
    """Return the first audio track as WAV, a little longer than allowed if it is too long."""
    arguments = ["-map", "0:a:0", "-t", str(longest_seconds + 1), "-f", "wav"]
    return io.BytesIO(_run("ffmpeg", file, [*arguments, "-c:a", "pcm_f32le", "pipe:1"]))


def duration_seconds(file: Path) -> float:
    shown = _run("ffprobe", file, ["-show_entries", "format=duration", "-of", "json"])
    try:
        return float(json.loads(shown)["format"]["duration"])
    except (ValueError, KeyError, TypeError):
        raise FfmpegError("no duration in it") from None


class AudioTrack(NamedTuple):
    """The first audio track of a file; seconds are None if the file does not declare them."""

    sample_rate_hz: int
    seconds: float | None
    file_seconds: float | None
    """Length of the longest track, which may be video."""


def first_track(file: Path) -> AudioTrack:
    entries = (
        "stream=sample_rate,duration,codec_tag_string:format=duration"
        ":packet=pts:packet_side_data=side_data_type"
    )
    first_packet = ["-select_streams", "a:0", "-read_intervals", "%+#1"]
    shown = _run("ffprobe", file, [*first_packet, "-show_entries", entries, "-of", "json"])
    try:
        content = json.loads(shown)
        if not content.get("streams"):
            raise FfmpegError("contains no sound")
        stream = content["streams"][0]
        side_data = [
            entry.get("side_data_type")
            for packet in content.get("packets", ())
            for entry in packet.get("side_data_list", ())
        ]
        if stream.get("codec_tag_string") in _PROTECTED or "Encryption info" in side_data:
            raise FfmpegError("the sound is encrypted (DRM); export it without protection")
        seconds, file_seconds = (
            None if it.get("duration") is None else float(it["duration"])
            for it in (stream, content.get("format", {}))
        )
        return AudioTrack(int(stream["sample_rate"]), seconds, file_seconds)
    except (ValueError, KeyError, TypeError):
        raise FfmpegError("ffprobe: no sample rate in it") from None


@contextlib.contextmanager
def mono_stream(file: Path, sample_rate_hz: int) -> Iterator[IO[bytes]]:
    """Yield the first audio track of a file of any length as 32-bit floats, while it is decoded.

    ffmpeg's error is raised at the end of the block, after all decodable audio was read.
    """
    arguments = ["-map", "0:a:0", "-ac", "1", "-ar", str(sample_rate_hz), "-f", "f32le", "pipe:1"]
    # A pipe for its messages would fill up and block.
    with tempfile.TemporaryFile() as messages:
        try:
            process = subprocess.Popen(
                _command("ffmpeg", file, arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=messages,
            )
        except (OSError, ValueError) as error:
            raise FfmpegError(f"ffmpeg failed ({type(error).__name__})") from None
        assert process.stdout is not None
        with process.stdout as stream:
            try:
                yield stream
            except BaseException:
                process.kill()
                process.wait()
                raise
        if process.wait():
            messages.seek(0)
            raise FfmpegError(f"ffmpeg: {_last_line(messages.read(), file)}")


def _run(program: str, file: Path, arguments: list[str]) -> bytes:
    command = _command(program, file, arguments)
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise FfmpegError(f"{program} failed ({type(error).__name__})") from None
    if result.returncode:
        raise FfmpegError(f"{program}: {_last_line(result.stderr, file)}")
    return result.stdout


def _command(program: str, file: Path, arguments: list[str]) -> list[str]:
    if shutil.which(program) is None:
        raise FfmpegError(
            f"{file.suffix.lower().lstrip('.')} is read through {program}, which is not "
            "installed; install ffmpeg (apt install ffmpeg, brew install ffmpeg), or convert the "
            "file to wav or flac"
        )
    quiet = ["-v", "error", *(["-nostdin"] if program == "ffmpeg" else [])]
    # Playlists inside a file must not lead to the network or to other files.
    source = ["-protocol_whitelist", "file,pipe", "-i", f"file:{file}"]
    return [program, *quiet, *source, *arguments]


def _last_line(messages: bytes, file: Path) -> str:
    lines = messages.decode(errors="replace").strip().splitlines()
    return lines[-1].removeprefix(f"file:{file}: ") if lines else "failed"
