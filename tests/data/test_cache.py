import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myxtts.audio.files import clean_recording, read_audio
from myxtts.audio.mel import log_mel
from myxtts.data import cache as features
from myxtts.data.cache import fingerprint, open_cache, prepare
from myxtts.data.corpus import open_corpus
from myxtts.data.metadata import LJSpeechDataset
from myxtts.errors import DataError
from myxtts.text.tokenizer import text_symbols

ROOT = Path(__file__).parents[2]


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def own_corpus(demo_corpus, tmp_path) -> Path:
    """Return a copy of the demo corpus that a test may change."""
    folder = tmp_path / "own"
    shutil.copytree(demo_corpus, folder, ignore=shutil.ignore_patterns("myxtts-cache"))
    return folder


@pytest.fixture
def small_chunks(monkeypatch) -> None:
    """Made in this process: each worker would load TensorFlow."""
    monkeypatch.setattr(features, "CLIPS_PER_CHUNK", 4)
    monkeypatch.setattr(features, "worker_count", lambda wanted, tasks: 0)


@pytest.fixture
def count_extractions(monkeypatch) -> list[str]:
    """Return the ids of the clips whose features were computed and not copied."""
    seen: list[str] = []
    compute = features._extract

    def counted(item, config):
        seen.append(item.id)
        return compute(item, config)

    monkeypatch.setattr(features, "_extract", counted)
    return seen


def test_the_cache_holds_what_the_clips_hold(corpus, miniature, demo_corpus):
    config, cache = miniature(), corpus.train.cache
    by_path = {item.audio_path: item for item in LJSpeechDataset(demo_corpus)}
    for clip in (0, len(cache) - 1):
        item = by_path[cache.audio_path(clip)]
        waveform = clean_recording(read_audio(item.audio_path, 22_050), config.audio)
        samples = cache.clip_audio(clip).astype(np.float32) / 32_767
        np.testing.assert_allclose(samples, waveform, atol=1e-4)
        np.testing.assert_allclose(
            cache.clip_mel(clip), log_mel(samples, config.audio, 80), atol=0.01
        )
        symbols = text_symbols(item.text, item.language, "phonemes")
        ids = cache.clip_tokens(clip)[1:-1]
        assert tuple(cache.tokenizer.symbols[token] for token in ids) == symbols
        assert cache.speakers[cache.index[clip]["speaker"]] == item.speaker
        assert cache.text(clip) == item.text
    mels = np.load(cache.folder / "mels.npy").astype(np.float64)
    assert cache.mel_mean == pytest.approx(float(mels.mean()))
    assert cache.mel_deviation == pytest.approx(float(mels.std()))


def test_mels_of_the_cached_samples_equal_the_cached_mels(corpus, miniature):
    config, cache = miniature(), corpus.train.cache
    samples = cache.clip_audio(3).astype(np.float32) / 32_767
    again = log_mel(samples, config.audio, 80).numpy()
    loud = again > again.max() - 9  # below that, rounding to 16 bits shows
    np.testing.assert_allclose(again[loud], cache.clip_mel(3)[loud], atol=0.05)


@pytest.mark.program
def test_two_workers_make_the_bytes_that_this_process_makes(
    demo_corpus, miniature, tmp_path, monkeypatch
):
    dataset = LJSpeechDataset(demo_corpus)
    here = prepare(dataset, miniature(), tmp_path / "here")  # one chunk needs no worker
    monkeypatch.setattr(features, "CLIPS_PER_CHUNK", 4)
    by_two = prepare(dataset, miniature(workers=2), tmp_path / "two")
    assert contents(by_two.folder) == contents(here.folder)


def test_an_existing_cache_is_opened_not_made(demo_corpus, miniature, tmp_path):
    dataset = LJSpeechDataset(demo_corpus)
    first = prepare(dataset, miniature(), tmp_path)
    calls = []
    again = prepare(dataset, miniature(), tmp_path, lambda done, total: calls.append(done))
    assert again.folder == first.folder
    assert calls == []


