"""Settings of the devices."""

from __future__ import annotations

from myxtts.config.gpu_ids import parse_gpu_ids, read_gpu_id, read_gpu_ids
from myxtts.config.schema import Section, frozen_settings, setting


@frozen_settings
class DeviceConfig(Section):
    """Which devices compute features and which train, and how much memory each may use."""

    section_name = "devices"
    data_gpu: int | None = setting(
        None, "GPU that computes features; needs model_gpu.", least=0, read=read_gpu_id
    )
    model_gpu: str | None = setting(
        None,
        'GPU or GPUs that train, such as 1, "1,2" or [1, 2].',
        read=read_gpu_ids,
        check=parse_gpu_ids,
    )
    model_start_delay_seconds: float = setting(
        2.0, "Delay between starting the data device and starting the model.", least=0
    )
    enable_memory_isolation: bool = setting(
        False, "Give the data GPU and the model GPU a fixed memory limit each."
    )
    data_gpu_memory_mb: int | None = setting(
        None, "Memory limit of the data GPU; null chooses one by the size of the card.", least=1
    )
    model_gpu_memory_mb: int | None = setting(
        None, "Memory limit of the model GPU; null chooses one by the size of the card.", least=1
    )
    strict_devices: bool = setting(
        False,
        "Stop if mirrored training, multi-GPU mode or a GPU in model_gpu is not available, "
        "instead of continuing without it.",
    )
    virtual_devices: int = setting(
        0, "Logical CPU devices that stand in for GPUs; 0 uses the real GPUs.", least=0, most=64
    )
