"""Every setting of MyXTTS: one default, one unit, one explanation each.

Sections are frozen, keyword-only dataclasses. `XTTSConfig` holds one of each and also takes
any setting whose name is unique as a flat keyword: `XTTSConfig(multi_gpu=True, batch_size=8)`.
What a size or an optimisation level sets is below what is given by name. Values are checked when
a section is made; what concerns two sections is checked by XTTSConfig.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from myxtts.config.metrics import JUDGING_METRICS, MEASURES
from myxtts.config.names import did_you_mean
from myxtts.config.presets import preset_of
from myxtts.errors import ConfigError

MODEL_SIZES = ("tiny", "small", "normal", "big")
OPTIMIZATION_LEVELS = ("basic", "enhanced", "experimental")
BATCHING_MODES = ("bucketed", "fixed", "dynamic")
PRECISIONS = ("float32", "bfloat16", "float16")
# A voice changes slowly: the voice encoder looks at so many frames at a time.
VOICE_STEP_FRAMES = 4


def setting(
    default: Any,
    explanation: str,
    *,
    choices: tuple[str, ...] | None = None,
    least: float | None = None,
    most: float | None = None,
) -> Any:
    """A field with its explanation and its bounds; the reference pages are made from these."""
    bounds = {"explanation": explanation, "choices": choices, "least": least, "most": most}
    return dataclasses.field(default=default, metadata=bounds)


class Section:
    """Checks each value against its type and bounds, and names the key that is wrong."""

    section_name: typing.ClassVar[str]

    def __post_init__(self) -> None:
        hints = _type_hints(type(self))
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            key = f"{self.section_name}.{field.name}"
            value = _coerce(key, getattr(self, field.name), hints[field.name])
            _check_bounds(key, value, field.metadata)
            object.__setattr__(self, field.name, value)


@dataclass(frozen=True, kw_only=True)
class AudioConfig(Section):
    """How a waveform becomes a log-mel spectrogram."""

    section_name = "audio"
    sample_rate_hz: int = setting(
        22_050, "Every clip is resampled to this rate.", least=8_000, most=192_000
    )
    fft_samples: int = setting(1_024, "Length of the analysis window.", least=64, most=65_536)
    hop_samples: int = setting(256, "Distance between two mel frames.", least=16, most=32_768)
    lowest_hz: float = setting(0.0, "Lower edge of the lowest mel band.", least=0)
    highest_hz: float = setting(8_000.0, "Upper edge of the highest mel band.", least=100)
    trim_silence_db: float | None = setting(
        40.0,
        "Silence at both ends quieter than this many dB below the peak is cut; null keeps it.",
        least=1,
    )
    loudness_dbfs: float | None = setting(
        -23.0,
        "Every clip is brought to this level (RMS of its louder parts), so that voices "
        "recorded at different levels do not look different; null keeps the level.",
        most=0,
    )


@dataclass(frozen=True, kw_only=True)
class TextConfig(Section):
    """How a sentence becomes tokens."""

    section_name = "text"
    tokens: str = setting(
        "phonemes",
        "phonemes (espeak-ng) need less data; graphemes need no pronunciation dictionary.",
        choices=("phonemes", "graphemes"),
    )
    default_language: str = setting(
        "en", "Language of corpora that have no language column, as a code such as en or fa."
    )


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


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Section):
    """Sizes of the parts of the model; `size` sets all of them, single settings override it."""

    section_name = "model"
    size: str = setting("tiny", "Preset for every setting below.", choices=MODEL_SIZES)
    frames_per_position: int = setting(
        2,
        "Mel frames that text encoder, alignment and decoder treat as one position: "
        "2 halves their cost.",
        least=1,
        most=4,
    )
    text_width: int = setting(128, "Channels of the text encoder.", least=8, most=2_048)
    text_blocks: int = setting(4, "Blocks of the text encoder.", least=1, most=64)
    attention_heads: int = setting(2, "Heads of every attention.", least=1, most=64)
    voice_width: int = setting(
        128, "Channels of the voice encoder and its vector.", least=8, most=2_048
    )
    voice_blocks: int = setting(2, "Blocks of the voice encoder.", least=1, most=64)
    voice_latents: int = setting(
        8, "Latent voice tokens that the decoder attends to.", least=1, most=1_024
    )
    decoder_width: int = setting(192, "Channels of the decoder.", least=8, most=2_048)
    decoder_blocks: int = setting(8, "Blocks of the decoder.", least=1, most=64)
    kernel_positions: int = setting(7, "Width of the depthwise convolutions.", least=1, most=63)
    segment_frames: int = setting(
        96, "Mel frames of each clip that the decoder is trained on per step.", least=16, most=8_192
    )
    reference_frames: int = setting(
        192,
        "Mel frames of another recording that show the voice in training.",
        least=32,
        most=8_192,
    )


class Guidance(typing.NamedTuple):
    text: float
    voice: float


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Section):
    """Length, optimisation, saving and devices of a run."""

    section_name = "training"
    optimization_level: str = setting(
        "basic", "Preset of the optimisation settings below.", choices=OPTIMIZATION_LEVELS
    )
    max_steps: int | None = setting(
        None,
        "Length of the run in optimizer steps; null, and no epochs: worked out from the corpus.",
        least=1,
    )
    epochs: int | None = setting(
        None, "Length of the run in passes over the corpus; max_steps wins.", least=1
    )
    learning_rate: float = setting(2e-3, "Peak learning rate.", least=0)
    final_learning_rate_fraction: float = setting(
        0.02, "Learning rate at the last step, as a share of the peak.", least=0, most=1
    )
    warmup_steps: int = setting(50, "Steps over which the learning rate rises.", least=0)
    weight_decay: float = setting(0.01, "AdamW weight decay, on matrices only.", least=0)
    beta_1: float = setting(0.9, "AdamW decay of the first moment.", least=0, most=0.9999)
    beta_2: float = setting(0.98, "AdamW decay of the second moment.", least=0, most=0.9999)
    clip_norm: float = setting(1.0, "Largest norm of the whole gradient.", least=1e-3)
    ema_decay: float = setting(
        0.995,
        "Decay of the averaged weights that evaluation and synthesis use; it rises to this "
        "value over the first steps.",
        least=0,
        most=1,
    )
    freeze: str | None = setting(
        None,
        'Parts of the model that keep their weights, by name: "voice_encoder, decoder.block_*".',
    )
    gradient_accumulation_steps: int = setting(
        1, "Micro-batches whose gradients make one step; the batch is split into them.", least=1
    )
    text_drop_rate: float = setting(
        0.0,
        "In this share of the clips the decoder is not told the text: it learns what any speech "
        "of a voice is like, which text_guidance needs.",
        least=0,
        most=0.9,
    )
    text_guidance: float = setting(
        0.0,
        "How far synthesis goes beyond what the decoder says of any speech in this voice, towards "
        "this text, unless it is told otherwise; 0 is off and twice as fast. It is off without "
        "text_drop_rate.",
        least=0,
        most=10,
    )
    voice_drop_rate: float = setting(
        0.0,
        "In this share of the clips the decoder is not told the voice: it learns what this text "
        "is like in any voice, which voice_guidance needs.",
        least=0,
        most=0.9,
    )
    voice_guidance: float = setting(
        0.0,
        "How far synthesis goes beyond what the decoder says of this text in any voice, towards "
        "this voice, unless it is told otherwise. It is off without voice_drop_rate.",
        least=0,
        most=10,
    )
    augment_speed: float = setting(
        0.0, "Clips are made up to this share faster or slower.", least=0, most=0.3
    )
    augment_pitch_semitones: float = setting(
        0.0, "Voices are made up to this much higher or lower.", least=0, most=6
    )
    augment_formants: float = setting(
        0.0,
        "Voices get resonances up to this share higher or lower, whatever their pitch, as those of "
        "shorter and longer throats.",
        least=0,
        most=0.3,
    )
    augment_tone_db: float = setting(
        0.0,
        "Voices get low, middle and high sounds up to this much louder or softer than others.",
        least=0,
        most=30,
    )
    augment_gain_db: float = setting(
        0.0, "References are made up to this much louder or softer.", least=0, most=30
    )
    augment_noise_dbfs: float | None = setting(
        None, "References get noise up to this level; null: none.", least=-90, most=-10
    )
    seed: int = setting(0, "Everything random in a run follows from it.", least=0, most=2**31 - 1)
    evaluate_every: int = setting(
        500, "Steps between evaluations, each with losses, an alignment and a sample.", least=1
    )
    save_every: int = setting(500, "Steps between checkpoints.", least=1)
    keep_checkpoints: int = setting(
        3, "So many of the newest checkpoints are kept, and the best one beside them.", least=1
    )
    log_every: int = setting(10, "Steps between lines of metrics.jsonl.", least=1)
    measure_every: int | None = setting(
        None,
        "Every so many evaluations a checkpoint is also measured as `myxtts evaluate` does, in a "
        "process beside the run; null: never.",
        least=1,
    )
    measured_sentences: int = setting(12, "Held-out sentences that are measured.", least=1)
    best_metric: str = setting(
        "validation_loss",
        "What chooses the best checkpoint; one that is no loss needs measure_every.",
        choices=JUDGING_METRICS,
    )
    early_stopping_evaluations: int | None = setting(
        None,
        "Stop after so many evaluations in which best_metric did not get better; null: never.",
        least=1,
    )
    xla: bool | None = setting(
        None, "Compile the step with XLA; null does so on GPUs and not on CPUs."
    )
    xla_cache_dir: str | None = setting(
        None,
        "Folder in which XLA keeps compiled programs for the next launch; null: in the user's "
        "cache folder.",
    )
    precision: str = setting(
        "float32",
        "Type of matrix products and convolutions; weights, losses and sums stay float32. On CPUs "
        "the short types gain nothing; on GPUs they may: measure with myxtts tune. float16, for "
        "cards without bfloat16, comes with a loss scale that finds itself.",
        choices=PRECISIONS,
    )
    multi_gpu: bool = setting(False, "Train on every visible GPU, mirrored.")
    visible_gpus: str | None = setting(None, 'Ids of the GPUs to use, such as "0,1".')

    @property
    def usual_guidance(self) -> Guidance:
        """A decoder that was always told a thing can say nothing of speech without it."""
        return Guidance(
            text=self.text_guidance if self.text_drop_rate else 0.0,
            voice=self.voice_guidance if self.voice_drop_rate else 0.0,
        )


@dataclass(frozen=True, kw_only=True)
class DeviceConfig(Section):
    """Which device computes features, which one trains, and how much memory each may take."""

    section_name = "devices"
    data_gpu: int | None = setting(None, "GPU that computes features; needs model_gpu.", least=0)
    model_gpu: str | None = setting(None, 'GPU or GPUs that train, such as "1" or "1,2".')
    model_start_delay_seconds: float = setting(
        2.0, "The model starts this long after the data device.", least=0
    )
    enable_memory_isolation: bool = setting(
        False, "Give the data GPU and the model GPU a fixed share of memory each."
    )
    data_gpu_memory_mb: int | None = setting(
        None, "Memory limit of the data GPU; null: recommended from the card's size.", least=1
    )
    model_gpu_memory_mb: int | None = setting(
        None, "Memory limit of the model GPU; null: recommended from the card's size.", least=1
    )
    strict_devices: bool = setting(
        False,
        "Stop when mirrored training or multi-GPU mode does not work, instead of going on without.",
    )
    virtual_devices: int = setting(
        0, "Logical CPU devices that stand in for GPUs; 0 uses the real ones.", least=0, most=64
    )


@dataclass(frozen=True, kw_only=True, init=False)
class XTTSConfig:
    """The whole configuration of a run."""

    audio: AudioConfig
    text: TextConfig
    data: DataConfig
    model: ModelConfig
    training: TrainingConfig
    devices: DeviceConfig

    def __init__(self, **settings: Any) -> None:
        per_section: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
        for name, value in settings.items():
            if name in SECTIONS:
                per_section[name] |= _section_settings(name, value)
            else:
                per_section[section_of(name)][name] = value
        for name, section_class in SECTIONS.items():
            given = per_section[name]
            object.__setattr__(self, name, section_class(**(preset_of(name, given) | given)))
        self._check_across_sections()

    def as_dict(self) -> dict[str, dict[str, Any]]:
        return dataclasses.asdict(self)

    def _check_across_sections(self) -> None:
        audio, data, model = self.audio, self.data, self.model
        _require(
            audio.highest_hz <= audio.sample_rate_hz / 2,
            f"audio.highest_hz: found {audio.highest_hz}, allowed up to half of "
            f"audio.sample_rate_hz ({audio.sample_rate_hz / 2:g})",
        )
        _require(
            audio.lowest_hz < audio.highest_hz,
            f"audio.lowest_hz: found {audio.lowest_hz}, allowed below audio.highest_hz "
            f"({audio.highest_hz:g})",
        )
        _require(
            audio.hop_samples <= audio.fft_samples // 2,
            f"audio.hop_samples: found {audio.hop_samples}, allowed up to half of "
            f"audio.fft_samples ({audio.fft_samples // 2})",
        )
        for name in ("text_width", "voice_width", "decoder_width"):
            width = getattr(model, name)
            _require(
                width % (2 * model.attention_heads) == 0,
                f"model.{name}: found {width}, allowed are multiples of twice "
                f"model.attention_heads ({2 * model.attention_heads})",
            )
        for name in ("segment_frames", "reference_frames"):
            frames = getattr(model, name)
            _require(
                frames % (VOICE_STEP_FRAMES * model.frames_per_position) == 0,
                f"model.{name}: found {frames}, allowed are multiples of {VOICE_STEP_FRAMES} times "
                f"model.frames_per_position ({VOICE_STEP_FRAMES * model.frames_per_position})",
            )
        _require(
            (data.max_mel_frames or 0) % model.frames_per_position == 0,
            f"data.max_mel_frames: found {data.max_mel_frames}, allowed are multiples of "
            f"model.frames_per_position ({model.frames_per_position})",
        )
        best = self.training.best_metric
        _require(
            best not in MEASURES or self.training.measure_every is not None,
            f"training.best_metric: found {best}, which only measuring tells; set "
            "training.measure_every too",
        )
        accumulation = self.training.gradient_accumulation_steps
        _require(
            data.batch_size % accumulation == 0,
            f"training.gradient_accumulation_steps: found {accumulation}, allowed are divisors of "
            f"data.batch_size ({data.batch_size})",
        )


SECTIONS: dict[str, type[Section]] = {
    section.section_name: section
    for section in (
        AudioConfig,
        TextConfig,
        DataConfig,
        ModelConfig,
        TrainingConfig,
        DeviceConfig,
    )
}


def section_of(setting_name: str) -> str:
    """The section that a setting's own name belongs to."""
    names = {
        field.name: section
        for section, section_class in SECTIONS.items()
        for field in dataclasses.fields(section_class)  # type: ignore[arg-type]
    }
    if setting_name not in names:
        hint = did_you_mean(setting_name, [*names, *SECTIONS])
        raise ConfigError(f"unknown setting '{setting_name}'{hint}")
    return names[setting_name]


