"""Makes the model of a checkpoint, if its configuration and its weights belong together."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import keras

from myxtts.runs.checkpoints import Checkpoint

_Model = TypeVar("_Model", bound=keras.Model)
_Result = TypeVar("_Result")


def require_model(checkpoint: Checkpoint, make: Callable[[], keras.Model]) -> None:
    """Raises an error unless the weights fit the model; takes no memory for either.

    A configuration from elsewhere may declare a model of any size.
    """

    def check() -> None:
        with keras.StatelessScope(initialize_variables=False):
            checkpoint.require_shapes(make().trainable_variables)

    _in_own_thread(check)


def model_of(checkpoint: Checkpoint, make: Callable[[], _Model]) -> _Model:
    """The model with the EMA weights."""

    def made() -> _Model:
        with keras.StatelessScope(initialize_variables=False) as scope:
            model = make()
            variables = model.trainable_variables
            checkpoint.require_shapes(variables)
            weights = checkpoint.ema_weights(variable.path for variable in variables)
            for variable in variables:
                # Drawing random weights first takes longer than all the rest; Keras has no public
                # way around it.
                variable._initializer = lambda *_, value=weights[variable.path], **__: value
            scope.initialize_variables = True
        return model

    return _in_own_thread(made)


def _in_own_thread(work: Callable[[], _Result]) -> _Result:
    """In this scope variables have shapes and get no values. Keras keeps a list of them for each
    thread and gives them values when any scope ends; that of a thread that has ended is forgotten.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()
