"""Public alias of `myxtts.devices.strategy.setup_gpu_strategy`."""

from myxtts.devices.strategy import setup_gpu_strategy

__all__ = ["setup_gpu_strategy"]
