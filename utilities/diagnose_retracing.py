"""Alias of `myxtts diagnose`."""

import sys
from pathlib import Path

# If the package is not installed, Python only finds modules next to this script.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from train_main import run

if __name__ == "__main__":
    sys.exit(run("diagnose"))
