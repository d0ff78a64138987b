"""CPU seconds that a mistake costs: the command in a process of its own, until its one line.

    .venv/bin/python benchmarks/mistakes.py --run RUN [--json FILE]

RUN is any trained run, such as demo/run, or the base model in myxtts/weights. Every mistake must
end with exit code 2 and one line, within a second of CPU time (user and system, all children
included).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import soundfile

LIMIT_SECONDS = 1.0
SPEAK = "synthesize RUN --speaker-wav voice.wav --out out.wav"
MISTAKES = {
    "no such run": "synthesize nowhere --text Hello. --speaker-wav voice.wav --out out.wav",
    "a folder that is no run": "synthesize empty --text Hello. --speaker-wav voice.wav --out a.wav",
    "no such reference": "synthesize RUN --text Hello. --speaker-wav none.wav --out out.wav",
    "a reference that is no audio": "synthesize RUN --text Hi. --speaker-wav notes.txt --out a.wav",
    "no such voice": "synthesize RUN --text Hello. --voice nobody --out out.wav",
    "a language that the run does not speak": f"{SPEAK} --text Hello. --language sw",
    "a text without words": f"{SPEAK} --text '...'",
    "an empty text": f"{SPEAK} --text ''",
    "no such folder for the sound": "synthesize RUN --text Hi. --voice anna --out no/a.wav",
    "no such vocoder": f"{SPEAK} --text Hello. --vocoder nowhere",
    "a misspelt flag": f"{SPEAK} --txt Hello.",
    "a speed of zero": f"{SPEAK} --text Hello. --speed 0",
    "a voice from no recording": "voice add RUN anna none.wav",
    "no such run to evaluate": "evaluate nowhere",
    "no such measure": "evaluate RUN --only words",
    "no such corpus to evaluate with": "evaluate RUN --data nowhere",
    "no such file of sentences": "evaluate RUN --sentences none.txt",
    "a run without metrics": "compare empty",
    "no such corpus to train on": "train nowhere",
    "a corpus without metadata": "train empty",
    "no such validation corpus": "train corpus --val-data nowhere",
    "no such language": "train corpus --language persian-like",
    "no such run to resume": "train --resume nowhere",
    "no such run to start from": "train corpus --init-from nowhere",
    "no such configuration": "train corpus --config none.yaml",
    "a misspelt setting": "train corpus --set learning_rat=1",
    "a Persian corpus taken for English": "train persian",
    "a metadata file that is a FIFO": "train endless",
    "a run that is longer already": "train --resume RUN --max-steps 1",
    "no such corpus to prepare": "prepare nowhere",
    "no such corpus to measure": "stats nowhere",
    "no such corpus to tune for": "tune nowhere",
    "no such corpus to diagnose": "diagnose nowhere",
    "no such text file": f"{SPEAK} --text-file none.txt",
    "a text and a text file": f"{SPEAK} --text Hello. --text-file notes.txt",
    "an ending that is no audio": "synthesize RUN --text Hi. --speaker-wav voice.wav --out a.docx",
    "subtitles of an unknown kind": f"{SPEAK} --text Hello. --subtitles out.sub",
    "a lexicon that does not exist": f"{SPEAK} --text Hello. --lexicon none.txt",
    "a reference of silence": "synthesize RUN --text Hi. --speaker-wav silence.wav --out a.wav",
    "no step at all": f"{SPEAK} --text Hello. --steps 0",
    "steps in words": f"{SPEAK} --text Hello. --steps ten",
    "a temperature below zero": f"{SPEAK} --text Hello. --temperature -1",
    "a seed below zero": f"{SPEAK} --text Hello. --seed -1",
    "guidance out of its range": f"{SPEAK} --text Hello. --text-guidance 99",
    "a pause of an hour": f"{SPEAK} --text 'Wait. [pause 3600] Now.'",
    "IPA that the model does not know": f"{SPEAK} --text 'Say [[ʘǁǂ]].'",
    "a voice by name and by recording": f"{SPEAK} --text Hello. --voice anna",
    "a much too short reference": "synthesize RUN --text Hi. --speaker-wav short.wav --out a.ogg",
    "a reference that is a folder": "synthesize RUN --text Hi. --speaker-wav empty --out a.wav",
    "a sound that is a folder": "synthesize RUN --text Hi. --speaker-wav voice.wav --out corpus",
    "a file and a folder to write": f"{SPEAK} --text Hello. --out-dir lines",
    "a folder to write that is a file": "synthesize RUN --text-file notes.txt --out-dir notes.txt",
    "an unknown format": "synthesize RUN --text-file notes.txt --out-dir lines --format wma",
    "no such table": "synthesize RUN --batch none.csv --out-dir lines",
    "a table without a folder": "synthesize RUN --batch lines.csv",
    "a table of one column": "synthesize RUN --batch one.csv --out-dir lines",
    "a table with an id twice": "synthesize RUN --batch twice.csv --out-dir lines",
    "a table with an id that is a path": "synthesize RUN --batch path.csv --out-dir lines",
    "a table with an unknown voice": "synthesize RUN --batch nobody.csv --out-dir lines",
    "a table with an unknown language": "synthesize RUN --batch tongue.csv --out-dir lines",
    "a text file that is no text": "synthesize RUN --text-file voice.wav --out a.wav",
    "a lexicon without tabs": f"{SPEAK} --text Hello. --lexicon notes.txt",
    "a model as the vocoder": f"{SPEAK} --text Hello. --vocoder RUN",
    "nothing to say": "synthesize RUN --out a.wav",
    "no such run to export": "export nowhere --format saved-model --out exported",
    "an export into a folder in use": "export RUN --format saved-model --out corpus",
}

TABLES = {
    "lines.csv": ["id,text", "one,Hello."],
    "one.csv": ["text", "Hello."],
    "twice.csv": ["id,text", "one,Hello.", "one,Again."],
    "path.csv": ["id,text", "../one,Hello."],
    "nobody.csv": ["id,text,voice", "one,Hello.,nobody"],
    "tongue.csv": ["id,text,voice,language", "one,Hello.,callie,sw"],
}


def measure(command: str, run: Path, folder: Path) -> dict[str, object]:
    arguments = [str(run) if word == "RUN" else word for word in shlex.split(command)]
    before = _cpu_seconds()
    result = subprocess.run(
        [sys.executable, "-m", "myxtts", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = result.stderr.strip().splitlines()
    return {
        "command": f"myxtts {command}",
        "cpu_seconds": round(_cpu_seconds() - before, 2),
        "exit_code": result.returncode,
        "lines": len(lines) + len(result.stdout.splitlines()),
        "message": lines[-1] if lines else "",
    }


def is_told_right(row: dict[str, object]) -> bool:
    return row["exit_code"] == 2 and row["lines"] == 1


def _cpu_seconds() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def make_surroundings(folder: Path) -> None:
    """Corpora of one row, of Persian and of a FIFO, recordings, tables, text, an empty folder."""
    (folder / "empty").mkdir()
    (folder / "notes.txt").write_text("not a recording\n")
    noise = 0.1 * np.random.default_rng(0).standard_normal(44_100)
    soundfile.write(folder / "voice.wav", noise, 22_050)
    soundfile.write(folder / "silence.wav", np.zeros(66_150), 22_050)
    soundfile.write(folder / "short.wav", noise[:2_205], 22_050)
    for name, rows in TABLES.items():
        (folder / name).write_text("".join(f"{row}\n" for row in rows))
    (folder / "corpus" / "wavs").mkdir(parents=True)
    soundfile.write(folder / "corpus" / "wavs" / "1.wav", noise, 22_050)
    (folder / "corpus" / "metadata.csv").write_text("1|Hello there.\n")
    (folder / "persian").mkdir()
    (folder / "persian" / "metadata.csv").write_text("1|سلام دنیا\n", encoding="utf-8")
    (folder / "endless").mkdir()
    os.mkfifo(folder / "endless" / "metadata.csv")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", type=Path, required=True, metavar="RUN")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).parents[1]))
    rows = {}
    with tempfile.TemporaryDirectory() as name:
        make_surroundings(Path(name))
        for mistake, command in MISTAKES.items():
            rows[mistake] = row = measure(command, options.run.resolve(), Path(name))
            print(f"{mistake:<40}{row['cpu_seconds']:>6} s   {row['message']}", flush=True)
            if not is_told_right(row):
                print(f"  exit code {row['exit_code']}, {row['lines']} lines, expected 2 and 1")
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))
    slow = [it for it, row in rows.items() if float(str(row["cpu_seconds"])) > LIMIT_SECONDS]
    wrong = [it for it, row in rows.items() if not is_told_right(row)]
    worst = max(float(str(row["cpu_seconds"])) for row in rows.values())
    print(f"\n{len(rows)} mistakes, at most {worst} s of CPU time; over {LIMIT_SECONDS} s: {slow}")
    return 1 if slow or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
