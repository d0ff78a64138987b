"""The model. `myxtts.models.XTTS` is the public name of `myxtts.models.xtts.XTTS`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# Imported lazily: some modules of this package are needed before TensorFlow.
if TYPE_CHECKING:
    from myxtts.models.xtts import XTTS as XTTS


def __getattr__(name: str) -> Any:
    if name != "XTTS":
        raise AttributeError(f"module 'myxtts.models' has no attribute '{name}'")
    from myxtts.models.xtts import XTTS

    return XTTS