def test_one_that_finishes_second_leaves_no_chunks(
    demo_corpus, miniature, tmp_path, monkeypatch, small_chunks
):
    dataset, config, make = LJSpeechDataset(demo_corpus), miniature(), features._make_chunks

    def make_while_another_finishes(utterances, config, build_dir, *rest):
        chunks = make(utterances, config, build_dir, *rest)
        shutil.copytree(build_dir, tmp_path / "made")
        monkeypatch.setattr(features, "_make_chunks", make)
        prepare(dataset, config, tmp_path / "cache")
        shutil.move(tmp_path / "made", build_dir)
        return chunks

    monkeypatch.setattr(features, "_make_chunks", make_while_another_finishes)
    assert prepare(dataset, config, tmp_path / "cache") is not None
    assert not list((tmp_path / "cache").glob("*.build"))


def test_what_changes_features_changes_the_fingerprint(demo_corpus, miniature):
    dataset = LJSpeechDataset(demo_corpus)
    base = fingerprint(dataset, miniature())
    assert fingerprint(dataset, miniature(learning_rate=1.0, batch_size=2)) == base
    for change in (
        {"n_mels": 64},
        {"hop_samples": 128},
        {"tokens": "graphemes"},
        {"max_text_length": 50},
    ):
        assert fingerprint(dataset, miniature(**change)) != base
    assert fingerprint(LJSpeechDataset(demo_corpus, "eval"), miniature()) != base


@pytest.mark.parametrize("rules", ["TEXT_RULES", "MEL_RULES"])
def test_raised_rules_change_the_fingerprint(demo_corpus, miniature, monkeypatch, rules):
    dataset = LJSpeechDataset(demo_corpus)
    base = fingerprint(dataset, miniature())
    monkeypatch.setattr(features, rules, getattr(features, rules) + 1)
    assert fingerprint(dataset, miniature()) != base


