import numpy as np
import pytest


@pytest.fixture
def randomised():
    """Builds a layer none of whose weights is zero, for a zero would hide what lies behind it."""

    def build(layer):
        layer.build()
        generator = np.random.default_rng(0)
        for variable in layer.trainable_variables:
            variable.assign_add(generator.normal(0, 0.3, variable.shape))
        return layer

    return build
