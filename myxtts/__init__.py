"""MyXTTS trains a voice-cloning text-to-speech model on your recordings and speaks with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from myxtts.version import VERSION

__version__ = VERSION

# Imports for type checkers; at run time names are imported on first use, to defer TensorFlow.
if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig as XTTSConfig
    from myxtts.synthesis.tts import TTS as TTS
    from myxtts.training.train import train as train
else:

    def __getattr__(name: str) -> Any:
        if name == "XTTSConfig":
            from myxtts.config.config import XTTSConfig

            return XTTSConfig
        if name == "train":
            from myxtts.training.train import train

            return train
        if name == "TTS":
            from myxtts.devices.startup import load_tensorflow

            load_tensorflow()
            from myxtts.synthesis.tts import TTS

            return TTS
        raise AttributeError(f"module 'myxtts' has no attribute '{name}'")

    def __dir__() -> list[str]:
        return sorted({*globals(), "TTS", "XTTSConfig", "train"})
