import json
import struct
import zlib

import pytest

from myxtts.training.watching.accounting import BUCKETS

STEPS = 40


def metrics_line(step, **changes):
    shares = dict.fromkeys((f"{bucket}_share" for bucket in BUCKETS), 0.0)
    shares |= {"compute_share": 0.9, "data_wait_share": 0.1}
    return {
        "step": step,
        "time": 1_700_000_000.0 + step,
        "loss": 2.0 / step,
        "prior_loss": 1.0 / step,
        "step_seconds": 0.5,
        "data_wait_seconds": 0.1,
        "useful_utilisation": 0.8,
        "buffer_batches": 5,
        "buffer_size": 8,
        "traces": 1,
        "compilations": 0,
        "compilations_after_warmup": 0,
        **shares,
    } | changes


REPORT = {
    "state": "complete",
    "planned_steps": STEPS,
    "steps": STEPS,
    "seconds": {"compute": 30.0, "data_wait": 3.0, "start_up": 7.0, "wall": 40.0},
    "mode": "single-gpu-buffered",
    "model_devices": ["CPU:0"],
    "best": {"metric": "validation_loss", "step": 20, "value": 0.5},
    "advice": ["Most time not spent training: start-up (17.5%)."],
}


def wav(seconds=1.0, rate=8_000):
    samples = b"".join(
        struct.pack("<h", 8_000 if place // 20 % 2 else -8_000)
        for place in range(int(seconds * rate))
    )
    form = struct.pack("<HHIIHH", 1, 1, rate, rate * 2, 2, 16)
    body = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(samples))
    return b"RIFF" + struct.pack("<I", len(body) + len(samples)) + body + samples


def png():
    def chunk(kind, content):
        checked = kind + content
        return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

    header = struct.pack(">IIBBBBB", 2, 2, 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"\x00\x00\xff" * 2)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


def append_lines(run, *lines):
    with open(run / "metrics.jsonl", "a") as stream:
        stream.writelines(json.dumps(line) + "\n" for line in lines)


@pytest.fixture
def make_run(tmp_path):
    """Folders as runs leave them, with any report."""

    def make(name="mine", report=REPORT):
        run = tmp_path / name
        (run / "samples").mkdir(parents=True)
        append_lines(run, *map(metrics_line, range(10, STEPS + 1, 10)))
        (run / "measures.jsonl").write_text('{"step": 20, "time": 1.0, "wer": 0.25}\n')
        (run / "config.yaml").write_text(f"training: {{max_steps: {STEPS}}}\n")
        if report is not None:
            (run / "report.json").write_text(json.dumps(report))
        for step in (20, 40):
            (run / "samples" / f"step_{step:08d}.wav").write_bytes(wav())
            (run / "samples" / f"step_{step:08d}_alignment.png").write_bytes(png())
        (run / "samples" / "recording.wav").write_bytes(wav(0.5))
        return run

    return make
