"""Alias of `myxtts diagnose`."""

import sys
from pathlib import Path

# Without an installed package Python finds only what is beside this script.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from train_main import run

if __name__ == "__main__":
    sys.exit(run("diagnose"))
