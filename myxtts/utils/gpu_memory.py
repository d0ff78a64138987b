"""Public alias of `myxtts.devices.memory.setup_gpu_memory_isolation`."""

from myxtts.devices.memory import setup_gpu_memory_isolation

__all__ = ["setup_gpu_memory_isolation"]
