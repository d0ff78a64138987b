import numpy as np
import pytest
import tensorflow as tf

from myxtts.models.convolution_forms import convolving_for_xla_on_cpus
from myxtts.models.plane_convolution import plane_convolution


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize(("height", "width"), [(9, 8), (4, 7)])
def test_both_forms_have_the_same_values_and_gradients(height, width, stride):
    generator = np.random.default_rng(stride)
    values, kernel = (
        tf.constant(generator.normal(size=shape), tf.float32)
        for shape in ((2, height, width, 3), (5, 5, 3, 4))
    )

    def with_gradients(values, kernel):
        with tf.GradientTape() as tape:
            tape.watch([values, kernel])
            convolved = plane_convolution(values, kernel, stride)
            loss = tf.reduce_sum(tf.sin(convolved))
        return convolved, *tape.gradient(loss, [values, kernel])

    expected = with_gradients(values, kernel)
    with convolving_for_xla_on_cpus():
        found = tf.function(with_gradients)(values, kernel)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
