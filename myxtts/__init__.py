"""MyXTTS trains a voice-cloning text-to-speech model on your recordings and speaks with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from myxtts.config.config import XTTSConfig as XTTSConfig
from myxtts.version import VERSION

__version__ = VERSION

# Type checkers read the imports, programs import from the same modules on first use: TensorFlow is
# not loaded before it is needed. Every name stands in both.
if TYPE_CHECKING:
    from myxtts.synthesis.tts import TTS as TTS
    from myxtts.training.run import train as train
else:
    _HOMES = {
        "TTS": "myxtts.synthesis.tts",
        "train": "myxtts.training.run",
    }
    _NEED_TENSORFLOW = ("TTS",)

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'myxtts' has no attribute '{name}'")
        from importlib import import_module

        if name in _NEED_TENSORFLOW:
            from myxtts.devices.startup import load_tensorflow

            load_tensorflow()
        return getattr(import_module(_HOMES[name]), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_HOMES})
