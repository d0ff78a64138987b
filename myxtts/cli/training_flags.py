"""The flags of `myxtts train` that set a setting, one for each that users type often."""

from __future__ import annotations

import argparse

from myxtts.config.config import MODEL_SIZES, OPTIMIZATION_LEVELS


def add_setting_flags(parser: argparse.ArgumentParser) -> None:
    """One flag per setting that the contract names; each is left out unless it is given."""
    data = parser.add_argument_group("data and shapes")
    data.add_argument("--train-data", metavar="DIR", help="corpus; without it the demo corpus")
    data.add_argument("--val-data", metavar="DIR", help="validation corpus")
    data.add_argument("--batch-size", type=int, metavar="N")
    data.add_argument(
        "--enable-static-shapes",
        "--pad-to-fixed-length",
        dest="pad_to_fixed_length",
        action="store_true",
        help="one shape for every batch",
    )
    data.add_argument("--max-text-length", type=int, metavar="N", help="in tokens")
    data.add_argument("--max-mel-frames", type=int, metavar="N")
    data.add_argument("--buffer-size", type=int, metavar="N", help="batches kept ready")

    model = parser.add_argument_group("model and optimisation")
    model.add_argument("--model-size", choices=MODEL_SIZES)
    model.add_argument("--optimization-level", choices=OPTIMIZATION_LEVELS)
    model.add_argument(
        "--freeze",
        metavar="NAMES",
        help='parts to keep as they are: "voice_encoder, decoder.block_*"',
    )
    model.add_argument("--gradient-accumulation-steps", type=int, metavar="N")
    model.add_argument("--xla", action=argparse.BooleanOptionalAction, help="compile with XLA")

    length = parser.add_argument_group("length and saving")
    length.add_argument("--max-steps", type=int, metavar="N")
    length.add_argument("--epochs", type=int, metavar="N")
    length.add_argument("--save-every", type=int, metavar="N", help="in steps")
    length.add_argument("--evaluate-every", type=int, metavar="N", help="in steps")
    length.add_argument("--seed", type=int, metavar="N")

    devices = parser.add_argument_group("devices")
    devices.add_argument("--multi-gpu", action="store_true", help="mirror over all visible GPUs")
    devices.add_argument(
        "--strict-devices", action="store_true", help="stop instead of falling back"
    )
    devices.add_argument("--visible-gpus", metavar="IDS", help="such as 0,1")
    devices.add_argument("--data-gpu", type=int, metavar="ID", help="computes features")
    devices.add_argument("--model-gpu", metavar="IDS", help="trains")
    devices.add_argument("--model-start-delay", type=float, metavar="SECONDS")
    devices.add_argument("--enable-memory-isolation", action="store_true")
    devices.add_argument("--data-gpu-memory", type=int, metavar="MB")
    devices.add_argument("--model-gpu-memory", type=int, metavar="MB")
    devices.add_argument(
        "--virtual-devices", type=int, metavar="N", help="logical CPUs that stand in for GPUs"
    )
