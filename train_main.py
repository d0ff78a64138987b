"""Alias of `myxtts train`."""

import sys

from myxtts.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
