"""Forwards to `myxtts diagnose`, for those who know the diagnosis by this file's name."""

import sys

from myxtts.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["diagnose", *sys.argv[1:]]))
