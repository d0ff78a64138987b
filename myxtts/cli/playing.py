"""Plays speech on the sound device of this machine, with the package sounddevice."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from myxtts.errors import DeviceError


def require_sound_device() -> Any:
    """The library; an error says what is missing."""
    try:
        import sounddevice
    except ImportError:
        from myxtts.devices.checkup import install_command

        raise DeviceError(
            f"--play: needs the package sounddevice; install it with {install_command('play')}"
        ) from None
    except OSError as error:
        raise DeviceError(
            f"--play: {error}; install PortAudio, or write a file with --out"
        ) from None
    try:
        sounddevice.query_devices(kind="output")
    except (sounddevice.PortAudioError, ValueError) as error:
        raise DeviceError(
            f"--play: no sound device ({error}); write a file with --out instead"
        ) from None
    return sounddevice


@contextlib.contextmanager
def player(sample_rate_hz: int) -> Iterator[Callable[[Any], None]]:
    """A function that plays samples and returns when there is room for more."""
    sounddevice = require_sound_device()
    try:
        with sounddevice.OutputStream(sample_rate_hz, channels=1, dtype="float32") as device:
            yield lambda samples: device.write(samples[:, None].copy())
    except sounddevice.PortAudioError as error:
        raise DeviceError(f"--play: the sound device failed ({error})") from None
