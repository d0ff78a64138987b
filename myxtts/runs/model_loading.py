"""Makes the model of a checkpoint, if its configuration and its weights belong together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import keras

from myxtts.runs.checkpoints import Checkpoint

_Model = TypeVar("_Model", bound=keras.Model)


def require_model(checkpoint: Checkpoint, make: Callable[[], keras.Model]) -> None:
    """Raises an error unless the weights fit the model; takes no memory for either.

    A configuration from elsewhere may declare a model of any size.
    """
    # In this scope variables have shapes and get no values.
    with keras.StatelessScope(initialize_variables=False):
        checkpoint.require_shapes(make().trainable_variables)


def model_of(checkpoint: Checkpoint, make: Callable[[], _Model]) -> _Model:
    """The model with the EMA weights."""
    require_model(checkpoint, make)
    model = make()
    checkpoint.load_into(model.trainable_variables)
    return model
