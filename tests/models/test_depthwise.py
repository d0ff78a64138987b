import numpy as np
import pytest
import tensorflow as tf

from myxtts.models.convolution_forms import convolving_for_xla_on_cpus
from myxtts.models.depthwise import depthwise_convolution


@pytest.mark.parametrize(("positions", "taps"), [(9, 1), (9, 4), (9, 7), (3, 7)])
def test_both_forms_have_the_same_values_and_gradients(positions, taps):
    generator = np.random.default_rng(taps)
    values = tf.constant(generator.normal(size=(3, positions, 5)), tf.float32)
    kernel = tf.constant(generator.normal(size=(1, taps, 5, 1)), tf.float32)
    upstream = tf.constant(generator.normal(size=(3, positions, 5)), tf.float32)

    def with_gradients(values, kernel):
        with tf.GradientTape() as tape:
            tape.watch([values, kernel])
            convolved = depthwise_convolution(values, kernel, "float32")
        return convolved, *tape.gradient(convolved, [values, kernel], upstream)

    expected = with_gradients(values, kernel)
    with convolving_for_xla_on_cpus():
        found = tf.function(with_gradients, jit_compile=True)(values, kernel)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
