"""Trains a VITS of Coqui TTS or Matcha-TTS on a corpus. Asked by benchmarks/voice_time.py.

Trains for a number of minutes, speaks the texts, and prints the names of the wav files.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any


def train_coqui(given: dict[str, Any]) -> list[str]:
    from trainer import Trainer, TrainerArgs
    from TTS.config.shared_configs import BaseDatasetConfig
    from TTS.tts.configs.vits_config import VitsConfig
    from TTS.tts.datasets import load_tts_samples
    from TTS.tts.models.vits import Vits
    from TTS.tts.utils.text.tokenizer import TTSTokenizer
    from TTS.utils.audio import AudioProcessor
    from TTS.utils.synthesizer import Synthesizer

    work = Path(given["work"])
    corpus = BaseDatasetConfig(
        formatter="ljspeech", meta_file_train="metadata.csv", path=given["corpus"]
    )
    config = VitsConfig(
        run_name="voice",
        batch_size=16,
        eval_batch_size=4,
        num_loader_workers=1,
        num_eval_loader_workers=0,
        run_eval=False,
        test_sentences=[],
        epochs=100_000,
        use_phonemes=True,
        phonemizer="espeak",
        phoneme_language="en-us",
        phoneme_cache_path=str(work / "phonemes"),
        mixed_precision=False,
        output_path=str(work),
        datasets=[corpus],
        save_step=10**9,
    )
    audio = AudioProcessor.init_from_config(config)
    tokenizer, config = TTSTokenizer.init_from_config(config)
    samples, held = load_tts_samples(corpus, eval_split=True)
    model = Vits(config, audio, tokenizer, speaker_manager=None)
    trainer = Trainer(
        TrainerArgs(),
        config,
        str(work),
        model=model,
        train_samples=samples,
        eval_samples=held,
    )

    # Its only limits are steps and epochs.
    class TimeIsUpError(Exception):
        pass

    def stop(*_: object) -> None:
        raise TimeIsUpError

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 60 * given["minutes"])
    with contextlib.suppress(TimeIsUpError):
        trainer._fit()
    trainer.save_checkpoint()
    checkpoint = max(work.rglob("checkpoint_*.pth"), key=lambda file: file.stat().st_mtime)
    synthesizer = Synthesizer(str(checkpoint), str(checkpoint.with_name("config.json")))
    files = []
    for turn, text in enumerate(given["texts"]):
        files.append(str(work / f"{turn:03d}.wav"))
        synthesizer.save_wav(synthesizer.tts(text), files[-1])
    return files


def train_matcha(given: dict[str, Any]) -> list[str]:
    work, corpus = Path(given["work"]), Path(given["corpus"])
    rows = (corpus / "metadata.csv").read_text(encoding="utf-8").splitlines()
    lines = [f"{corpus}/wavs/{row.split('|')[0]}.wav|{row.split('|')[1]}\n" for row in rows]
    lists = {"train": lines[:-4], "valid": lines[-4:]}
    for name, part in lists.items():
        (work / f"{name}.txt").write_text("".join(part), encoding="utf-8")
    hours = given["minutes"] / 60
    command = [sys.executable, "-m", "matcha.train", "experiment=ljspeech"]
    command += [f"data.{name}_filelist_path={work}/{name}.txt" for name in lists]
    command += [
        *("data.batch_size=16", "data.num_workers=1", "trainer.accelerator=cpu"),
        *("trainer.precision=32", "trainer.devices=1", "logger=csv"),
        *(f"+trainer.max_time={{hours: {hours}}}", f"paths.output_dir={work}"),
    ]
    subprocess.run(command, stdout=sys.stderr, check=True)
    checkpoint = max(work.rglob("*.ckpt"), key=lambda file: file.stat().st_mtime)
    texts = work / "texts.txt"
    texts.write_text("\n".join(given["texts"]), encoding="utf-8")
    command = [sys.executable, "-m", "matcha.cli", "--checkpoint_path", str(checkpoint), "--cpu"]
    command += ["--file", str(texts), "--output_folder", str(work / "out")]
    subprocess.run(command, stdout=sys.stderr, check=True)
    return sorted(map(str, (work / "out").glob("*.wav")))


def main() -> None:
    given = json.load(sys.stdin)
    output, sys.stdout = sys.stdout, sys.stderr
    files = {"coqui": train_coqui, "matcha": train_matcha}[given["kind"]](given)
    print(json.dumps(files), file=output)


if __name__ == "__main__":
    main()
