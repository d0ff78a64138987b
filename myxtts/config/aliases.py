"""Other names of settings, which guides to the GPU pipeline and to static shapes use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from myxtts.config.schema import Layer
from myxtts.errors import ConfigError

# Under `data:`, as are the settings themselves.
ALIASES = {
    "data_gpu_memory": "data_gpu_memory_mb",
    "model_gpu_memory": "model_gpu_memory_mb",
    "prefetch_buffer_size": "buffer_size",
    "enable_static_shapes": "pad_to_fixed_length",
}


def resolve_aliases(layer: Mapping[str, Mapping[str, Any]], source: str = "") -> Layer:
    """Return the layer with every setting under its own name; `source` is named in errors."""
    resolved: Layer = {section: dict(values) for section, values in layer.items()}
    data = resolved.get("data", {})
    for alias, name in ALIASES.items():
        if alias not in data:
            continue
        if name in data:
            where = f"{source}: " if source else ""
            raise ConfigError(f"{where}data.{alias} and data.{name} are one setting; keep one")
        data[name] = data.pop(alias)
    return resolved
