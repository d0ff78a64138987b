"""MyXTTS trains a voice-cloning text-to-speech model on your recordings and speaks with it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myxtts.version import VERSION

__version__ = VERSION

# Imports for type checkers; at run time names are imported on first use, to defer TensorFlow.
if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig as XTTSConfig
    from myxtts.models.speech_options import SpeechOptions as SpeechOptions
    from myxtts.synthesis.tts import TTS as TTS
    from myxtts.training.report import Observer, RunReport
else:

    def __getattr__(name: str) -> Any:
        if name == "XTTSConfig":
            from myxtts.config.config import XTTSConfig

            return XTTSConfig
        if name == "SpeechOptions":
            from myxtts.models.speech_options import SpeechOptions

            return SpeechOptions
        if name == "TTS":
            from myxtts.devices.startup import load_tensorflow

            load_tensorflow()
            from myxtts.synthesis.tts import TTS

            return TTS
        raise AttributeError(f"module 'myxtts' has no attribute '{name}'")

    def __dir__() -> list[str]:
        return sorted({*globals(), "TTS", "SpeechOptions", "XTTSConfig"})


def train(
    config: XTTSConfig,
    run_dir: str | Path | None = None,
    *,
    progress: bool | None = None,
    observer: Observer | None = None,
    **how: Any,
) -> RunReport:
    """Train a model into a run folder, as `myxtts train` does.

    >>> report = train(XTTSConfig(train_data="my-corpus"), "runs/mine")  # doctest: +SKIP

    It starts from the included base model. `progress` shows the run; None does so in a terminal
    and in a notebook. `how` are the arguments of `myxtts.training.train.train`: `resume`,
    `init_from`, `from_scratch`, `init_partially` and `allow_changed_corpus`.
    """
    from myxtts.training.train import train as train_run

    if progress is None:
        progress = sys.stdout is not None and (sys.stdout.isatty() or "ipykernel" in sys.modules)
    if observer is not None or not progress:
        return train_run(config, run_dir, observer=observer, **how)
    from myxtts.cli.console import LiveRun

    with LiveRun() as live:
        return train_run(config, run_dir, observer=live, **how)
