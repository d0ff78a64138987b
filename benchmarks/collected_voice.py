"""A voice fine-tuned on what `myxtts collect` made of a recording, beside one of the true corpus.

    .venv/bin/pip install -e '.[eval,eval-torch]'
    .venv/bin/python benchmarks/collecting.py CORPUS --minutes 60 --noise -70 --any-voice --work DIR
    .venv/bin/python benchmarks/collected_voice.py DIR HELD-OUT --steps 600 [--json FILE]

The first command glues CORPUS into an hour and collects it. The second writes the same sentences as
they were, with their true texts, to DIR/true; trains twice from the same base, on DIR/corpus and on
DIR/true; and lets both say the sentences of HELD-OUT, a corpus of the same speaker of which nothing
is in CORPUS. Runs that are complete are not repeated. --only-corpora ends before the trainings.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

from myxtts.data.metadata import LJSpeechDataset
from myxtts.runs.run_dir import RunDir

COLLECTED, TRUE = "corpus", "true"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work", type=Path, help="folder that collecting.py worked in")
    parser.add_argument("held_out", type=Path, help="corpus of the same speaker, not trained on")
    parser.add_argument("--init-from", default="base")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--rate", type=float, default=5e-4, help="highest learning rate")
    parser.add_argument("--sentences", type=int, default=60)
    parser.add_argument("--only-corpora", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    write_true_corpus(options.work)
    for name in (COLLECTED, TRUE):
        require_apart(options.work / name, options.held_out)
    if options.only_corpora:
        return
    for name in (COLLECTED, TRUE):
        train(options, name)
    results = spoken(options)
    for name, values in results.items():
        print(f"{name:12}", "  ".join(f"{key} {value:.3f}" for key, value in values.items()))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


def write_true_corpus(work: Path) -> None:
    """The sentences that were glued, from their own files."""
    corpus = work / TRUE
    (corpus / "wavs").mkdir(parents=True, exist_ok=True)
    lines = ["audio_file|text|speaker_name|language"]
    for sentence in json.loads((work / "known.json").read_text("utf-8")):
        _start, _end, text, is_other, _pauses, file, _is_overlapped = sentence
        if is_other:
            continue
        copy = corpus / "wavs" / Path(file).name
        if not copy.exists():
            shutil.copyfile(file, copy)
        lines.append(f"wavs/{copy.name}|{text}|speaker|en")
    (corpus / "metadata.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def require_apart(corpus: Path, held_out: Path) -> None:
    texts = {row.text for row in LJSpeechDataset(held_out, validation_fraction=None)}
    rows = LJSpeechDataset(corpus, validation_fraction=None)
    print(f"{corpus}: {len(rows)} clips")
    if any(row.text in texts for row in rows):
        raise SystemExit(f"{corpus}: contains sentences of {held_out}")


def train(options: argparse.Namespace, name: str) -> None:
    run = options.work / f"run-{name}"
    is_begun = RunDir(run).checkpoint_folders()
    command = [sys.executable, "-m", "myxtts", "train", str(options.work / name)]
    command += ["--run-dir", str(run), "--max-steps", str(options.steps)]
    if is_begun:
        command.append("--resume")
    else:
        command += ["--init-from", str(options.init_from)]
        command += ["--set", f"training.learning_rate={options.rate}"]
    subprocess.run(command, check=True)


def spoken(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Word error rate and voice similarity on the held-out sentences."""
    from myxtts.devices.startup import load_tensorflow

    load_tensorflow()
    from myxtts import TTS
    from myxtts.evaluation.evaluate import MODEL, RECORDINGS, Sentence, evaluate
    from myxtts.evaluation.measures import VOICE_SIMILARITY, WORD_ERROR_RATE, open_toolbox

    rows = list(LJSpeechDataset(options.held_out, validation_fraction=None))[: options.sentences]
    sentences = [
        Sentence(
            text=row.text,
            language=row.language,
            speaker=row.speaker,
            reference=rows[index - 1].audio_path,
            recording=row.audio_path,
        )
        for index, row in enumerate(rows)
    ]
    metrics = (WORD_ERROR_RATE, VOICE_SIMILARITY)
    toolbox = open_toolbox(only=[metric.name for metric in metrics])
    results: dict[str, dict[str, float]] = {}
    for name, run in (
        ("base", options.init_from),
        (COLLECTED, options.work / f"run-{COLLECTED}"),
        (TRUE, options.work / f"run-{TRUE}"),
    ):
        tts = TTS(run)
        columns = (RECORDINGS, MODEL) if not results else (MODEL,)
        evaluation = evaluate(tts, str(run), sentences, toolbox, columns=columns)
        for column in columns:
            found = {metric.name: evaluation.mean(column, metric) for metric in metrics}
            title = name if column == MODEL else column
            results[title] = {key: value for key, value in found.items() if value is not None}
    return results


if __name__ == "__main__":
    main()
