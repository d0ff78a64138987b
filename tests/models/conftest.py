import numpy as np
import pytest


@pytest.fixture
def randomized():
    """Build a layer without zero weights, which would hide what lies behind them."""

    def build(layer):
        layer.build()
        generator = np.random.default_rng(0)
        for variable in layer.trainable_variables:
            variable.assign_add(generator.normal(0, 0.3, variable.shape))
        return layer

    return build
