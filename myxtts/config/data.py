"""Settings of the corpus and its batches."""

from __future__ import annotations

from dataclasses import dataclass

from myxtts.config.schema import Section, setting

BATCHING_MODES = ("bucketed", "fixed", "dynamic")


@dataclass(frozen=True, kw_only=True)
class DataConfig(Section):
    """Where the recordings are and how they are put into batches of static shape."""

    section_name = "data"
    train_data: str | None = setting(
        None, "Folder of the training corpus; null makes and uses the demo corpus."
    )
    val_data: str | None = setting(
        None, "Folder of the validation corpus; null splits one off the training corpus."
    )
    layout: str | None = setting(
        None,
        "Columns of the metadata, such as audio|text|speaker, with - for one that is not used; "
        "null recognises them.",
    )
    delimiter: str | None = setting(
        None, "What separates columns, such as | or , or tab; null recognises it."
    )
    cache_dir: str | None = setting(
        None, "Where prepared features are kept; null puts them beside the corpus."
    )
    validation_fraction: float = setting(
        0.05, "Share of clips split off for validation.", least=0, most=0.5
    )
    batch_size: int = setting(
        16,
        "Clips in a batch; with bucketed batching on average: long ones come in smaller batches, "
        "so that every step costs about the same.",
        least=1,
        most=65_536,
    )
    batching: str = setting(
        "bucketed",
        "bucketed: a few static shapes that fit the corpus. fixed: one shape for everything. "
        "dynamic: every batch as long as its longest clip, which XLA compiles anew each time.",
        choices=BATCHING_MODES,
    )
    pad_to_fixed_length: bool = setting(
        False, "The same as batching: fixed. Every batch has max_text_length and max_mel_frames."
    )
    shape_count: int | None = setting(
        None,
        "How many static shapes bucketed batching may use; null weighs padding against "
        "compilations.",
        least=1,
        most=64,
    )
    frame_budget: int | None = setting(
        None,
        "Most mel frames in a bucketed batch, padding included: bounds its memory. null: no bound "
        "but batch_size.",
        least=16,
    )
    max_text_length: int = setting(
        200, "Longest clip in tokens; longer ones are left out.", least=4, most=10_000
    )
    max_mel_frames: int | None = setting(
        None,
        "Longest clip in mel frames; longer ones are left out. null works it out from the data.",
        least=16,
        most=100_000,
    )
    n_mels: int = setting(80, "Mel bands.", least=10, most=512)
    speaker_balance: float = setting(
        0.0,
        "0 trains on clips as often as they are, 1 on every speaker equally often; between, a "
        "speaker's share goes with the number of its clips to the power of 1 - speaker_balance.",
        least=0,
        most=1,
    )
    language_balance: float = setting(
        0.0, "The same for languages, once their speakers are balanced.", least=0, most=1
    )
    min_speaker_seconds: float = setting(
        60.0, "Validation warns of speakers with less sound than this.", least=0
    )
    max_rejected_fraction: float = setting(
        0.2, "A run stops when more than this share of the clips cannot be used.", least=0, most=1
    )
    workers: int | None = setting(
        None,
        "Processes that prepare features, and threads that load batches; null takes one per core.",
        least=1,
    )
    buffer_size: int = setting(
        50,
        "Batches kept ready ahead of the model, if memory_share allows; the number grows when the "
        "model waits for data and shrinks when it never does.",
        least=1,
    )
    memory_share: float = setting(
        0.25,
        "Most of the free memory that a run may take for its data: half of it for the batches "
        "that are kept ready, half for the features of the corpus where they fit.",
        least=0.01,
        most=0.9,
    )

    @property
    def batching_mode(self) -> str:
        return "fixed" if self.pad_to_fixed_length else self.batching
