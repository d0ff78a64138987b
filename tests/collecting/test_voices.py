"""Clips of several voices are told apart."""

import json

import numpy as np
import pytest

from myxtts.collecting.collect import Wishes, collect, look
from myxtts.collecting.judging import DROPPED, KEPT, REVIEW, Clip, choose_voices
from myxtts.collecting.voices import group_voices
from myxtts.evaluation.measure import Sound


def unit(vector):
    return (vector / np.linalg.norm(vector)).astype(np.float32)


@pytest.fixture
def voices():
    """Vectors of three voices: those of one have a similarity of about 0.85."""
    generator = np.random.default_rng(0)
    middles = [unit(generator.standard_normal(64)) for _ in range(3)]

    def sample(voice):
        return unit(middles[voice] + 0.42 * unit(generator.standard_normal(64)))

    order = [0, 0, 1, 0, 0, 1, 0, 1, 0, 2, 0, 1]
    return order, np.stack([sample(voice) for voice in order])


def clips_of(order):
    return [
        Clip(f"clip{at}", "talk.wav", at * 5.0, 4.0, 3.5, {}, "anna", "en")
        for at in range(len(order))
    ]


def test_groups_are_the_voices(voices):
    order, vectors = voices
    groups = group_voices(vectors, [4.0] * len(order))
    assert [{order[index] for index in group} for group in groups] == [{0}, {1}, {2}]
    assert sorted(index for group in groups for index in group) == list(range(len(order)))


@pytest.mark.parametrize("wanted", [None, 1])
def test_one_voice_is_kept(voices, wanted):
    order, vectors = voices
    clips = clips_of(order)
    by_id = {clip.id: vector for clip, vector in zip(clips, vectors, strict=True)}
    reference = None if wanted is None else vectors[order.index(wanted)]
    notes = choose_voices(clips, by_id, reference, all_speakers=False)
    kept = {order[at] for at, clip in enumerate(clips) if clip.status == KEPT}
    assert kept == {wanted or 0}
    assert all(clip.reason == "another voice" for clip in clips if clip.status == DROPPED)
    assert "Voices: 3" in notes[0]


def test_each_voice_is_a_speaker(voices):
    order, vectors = voices
    clips = clips_of(order)
    by_id = {clip.id: vector for clip, vector in zip(clips, vectors, strict=True)}
    choose_voices(clips, by_id, None, all_speakers=True)
    names = {(order[at], clip.speaker) for at, clip in enumerate(clips)}
    assert names == {(0, "anna-1"), (1, "anna-2"), (2, "anna-3")}
    assert [order[at] for at, clip in enumerate(clips) if clip.status == REVIEW] == [2]


class PitchEncoder:
    """Stands in for a speaker encoder: spectra tell the two voices of the corpus apart."""

    calls = 0

    def of(self, sound: Sound):
        self.calls += 1
        spectrum = np.abs(np.fft.rfft(sound.at_measured_rate, 16_000))[80:400]
        return unit(spectrum.reshape(-1, 10).mean(axis=1))


def test_vectors_are_kept_for_the_next_launch(recording, tmp_path):
    encoder = PitchEncoder()
    out = tmp_path / "corpus"
    found = look([recording], out, Wishes())
    first = collect(found, out, Wishes(), encoder=encoder)
    made = encoder.calls
    assert made == len(first.clips)
    collect(found, out, Wishes(), encoder=encoder)
    assert encoder.calls == made
    lines = (out / ".collect" / "voices.jsonl").read_text().splitlines()
    assert len({json.loads(line)["id"] for line in lines}) == made
