"""What several tests of the schedule hold of every batch."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def require_creatable():
    """Fails unless the clips of a batch, and the texts of each replica's share, fit its shape."""

    def require(batch, tokens, frames, replicas, declared_shapes):
        """`declared_shapes` is None where every batch has a shape of its own."""
        assert batch.clips.size == batch.shape.batch
        assert tokens[batch.clips].max() <= batch.shape.tokens
        assert frames[batch.clips].max() <= batch.shape.frames
        of_shares = tokens[batch.clips].reshape(replicas, -1).sum(axis=1)
        assert of_shares.max() <= batch.shape.slots
        assert declared_shapes is None or batch.shape in declared_shapes

    return require
