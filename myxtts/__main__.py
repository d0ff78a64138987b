"""`python -m myxtts` is the `myxtts` command."""

import sys

from myxtts.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
