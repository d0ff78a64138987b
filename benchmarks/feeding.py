"""Clips per second into training-ready batches, next to a PyTorch DataLoader and lhotse.

    python benchmarks/feeding.py --train-data demo/corpus --peers PEERS

Every contender has two worker processes or threads and batches of 16 clips. Ours reads features
that it cached once. A second row computes a mel per clip as the others do.
"""

from __future__ import annotations

import functools
import time

from harness import Table, arguments, ask_peer, interleave, report

from myxtts.devices.startup import load_tensorflow

load_tensorflow()

from myxtts.config.config import XTTSConfig  # noqa: E402
from myxtts.data.corpus import open_corpus  # noqa: E402
from myxtts.data.pipeline import AcousticSource, Feed  # noqa: E402

_WORKERS = 2
_FAR = 10**9


def measure_ours(data: str, seconds: float, settings: dict[str, object]) -> dict[str, float]:
    config = XTTSConfig(train_data=data, workers=_WORKERS, **settings)
    corpus = open_corpus(config)
    feed = Feed(AcousticSource(corpus.train, corpus.tokenizer, config), config, last_step=_FAR)
    feed.start(0)
    # Batches that were prefetched before the clock starts do not count.
    for _ in range(feed.buffer_size + 1):
        next(feed)
    clips, real, computed, shapes = 0, 0, 0, set()
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        batch = next(feed)
        clips += batch.mel.shape[0]
        real += int(batch.mel_lengths.numpy().sum())
        computed += batch.mel.shape[0] * batch.mel.shape[1]
        shapes.add(tuple(batch.mel.shape))
    rate = clips / (time.perf_counter() - started)
    feed.close()
    return {"rate": rate, "real": real / computed, "shapes": len(shapes)}


def main() -> None:
    parser = arguments(__doc__, repeats=3)
    parser.add_argument("--train-data", required=True, metavar="DIR")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    options = parser.parse_args()
    config = XTTSConfig(train_data=options.train_data)
    cache = open_corpus(config).train.cache
    given = {
        "files": [str(cache.audio_path(clip).resolve()) for clip in range(len(cache))],
        "batch": config.data.batch_size,
        "workers": _WORKERS,
        "seconds": options.seconds,
    }
    augmented = {"augmentation": {"speed": 0.05}}
    ours = functools.partial(measure_ours, options.train_data, options.seconds)

    def peer(kind: str) -> dict[str, float]:
        return ask_peer(options.peers, "loaders", "loaders.py", given | {"kind": kind})

    contenders = {
        "MyXTTS": lambda: ours({}),
        "MyXTTS, a mel per clip": lambda: ours(augmented),
        "PyTorch DataLoader": lambda: peer("dataloader"),
        "lhotse": lambda: peer("lhotse"),
    }
    tables = {
        "rate": Table("Feeding", "clips per second", "higher"),
        "real": Table("Real frames among those computed", "fraction", "higher"),
        "shapes": Table("Distinct batch shapes", "shapes", "lower"),
    }
    interleave(contenders, options.repeats, **tables)
    report([*tables.values()], options)


if __name__ == "__main__":
    main()
