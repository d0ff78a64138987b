"""Alias of `myxtts diagnose`."""

import sys

from myxtts.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["diagnose", *sys.argv[1:]]))
