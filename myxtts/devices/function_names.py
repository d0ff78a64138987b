"""Names of compiled functions that are the same in every launch.

TensorFlow appends the number of tensors created so far to the name of a traced function. XLA finds
programs in its persistent cache by that name. Without this, one more buffered batch while tracing
changes the name, and every program is compiled again.
"""

from __future__ import annotations

import tensorflow as tf

# Far more tensors than launches can differ by; counting to it takes less than half a second.
_STRIDE = 100_000


def start_names_at_round_number() -> None:
    """Call it right before tracing, while no other thread makes tensors."""
    made = _tensors_made()
    if made is not None:
        for _ in range(_STRIDE - made % _STRIDE):
            tf.constant(0)


def _tensors_made() -> int | None:
    """Return None if this version of TensorFlow names functions differently."""
    function = tf.function(lambda: None, autograph=False).get_concrete_function()
    count = function.name.decode().rpartition("_")[2]
    return int(count) if count.isdigit() else None
