"""Clips of several voices are distinguished."""

import json

import numpy as np
import pytest

pytest.importorskip("scipy", reason="needs the extra collect")

from myxtts.audio.pretrained import Sound
from myxtts.collect.collect import Clip, Options, choose_voices, collect, prepare
from myxtts.collect.folder import DROPPED, KEPT, REVIEW
from myxtts.collect.voices import ClipVoice, group_voices


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
        Clip(f"clip{at}", "talk.wav", at * 5.0, 4.0, 3.5, "anna", "en") for at in range(len(order))
    ]


def voices_of(clips, vectors):
    """Each with two windows that are like the whole."""
    return {
        clip.id: ClipVoice(vector, np.stack([vector, vector]))
        for clip, vector in zip(clips, vectors, strict=True)
    }


def test_groups_are_the_voices(voices):
    order, vectors = voices
    groups = group_voices(vectors, [4.0] * len(order))
    assert [{order[index] for index in group} for group in groups] == [{0}, {1}, {2}]
    assert sorted(index for group in groups for index in group) == list(range(len(order)))


@pytest.mark.parametrize("wanted", [None, 1])
def test_one_voice_is_kept(voices, wanted):
    order, vectors = voices
    clips = clips_of(order)
    by_id = voices_of(clips, vectors)
    reference = None if wanted is None else vectors[order.index(wanted)]
    notes = choose_voices(clips, by_id, reference, all_speakers=False)
    kept = {order[at] for at, clip in enumerate(clips) if clip.status == KEPT}
    assert kept == {wanted or 0}
    assert all(clip.reason == "another voice" for clip in clips if clip.status == DROPPED)
    assert len(notes) == 1


def test_each_voice_is_a_speaker(voices):
    order, vectors = voices
    clips = clips_of(order)
    by_id = voices_of(clips, vectors)
    choose_voices(clips, by_id, None, all_speakers=True)
    names = {(order[at], clip.speaker) for at, clip in enumerate(clips)}
    assert names == {(0, "anna-1"), (1, "anna-2"), (2, "anna-3")}
    assert [order[at] for at, clip in enumerate(clips) if clip.status == REVIEW] == [2]


@pytest.mark.parametrize("all_speakers", [False, True])
def test_a_clip_in_which_somebody_else_speaks_too_is_put_aside(voices, all_speakers):
    order, vectors = voices
    clips = [clip for clip, voice in zip(clips_of(order), order, strict=True) if voice == 0]
    own, other = vectors[0], vectors[order.index(1)]
    by_id = voices_of(clips, [own] * len(clips))
    mixed = clips[3]
    by_id[mixed.id] = ClipVoice(own, np.stack([own, other, own]))
    more = [Clip("more", "talk.wav", 99.0, 4.0, 3.5, "anna", "en")]
    by_id |= voices_of(more, [own])
    choose_voices([*clips, *more], by_id, None, all_speakers=all_speakers)
    assert [clip.id for clip in clips if clip.status == REVIEW] == [mixed.id]
    assert mixed.reason == "more than one voice"


def test_a_voice_that_others_overlap_everywhere_is_put_aside(voices):
    """Also if there are several such clips: they do not change what the voice is like."""
    order, vectors = voices
    own, other = vectors[0], vectors[order.index(1)]
    mixed = unit(own + 0.6 * other)
    clips = clips_of(range(12))
    by_id = voices_of(clips, [own] * 8 + [mixed] * 4)
    choose_voices(clips, by_id, None, all_speakers=False)
    assert [clip.status for clip in clips] == [KEPT] * 8 + [REVIEW] * 4


def test_where_others_are_heard_less_is_enough(voices):
    order, vectors = voices
    own, other = vectors[0], vectors[order.index(1)]
    doubtful = unit(own + 0.33 * unit(other - (other @ own) * own))
    clips = clips_of(range(10))
    heard = voices_of(clips, [own] * 9 + [doubtful])
    assert own @ doubtful == pytest.approx(0.95, abs=0.01)
    choose_voices(clips, heard, None, all_speakers=False)
    assert clips[9].status == KEPT
    more = clips_of(range(14))
    heard = voices_of(more, [own] * 9 + [unit(doubtful - 0.02 * own)] + [other] * 4)
    choose_voices(more, heard, None, all_speakers=False)
    assert more[9].status == REVIEW


class PitchEncoder:
    """Stands in for a speaker encoder: spectra tell the two voices of the corpus apart."""

    calls = 0

    def with_windows(self, sound: Sound):
        self.calls += 1
        spectrum = np.abs(np.fft.rfft(sound.at_measured_rate, 16_000))[80:400]
        vector = unit(spectrum.reshape(-1, 10).mean(axis=1))
        return vector, vector[None]


def test_vectors_are_kept_for_the_next_launch(recording, tmp_path):
    encoder = PitchEncoder()
    out = tmp_path / "corpus"
    found = prepare([recording], out, Options())
    first = collect(found, out, Options(), encoder=encoder)
    made = encoder.calls
    assert made == len(first.clips)
    collect(found, out, Options(), encoder=encoder)
    assert encoder.calls == made
    lines = (out / ".collect" / "voices.jsonl").read_text().splitlines()
    assert len({json.loads(line)["id"] for line in lines}) == made
