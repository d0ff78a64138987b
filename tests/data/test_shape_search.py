import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.data.shape_search import nested_sizes

CLIPS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 90)), min_size=1, max_size=12)


def cost_of_clip(tokens, frames):
    return frames + 0.3 * tokens + 0.01 * tokens * frames


def padded_cost(tokens, frames, chain):
    """What the clips cost when each goes into the first size that holds it."""
    total = 0.0
    for token_count, frame_count in zip(tokens, frames, strict=True):
        holding = next(size for size in chain if size[0] >= token_count and size[1] >= frame_count)
        total += float(cost_of_clip(*map(np.array, holding)))
    return total


def cheapest_chain(tokens, frames, most):
    """By trying every chain of sizes on the planner's grid."""
    rows = sorted({-(-count // 4) * 4 for count in tokens})
    columns = sorted({-(-count // 8) * 8 for count in frames})
    last = (rows[-1], columns[-1])
    sizes = [size for size in itertools.product(rows, columns) if size != last]
    chains = (
        [*chain, last]
        for length in range(most)
        for chain in itertools.combinations(sizes, length)
        if all(a[0] <= b[0] and a[1] <= b[1] for a, b in itertools.pairwise(chain))
    )
    return min(padded_cost(tokens, frames, chain) for chain in chains)


@settings(max_examples=60, deadline=None)
@given(CLIPS, st.integers(1, 3))
def test_the_sizes_are_the_cheapest_there_are(clips, most):
    tokens, frames = (np.array(lengths, np.int32) for lengths in zip(*clips, strict=True))
    sizes = nested_sizes(tokens, frames, cost_of_clip, most, multiples=(4, 8))[-1]
    assert len(sizes) <= most
    found = padded_cost(tokens, frames, [(size.tokens, size.frames) for size in sizes])
    assert np.isclose(found, cheapest_chain(tokens, frames, most))


@settings(max_examples=60, deadline=None)
@given(CLIPS, st.integers(1, 5))
def test_each_size_says_how_many_clips_it_adds(clips, most):
    tokens, frames = (np.array(lengths, np.int32) for lengths in zip(*clips, strict=True))
    for sizes in nested_sizes(tokens, frames, cost_of_clip, most, multiples=(4, 8)):
        taken = np.zeros(len(clips), bool)
        for size in sizes:
            fits = (tokens <= size.tokens) & (frames <= size.frames) & ~taken
            assert fits.sum() == size.clips
            taken |= fits
        assert taken.all()


def test_a_large_corpus_is_searched_on_a_coarser_grid():
    generator = np.random.default_rng(0)
    frames = generator.integers(50, 4_000, 20_000).astype(np.int32)
    tokens = (frames * generator.uniform(0.05, 0.25, frames.size)).astype(np.int32)
    sizes = nested_sizes(tokens, frames, cost_of_clip, 8, multiples=(4, 8))[-1]
    assert len(sizes) == 8
    assert sum(size.clips for size in sizes) == frames.size