def _section_settings(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Section):
        return dataclasses.asdict(value)  # type: ignore[call-overload]
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name}: found {value!r}, expected settings such as {name}: {{...}}")
    known = [field.name for field in dataclasses.fields(SECTIONS[name])]  # type: ignore[arg-type]
    for key in value:
        if key not in known:
            hint = did_you_mean(str(key), known)
            raise ConfigError(f"unknown setting '{name}.{key}'{hint}")
    return dict(value)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)


def _type_hints(section: type) -> dict[str, Any]:
    return typing.get_type_hints(section)


def _coerce(key: str, value: Any, hint: Any) -> Any:
    """`value` as the type that the field declares; YAML's 2 for 2.0 and 1e-4 as text are meant."""
    allowed = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if value is None and types.NoneType in allowed:
        return None
    kind = next(item for item in allowed if item is not types.NoneType)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is float and isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            pass
    if type(value) is not kind:
        expected = " or ".join(
            "null" if item is types.NoneType else item.__name__ for item in allowed
        )
        raise ConfigError(f"{key}: found {value!r} ({type(value).__name__}), allowed: {expected}")
    return value


def _check_bounds(key: str, value: Any, bounds: Mapping[str, Any]) -> None:
    if value is None:
        return
    if bounds["choices"] and value not in bounds["choices"]:
        hint = did_you_mean(str(value), bounds["choices"])
        raise ConfigError(f"{key}: found {value!r}, allowed: {', '.join(bounds['choices'])}{hint}")
    if bounds["least"] is not None and not value >= bounds["least"]:
        raise ConfigError(f"{key}: found {value}, allowed: {bounds['least']:g} or more")
    if bounds["most"] is not None and not value <= bounds["most"]:
        raise ConfigError(f"{key}: found {value}, allowed: {bounds['most']:g} or less")