def test_changing_one_clip_redoes_one_clip(own_corpus, miniature, count_extractions):
    config = miniature(train_data=str(own_corpus))
    before = open_corpus(config).train.cache
    count_extractions.clear()
    item = LJSpeechDataset(own_corpus)[5]
    samples, rate = soundfile.read(item.audio_path)
    soundfile.write(item.audio_path, samples[: len(samples) // 2], rate)
    after = open_corpus(config).train.cache
    assert count_extractions == [item.id]
    assert len(after.clip_mel(5)) < len(before.clip_mel(5))
    np.testing.assert_array_equal(after.clip_mel(6), before.clip_mel(6))
    assert not before.folder.exists()  # replaced


def test_touching_or_moving_files_redoes_nothing(own_corpus, miniature, count_extractions):
    config = miniature(train_data=str(own_corpus))
    before = open_corpus(config).train.cache
    count_extractions.clear()
    for item in LJSpeechDataset(own_corpus):
        os.utime(item.audio_path, (1, 1))
    rows = (own_corpus / "metadata_train.csv").read_text(encoding="utf-8").splitlines()
    (own_corpus / "metadata_train.csv").write_text("\n".join([rows[0], *rows[:0:-1]]))
    after = open_corpus(config).train.cache
    assert count_extractions == []
    np.testing.assert_array_equal(after.clip_mel(0), before.clip_mel(len(before) - 1))


KILLED_PROGRAM = """
import json, sys
from pathlib import Path
from myxtts.config.config import XTTSConfig
from myxtts.data import cache as features
from myxtts.data.metadata import LJSpeechDataset
from myxtts.data.cache import prepare
features.CLIPS_PER_CHUNK = 4
config = XTTSConfig(**json.loads(sys.argv[3]))

def wait_for_a_line(done, total):
    print(done, flush=True)
    sys.stdin.readline()

print("start", flush=True)
prepare(LJSpeechDataset(sys.argv[1]), config, Path(sys.argv[2]), wait_for_a_line)
"""


def start_program(demo_corpus, cache_root, workers=1, lines=subprocess.DEVNULL):
    """Run a program that waits for one of the `lines` after each chunk, if there are any."""
    # Graphemes without trimming: quick to make, so that a kill can fall anywhere.
    settings = {"tokens": "graphemes", "workers": workers}
    return subprocess.Popen(
        [sys.executable, "-c", KILLED_PROGRAM, demo_corpus, cache_root, json.dumps(settings)],
        stdin=lines,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def kill_at_random(demo_corpus, cache_root, times: int) -> int:
    """Start and kill the program; return how often it was killed before its end."""
    generator = random.Random(0)
    kills = 0
    for _ in range(times):
        with start_program(demo_corpus, cache_root, lines=subprocess.PIPE) as process:
            process.stdout.readline()
            # Fewer lines than chunks: at first it cannot end, however fast it is.
            for _ in range(generator.randrange(4)):
                if process.stdout.readline():
                    process.stdin.write(b"\n")
            time.sleep(generator.uniform(0.0, 0.5))
            kills += process.poll() is None
            process.send_signal(signal.SIGKILL)
    return kills


def caches_in(folder) -> list[Path]:
    return [path for path in folder.iterdir() if (path / "cache.json").exists()]


@pytest.fixture(scope="module")
def made_by_two(demo_corpus, tmp_path_factory) -> Path:
    """Return a folder in which two programs made the same features at the same time."""
    folder = tmp_path_factory.mktemp("both")
    processes = [start_program(demo_corpus, folder) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    for process in processes:
        process.stdout.close()
    return folder


def test_a_large_corpus_is_opened_without_reading_its_rows(own_corpus, miniature, monkeypatch):
    monkeypatch.setattr("myxtts.data.corpus.LARGE_METADATA_BYTES", 0)
    config = miniature(train_data=str(own_corpus))
    first = open_corpus(config)
    with monkeypatch.context() as patched:
        patched.setattr("myxtts.data.corpus.LJSpeechDataset", None)
        again = open_corpus(config)
        assert again.fingerprints() == first.fingerprints()
        with pytest.raises(TypeError):
            open_corpus(config.with_(max_text_length=100))
    metadata = own_corpus / "metadata_train.csv"
    metadata.write_text("\n".join(metadata.read_text(encoding="utf-8").splitlines()[:-1]))
    assert len(open_corpus(config).train.cache) == len(first.train.cache) - 1


@pytest.mark.program
def test_two_at_once_make_one_cache(made_by_two):
    (cache,) = caches_in(made_by_two)
    assert len(open_cache(cache)) == 18


@pytest.mark.program
@pytest.mark.parametrize("times", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_after_kills_a_run_continues_to_the_same_bytes(demo_corpus, made_by_two, tmp_path, times):
    assert kill_at_random(demo_corpus, tmp_path, times) > 0
    with start_program(demo_corpus, tmp_path) as process:
        assert process.wait() == 0
    (killed,), (whole,) = caches_in(tmp_path), caches_in(made_by_two)
    assert contents(killed) == contents(whole)


@pytest.fixture
def damaged(own_corpus) -> Path:
    """Return a corpus with seven rows that cannot be used."""
    items = list(LJSpeechDataset(own_corpus))
    items[0].audio_path.unlink()
    items[1].audio_path.write_text("not audio")
    soundfile.write(items[2].audio_path, np.ones(100, np.float32) * 0.1, 22_050)
    metadata = own_corpus / "metadata_train.csv"
    text = metadata.read_text(encoding="utf-8")
    text = text.replace(items[3].text, " ".join([items[3].text] * 20))
    shutil.copy(items[6].audio_path, items[5].audio_path)
    text = text.replace(items[4].text, "...") + "three|columns|only\n"
    metadata.write_text(text, encoding="utf-8")
    return own_corpus


def test_bad_clips_are_left_out_and_counted(damaged, miniature):
    corpus = open_corpus(miniature(train_data=str(damaged), max_rejected_fraction=0.5))
    assert corpus.train.rejected == {
        "missing audio": 1,
        "unreadable audio": 1,
        "too short": 1,
        "text too long": 1,
        "empty text": 1,
        "duplicate audio": 1,
        "bad row": 1,
    }
    assert len(corpus.train.cache) == 18 - 6
    assert any(
        "metadata_train.csv:2: missing audio" in line for line in corpus.train.cache.rejections
    )


def test_the_level_is_that_of_the_clips_that_are_kept(
    own_corpus, miniature, tmp_path, small_chunks
):
    config = miniature(max_rejected_fraction=0.5)
    items = LJSpeechDataset(own_corpus)
    for item in items[1:4]:  # in the chunk of the first of them and in another
        shutil.copy(items[0].audio_path, item.audio_path)
    shutil.copy(items[0].audio_path, items[6].audio_path)
    cache = prepare(items, config, tmp_path / "cache")
    assert cache.rejected == {"duplicate audio": 4}
    mels = np.concatenate([cache.clip_mel(clip) for clip in range(len(cache))]).astype(np.float64)
    assert cache.mel_mean == pytest.approx(mels.mean(), rel=1e-9)
    assert cache.mel_deviation == pytest.approx(mels.std(), rel=1e-9)


def test_too_many_bad_clips_stop_the_run(damaged, miniature):
    with pytest.raises(DataError, match=r"data\.max_rejected_fraction"):
        open_corpus(miniature(train_data=str(damaged)))


def test_the_limit_holds_for_a_cache_that_is_there(damaged, miniature):
    open_corpus(miniature(train_data=str(damaged), max_rejected_fraction=0.5))
    with pytest.raises(DataError, match=r"data\.max_rejected_fraction"):
        open_corpus(miniature(train_data=str(damaged)))


def test_a_damaged_cache_is_named(demo_corpus, miniature, tmp_path):
    cache = prepare(LJSpeechDataset(demo_corpus), miniature(), tmp_path)
    (cache.folder / "cache.json").write_text("{")
    with pytest.raises(DataError):
        open_cache(cache.folder)


def damage_list(folder):
    (folder / "cache.json").write_text("[]")


def change_index(folder):
    index = np.load(folder / "index.npy")
    index["mels_start"][1] += 1
    np.save(folder / "index.npy", index)


def shorten(folder):
    with open(folder / "mels.npy", "r+b") as file:
        file.truncate(1_000)


@pytest.mark.parametrize(
    "damage",
    [damage_list, change_index, shorten],
)
def test_a_cache_that_was_changed_is_refused_in_one_line(corpus, tmp_path, damage):
    folder = tmp_path / corpus.train.cache.folder.name
    shutil.copytree(corpus.train.cache.folder, folder)
    open_cache(folder)
    damage(folder)
    with pytest.raises(DataError, match=re.escape(str(folder))):
        open_cache(folder)


def test_a_chunk_that_was_changed_is_refused_in_one_line(
    demo_corpus, miniature, tmp_path, small_chunks, monkeypatch
):
    dataset, config = LJSpeechDataset(demo_corpus), miniature()
    with monkeypatch.context() as patched:
        patched.setattr(features, "_join", None)
        with pytest.raises(TypeError):
            prepare(dataset, config, tmp_path)
    chunk = sorted(tmp_path.glob("*.build/*"))[0]
    content = bytearray(chunk.read_bytes())
    # A power cut leaves such files if they were renamed before they were on the disk.
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)
    with pytest.raises(DataError, match=re.escape(str(chunk))):
        prepare(dataset, config, tmp_path)
    chunk.unlink()
    assert prepare(dataset, config, tmp_path) is not None


def test_a_damaged_clip_of_an_earlier_cache_is_prepared_again(
    own_corpus, miniature, tmp_path, caplog
):
    config = miniature(train_data=str(own_corpus), workers=1)
    dataset = LJSpeechDataset(own_corpus)
    first = prepare(dataset, config, tmp_path / "cache")
    mels = np.load(first.folder / "mels.npy", mmap_mode="r+")
    good = np.array(mels)
    mels[:5] = 0
    mels.flush()
    metadata = own_corpus / "metadata_train.csv"
    metadata.write_text("\n".join(metadata.read_text(encoding="utf-8").splitlines()[:-1]))
    second = prepare(LJSpeechDataset(own_corpus), config, tmp_path / "cache")
    assert second.folder != first.folder
    np.testing.assert_array_equal(second.clip_mel(0), good[: len(second.clip_mel(0))])


def test_a_place_that_cannot_be_written(demo_corpus, miniature, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"data\.cache_dir"):
        prepare(LJSpeechDataset(demo_corpus), miniature(), tmp_path / "file")
