"""The same sound is found again in another format and at another level; other sound is not."""

import shutil
import subprocess

import numpy as np
import pytest

from myxtts.collect.activity import Lengths
from myxtts.collect.cutting import CutClip, Tally, cut_recording
from myxtts.collect.quality import duplicates


def prints_of(file):
    clips = [one for one in cut_recording(file, Lengths(), Tally()) if isinstance(one, CutClip)]
    return [clip.fingerprint for clip in clips], [clip.samples.size for clip in clips]


def test_other_sentences_are_no_duplicates(recording):
    prints, lengths = prints_of(recording)
    # The corpus has sentences in two voices.
    assert len(prints) > 8
    assert duplicates(prints, lengths) == {}


def test_half_the_level_is_the_same_sound(glued, recording, write):
    first, first_lengths = prints_of(recording)
    again, again_lengths = prints_of(write("quiet.wav", glued.samples * np.float32(0.4)))
    found = duplicates([*first, *again], [*first_lengths, *again_lengths])
    assert found == {len(first) + index: index for index in range(len(first))}


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg")
def test_an_mp3_is_the_same_sound(recording, tmp_path):
    mp3 = tmp_path / "talk.m4a"
    subprocess.run(["ffmpeg", "-v", "error", "-i", recording, "-b:a", "48k", mp3], check=True)
    first, first_lengths = prints_of(recording)
    again, again_lengths = prints_of(mp3)
    found = duplicates([*first, *again], [*first_lengths, *again_lengths])
    assert len(found) >= 0.9 * len(again)


def test_no_clips():
    assert duplicates([], []) == {}
