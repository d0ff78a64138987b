"""MyXTTS trains a voice-cloning text-to-speech model on your recordings and speaks with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from myxtts.synthesis.tts import TTS
    from myxtts.training.run import train

__version__ = "0.1.0"
__all__ = ["TTS", "__version__", "train"]


def __getattr__(name: str) -> Any:
    """`myxtts.TTS`, imported on first use: importing myxtts alone does not load TensorFlow."""
    if name == "TTS":
        from myxtts.devices.loading import load_tensorflow

        load_tensorflow()
        from myxtts.synthesis.tts import TTS

        return TTS
    if name == "train":
        from myxtts.training.run import train

        return train
    raise AttributeError(f"module 'myxtts' has no attribute '{name}'")
