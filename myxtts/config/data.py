"""Settings of the corpus and its batches."""

from __future__ import annotations

from myxtts.config.gpu_ids import parse_gpu_ids, read_gpu_id, read_gpu_ids
from myxtts.config.schema import Section, frozen_settings, setting

BATCHING_MODES = ("bucketed", "fixed", "dynamic")


@frozen_settings
class DataConfig(Section):
    """Where the recordings are, how they are batched and prefetched, and which GPUs that uses."""

    section_name = "data"
    train_data: str | None = setting(
        None, "Folder of the training corpus; null generates the demo corpus and uses it."
    )
    val_data: str | None = setting(
        None, "Folder of the validation corpus; null holds out part of the training corpus."
    )
    layout: str | None = setting(
        None,
        "Columns of the metadata file, such as audio|text|speaker, with - for an unused column; "
        "null detects them.",
    )
    delimiter: str | None = setting(
        None, "Column separator, such as | or , or tab; null detects it."
    )
    cache_dir: str | None = setting(
        None, "Where computed features are cached; null puts them next to the corpus."
    )
    validation_fraction: float = setting(
        0.05,
        "Fraction of clips held out for validation where there is no validation corpus.",
        least=0,
        most=0.5,
    )
    batch_size: int = setting(
        16,
        "Clips that are computed at once, over all replicas; a step takes as many such batches as "
        "training.gradient_accumulation_steps says. With bucketed batching it is an average: long "
        "clips come in smaller batches, so that every step costs about the same. If it is not "
        "given, a corpus with too few or very long clips gets 8 or 4.",
        least=1,
        most=65_536,
    )
    batching: str = setting(
        "bucketed",
        "bucketed: a few static shapes that fit the corpus. fixed: one shape for every batch. "
        "dynamic: every batch is as long as its longest clip, and XLA compiles each new shape.",
        choices=BATCHING_MODES,
    )
    pad_to_fixed_length: bool = setting(
        False,
        "Same as `batching: fixed`: every batch is padded to max_text_length and max_mel_frames.",
    )
    shape_count: int | None = setting(
        None,
        "Maximum number of static shapes in bucketed batching; null trades padding off against "
        "compilations.",
        least=1,
        most=64,
    )
    frame_budget: int | None = setting(
        None,
        "Maximum mel frames in a bucketed batch, padding included, to limit its memory; null "
        "sets no limit beyond batch_size.",
        least=16,
    )
    max_text_length: int = setting(
        200,
        "Maximum clip length in tokens; longer clips are left out.",
        least=4,
        most=10_000,
    )
    max_mel_frames: int | None = setting(
        None,
        "Maximum clip length in mel frames; longer clips are left out. null derives it from the "
        "data.",
        least=16,
        most=100_000,
    )
    n_mels: int = setting(80, "Number of mel bands.", least=10, most=512)
    speaker_balance: float = setting(
        0.0,
        "0 samples clips uniformly, 1 samples speakers uniformly. In between, a speaker's share "
        "is proportional to its number of clips to the power of 1 - speaker_balance.",
        least=0,
        most=1,
    )
    language_balance: float = setting(
        0.0, "The same for languages, applied after speakers are balanced.", least=0, most=1
    )
    min_speaker_seconds: float = setting(
        60.0, "`myxtts validate` warns about speakers with less audio than this.", least=0
    )
    max_rejected_fraction: float = setting(
        0.2, "A run stops if more than this fraction of the clips is unusable.", least=0, most=1
    )
    workers: int | None = setting(
        None,
        "Processes that compute features, and threads that load batches; null uses one per core.",
        least=1,
    )
    buffer_size: int = setting(
        50,
        "Batches to prefetch, as far as memory_share allows; the buffer grows when the model "
        "waits for data and shrinks when it never does.",
        least=1,
    )
    memory_share: float = setting(
        0.25,
        "Maximum fraction of free memory to use for data: half of it for prefetched batches, "
        "half for the features of the corpus if they fit.",
        least=0.01,
        most=0.9,
    )
    data_gpu: int | None = setting(
        None, "GPU that computes features; needs model_gpu.", least=0, read=read_gpu_id
    )
    model_gpu: str | None = setting(
        None,
        'GPU or GPUs that train, such as 1, "1,2" or [1, 2].',
        read=read_gpu_ids,
        check=parse_gpu_ids,
    )
    model_start_delay: float = setting(
        2.0, "Seconds between starting the data device and starting the model.", least=0
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

    @property
    def batching_mode(self) -> str:
        return "fixed" if self.pad_to_fixed_length else self.batching
