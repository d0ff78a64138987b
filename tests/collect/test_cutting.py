"""Speech is found and cut in its pauses, and the same sound is found again."""

import shutil
import subprocess

import numpy as np
import pytest
import soundfile

from myxtts.audio.files import UnusableAudioError
from myxtts.collect import recordings
from myxtts.collect.activity import Lengths, duplicates
from myxtts.collect.recordings import NO_PAUSE, TOO_SHORT, CutClip, LeftOut, Tally, cut_recording

RATE_HZ = 22_050


def cut(file, lengths=None):
    tally = Tally()
    found = list(cut_recording(file, lengths or Lengths(), tally))
    clips = [one for one in found if isinstance(one, CutClip)]
    return clips, [one for one in found if isinstance(one, LeftOut)], tally


def ends(clip):
    return clip.start_seconds, clip.start_seconds + clip.samples.size / clip.sample_rate_hz


def covered(clips, places):
    """Share of the sentences that is in clips."""
    steps = np.zeros(round(places[-1][1] * 100) + 1, bool)
    for clip in clips:
        start, end = ends(clip)
        steps[round(start * 100) : round(end * 100)] = True
    inside = np.concatenate([steps[round(a * 100) : round(b * 100)] for a, b in places])
    return inside.mean()


def inside_sentences(clips, places):
    """Return ends of clips that are not in a pause between sentences."""
    return [
        end
        for clip in clips
        for end in ends(clip)
        if any(start + 0.05 < end < stop - 0.05 for start, stop in places)
    ]


@pytest.mark.parametrize("noise_dbfs", [None, -50.0])
def test_sentences_are_found_and_cut_between(glued, write, noise_dbfs):
    samples = glued.samples if noise_dbfs is None else glued.with_noise(noise_dbfs)
    clips, _, tally = cut(write("talk.wav", samples))
    assert tally.seconds == pytest.approx(glued.samples.size / RATE_HZ, abs=0.01)
    assert covered(clips, glued.places) > 0.95
    # espeak-ng pauses at commas, where a long sentence may be cut too.
    assert len(inside_sentences(clips, glued.places)) <= 0.1 * len(clips)
    for clip in clips:
        start, end = ends(clip)
        assert 2.0 <= end - start <= 12.0


def test_lengths_are_the_users(glued, write):
    clips, _, _ = cut(write("talk.wav", glued.samples), Lengths(1.0, 5.0))
    lengths = [end - start for start, end in map(ends, clips)]
    assert lengths
    assert max(lengths) <= 5.0


def test_blocks_do_not_change_the_clips(glued, write, monkeypatch):
    file = write("talk.wav", glued.samples)
    whole, _, _ = cut(file)
    monkeypatch.setattr(recordings, "_BLOCK_SECONDS", 20.0)
    in_blocks, _, _ = cut(file)
    assert covered(in_blocks, glued.places) > 0.95
    assert not inside_sentences(in_blocks, glued.places) or inside_sentences(whole, glued.places)


def test_noise_is_measured(glued, write):
    clean, _, _ = cut(write("clean.wav", glued.samples))
    noisy, _, _ = cut(write("noisy.wav", glued.with_noise(-45.0)))
    # Speech of the recording is at about -20 dBFS.
    assert np.median([clip.figures.snr_db for clip in noisy]) == pytest.approx(24, abs=5)
    assert min(clip.figures.snr_db for clip in clean) > 40


def test_an_offset_is_measured_and_removed(glued, write):
    clips, _, _ = cut(write("offset.wav", glued.samples + np.float32(0.05)))
    assert clips[0].figures.dc_offset == pytest.approx(0.05, abs=0.005)
    assert abs(clips[0].samples.mean()) < 1e-3


def test_silence_gives_nothing(write):
    clips, left_out, tally = cut(write("silence.wav", np.zeros(5 * RATE_HZ, np.float32)))
    assert not clips
    assert not left_out
    assert tally.speech_seconds == 0


def test_a_word_alone_is_too_short(glued, write):
    start, _ = glued.places[0]
    first = round(start * RATE_HZ)
    word = np.zeros(4 * RATE_HZ, np.float32)
    word[2 * RATE_HZ : 2 * RATE_HZ + 15_000] = glued.samples[first : first + 15_000]
    clips, left_out, _ = cut(write("word.wav", word))
    assert not clips
    assert {one.reason for one in left_out} == {TOO_SHORT}


def test_sound_without_a_pause_is_not_cut_anywhere(write):
    generator = np.random.default_rng(0)
    sound = np.zeros(40 * RATE_HZ, np.float32)
    sound[10 * RATE_HZ : 30 * RATE_HZ] = 0.2 * generator.standard_normal(20 * RATE_HZ)
    clips, left_out, _ = cut(write("hiss.wav", sound))
    assert not clips
    assert [one.reason for one in left_out] == [NO_PAUSE]
    assert left_out[0].seconds == pytest.approx(20, abs=0.2)


@pytest.mark.parametrize("samples", [1, 200, 1_000])
def test_next_to_nothing_gives_nothing(write, samples):
    clips, left_out, _ = cut(write("click.wav", np.full(samples, 0.5, np.float32)))
    assert not clips
    assert not left_out


def test_a_rate_without_speech_in_it_is_refused(tmp_path):
    file = tmp_path / "slow.wav"
    soundfile.write(file, np.zeros(5_000), 1_000)
    with pytest.raises(UnusableAudioError):
        cut(file)


def prints_of(file):
    clips, _, _ = cut(file)
    return [clip.fingerprint for clip in clips], [clip.samples.size for clip in clips]


def test_other_sentences_are_no_duplicates(recording):
    prints, lengths = prints_of(recording)
    # The corpus has sentences in two voices.
    assert len(prints) > 8
    assert duplicates(prints, lengths) == {}
    assert duplicates([], []) == {}


def test_half_the_level_is_the_same_sound(glued, recording, write):
    first, first_lengths = prints_of(recording)
    again, again_lengths = prints_of(write("quiet.wav", glued.samples * np.float32(0.4)))
    found = duplicates([*first, *again], [*first_lengths, *again_lengths])
    assert found == {len(first) + index: index for index in range(len(first))}


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg")
def test_a_compressed_copy_is_the_same_sound(recording, tmp_path):
    copy = tmp_path / "talk.m4a"
    subprocess.run(["ffmpeg", "-v", "error", "-i", recording, "-b:a", "48k", copy], check=True)
    first, first_lengths = prints_of(recording)
    again, again_lengths = prints_of(copy)
    found = duplicates([*first, *again], [*first_lengths, *again_lengths])
    assert len(found) >= 0.9 * len(again)
