"""Runs command lines one after another in one process, so that TensorFlow is loaded once.

Each line of standard input is a request: the words of a command, and the files that take what it
prints. The answer is its exit code.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        request = json.loads(line)
        for number, file in enumerate((request["output"], request["errors"]), start=1):
            with open(file, "w") as opened:
                os.dup2(opened.fileno(), number)
        code = run(request["words"])
        if "tensorflow" in sys.modules:
            from myxtts.devices.memory import free_graphs

            free_graphs()
        sys.stdout.flush()
        sys.stderr.flush()
        print(json.dumps(code), file=answers, flush=True)


def run(words: list[str]) -> int:
    try:
        if words[0] == "myxtts":
            from myxtts.cli.main import main as myxtts

            return myxtts(words[1:])
        assert words[0] in ("python", "python3")
        if words[1] == "-c":
            exec(words[2], {"__name__": "__main__"})
        else:
            sys.argv = words[1:]
            runpy.run_path(words[1], run_name="__main__")
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:  # noqa: BLE001 - the next command is to run all the same
        traceback.print_exc()
        return 70
    return 0


if __name__ == "__main__":
    main()
