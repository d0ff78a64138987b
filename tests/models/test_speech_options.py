import numpy as np
import pytest

from myxtts.errors import DataError
from myxtts.models.speech_options import SpeechOptions


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"speed": 0}, "speed: found 0, allowed: 0.25 to 4"),
        ({"speed": 10**400}, f"speed: found {10**400}, allowed: 0.25 to 4"),
        ({"speed": float("nan")}, "speed: found nan, allowed: 0.25 to 4"),
        ({"speed": "fast"}, "speed: found 'fast', allowed: a number, 0.25 to 4"),
        ({"speed": True}, "speed: found True, allowed: a number, 0.25 to 4"),
        ({"speed": None}, "speed: found None, allowed: a number, 0.25 to 4"),
        ({"seed": -1}, "seed: found -1, allowed: 0 to 2147483647"),
        ({"seed": 1.5}, "seed: found 1.5, allowed: a whole number, 0 to 2147483647"),
        ({"steps": 1_001}, "steps: found 1001, allowed: 1 to 1000"),
        ({"temperature": -0.1}, "temperature: found -0.1, allowed: 0 to 2"),
        ({"voice_guidance": 10.5}, "voice_guidance: found 10.5, allowed: 0 to 10"),
    ],
)
def test_what_is_not_allowed_is_named(options, line):
    with pytest.raises(DataError) as error:
        SpeechOptions(**options)
    assert str(error.value) == line


def test_the_limits_and_numpys_numbers_are_allowed():
    SpeechOptions(steps=1, temperature=0, text_guidance=None, speed=0.25, seed=2**31 - 1)
    SpeechOptions(steps=np.int64(1_000), temperature=np.float32(2), voice_guidance=10, speed=4)
