"""The configuration: its sections, presets, and checks across sections.

Sections are frozen, keyword-only dataclasses. `XTTSConfig` holds one of each and also takes
settings as flat keywords: `XTTSConfig(multi_gpu=True, batch_size=8)`. An explicit setting overrides
that of a size or an optimization level.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from myxtts.config.schema import Layer, Section, did_you_mean, frozen_settings, nearest, setting
from myxtts.errors import ConfigError


def read_gpu_id(value: Any) -> Any:
    """Read a GPU id from 0, "0" or [0]."""
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    return int(value) if isinstance(value, str) and value.strip().isdecimal() else value


def read_gpu_ids(value: Any) -> Any:
    """Format GPU ids as text: 1 as "1", [1, 2] as "1,2"."""
    ids = value if isinstance(value, list | tuple) else [value]
    numbers = [read_gpu_id(part) for part in ids]
    if not numbers or any(type(number) is not int for number in numbers):
        return value
    return ",".join(str(number) for number in numbers)


def parse_gpu_ids(name: str, text: str) -> list[int]:
    """Parse ids such as "1,2"; `name` is the setting they come from."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ConfigError(
            f'{name}: found {text!r}, expected GPU ids separated by commas; write it like "0,1"'
        )
    ids = [int(part) for part in parts]
    if len(set(ids)) < len(ids):
        once = ",".join(map(str, sorted(set(ids))))
        raise ConfigError(f'{name}: found {text!r}, expected each id once; write "{once}"')
    return ids


def parse_optional_gpu_ids(name: str, text: str) -> list[int]:
    """Parse GPU ids; empty text means none."""
    return parse_gpu_ids(name, text) if text.strip() else []


class LossParts(NamedTuple):
    """The parts of the loss of `myxtts.models.xtts`.

    A setting `training.NAME_weight` is the weight of a part; without one it is 1.
    """

    prior: Any
    duration: Any
    mel: Any
    flow: Any
    adversarial: Any
    phoneme: Any


class VocoderLossParts(NamedTuple):
    """The parts of the loss of `myxtts.models.vocoder`."""

    spectral: Any
    refining: Any
    discriminator: Any


TRAINING_LOSSES = (
    "loss",
    *(f"{name}_loss" for name in (*LossParts._fields, *VocoderLossParts._fields)),
)
VALIDATION_LOSSES = tuple(f"validation_{name}" for name in TRAINING_LOSSES)

LOWER_IS_BETTER = dict.fromkeys((*TRAINING_LOSSES, *VALIDATION_LOSSES), True) | {
    "validation_mel_distance": True,
    "wer": True,
    "cer": True,
    "similarity": False,
    "own_similarity": False,
    "dnsmos": False,
    "distillmos": False,
    "mel_cepstral_distance": True,
    "pitch_error": True,
    "voicing_error": True,
    "clipping": True,
    "real_time_factor": True,
}
# The included ASR model; without it WER is not measured during a run.
ASR_PACKAGE = "moonshine_voice"
ASR_LANGUAGES = ("en",)
# Training losses are those of single batches and too noisy to choose checkpoints by.
JUDGING_METRICS = tuple(name for name in LOWER_IS_BETTER if name not in TRAINING_LOSSES)
MEASURES = tuple(name for name in JUDGING_METRICS if not name.startswith("validation_"))


@frozen_settings
class AudioConfig(Section):
    """How audio is turned into log-mel spectrograms."""

    section_name = "audio"
    sample_rate_hz: int = setting(
        22_050, "Sample rate of the model; every clip is resampled to it.", bounds=(8_000, 192_000)
    )
    fft_samples: int = setting(1_024, "FFT size and window length.", bounds=(64, 65_536))
    hop_samples: int = setting(256, "Hop between consecutive mel frames.", bounds=(16, 32_768))
    highest_hz: float = setting(8_000.0, "Upper edge of the highest mel band.", bounds=(100, None))


@frozen_settings
class TextConfig(Section):
    """How text is turned into tokens."""

    section_name = "text"
    tokens: str = setting(
        "phonemes",
        "phonemes (from espeak-ng) need less training data; graphemes need no pronunciation "
        "dictionary.",
        choices=("phonemes", "graphemes"),
    )
    ezafe: bool = setting(
        True, "Pronounce the Persian ezafe where it is not written. Applies to phonemes only."
    )
    default_language: str = setting(
        "en", "Language of corpora without a language column, as a code such as en or fa."
    )


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
    cache_dir: str | None = setting(
        None, "Where computed features are cached; null puts them next to the corpus."
    )
    validation_fraction: float = setting(
        0.05,
        "Fraction of clips held out for validation without a validation corpus.",
        bounds=(0, 0.5),
    )
    batch_size: int = setting(
        16,
        "Clips per batch across all replicas. One optimizer step accumulates "
        "training.gradient_accumulation_steps batches. With bucketed batching it is an average: "
        "long clips come in smaller batches, so that steps cost about the same. The default is "
        "reduced to 8 or 4 for corpora with few or very long clips.",
        bounds=(1, 65_536),
    )
    batching: str = setting(
        "bucketed",
        "bucketed: a few static shapes that fit the corpus. fixed: one shape. dynamic: every "
        "batch is as long as its longest clip, and XLA compiles each new shape.",
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
        bounds=(1, 64),
    )
    max_text_length: int = setting(
        200, "Maximum clip length in tokens; longer clips are left out.", bounds=(4, 10_000)
    )
    max_mel_frames: int | None = setting(
        None,
        "Maximum clip length in mel frames; longer clips are left out. null derives it from the "
        "data.",
        bounds=(16, 100_000),
    )
    n_mels: int = setting(80, "Number of mel bands.", bounds=(10, 512))
    speaker_balance: float = setting(
        0.0,
        "0 samples clips uniformly, 1 samples speakers uniformly; in between, in proportion to "
        "their clips to the power of 1 - speaker_balance.",
        bounds=(0, 1),
    )
    language_balance: float = setting(
        0.0, "Balances languages in the same way, after speakers.", bounds=(0, 1)
    )
    max_rejected_fraction: float = setting(
        0.2, "A run stops if more than this fraction of the clips is unusable.", bounds=(0, 1)
    )
    workers: int | None = setting(
        None,
        "Processes that compute features, and threads that load batches; null uses one per core.",
        bounds=(1, None),
    )
    buffer_size: int = setting(
        50,
        "Batches to prefetch if memory allows; the buffer grows when the model waits for data and "
        "shrinks when it never does.",
        bounds=(1, None),
    )
    data_gpu: int | None = setting(
        None, "GPU that computes features; needs model_gpu.", bounds=(0, None), read=read_gpu_id
    )
    model_gpu: str | None = setting(
        None,
        'GPU or GPUs that train, such as 1, "1,2" or [1, 2].',
        read=read_gpu_ids,
        check=parse_gpu_ids,
    )
    model_start_delay: float = setting(
        2.0, "Seconds between starting the data device and starting the model.", bounds=(0, None)
    )
    enable_memory_isolation: bool = setting(
        False, "Give the data GPU and the model GPU a fixed memory limit each."
    )
    data_gpu_memory_mb: int | None = setting(
        None,
        "Memory limit of the data GPU; null chooses one by the size of the card.",
        bounds=(1, None),
    )
    model_gpu_memory_mb: int | None = setting(
        None,
        "Memory limit of the model GPU; null chooses one by the size of the card.",
        bounds=(1, None),
    )

    @property
    def batching_mode(self) -> str:
        return "fixed" if self.pad_to_fixed_length else self.batching


@frozen_settings
class AugmentationConfig(Section):
    """Random changes to clips and references in training."""

    section_name = "augmentation"
    speed: float = setting(
        0.0,
        "Clips and references are sped up or slowed down by up to this fraction.",
        bounds=(0, 0.3),
    )
    pitch_semitones: float = setting(
        0.0, "Voices are shifted up or down in pitch by up to this many semitones.", bounds=(0, 6)
    )
    formants: float = setting(
        0.0,
        "Formants are shifted up or down by up to this fraction, independently of the pitch.",
        bounds=(0, 0.3),
    )
    tone_db: float = setting(
        0.0,
        "Random equalization: low, middle and high frequencies are boosted or cut by up to this "
        "much.",
        bounds=(0, 30),
    )
    gain_db: float = setting(
        0.0, "References are made louder or quieter by up to this much.", bounds=(0, 30)
    )
    noise_dbfs: float | None = setting(
        None, "Noise of up to this level is added to references; null adds none.", bounds=(-90, -10)
    )


MODEL_SIZES = ("tiny", "base", "small", "normal", "big")
# The voice encoder works on groups of this many frames: a voice changes slowly.
VOICE_STEP_FRAMES = 4


@frozen_settings
class ModelConfig(Section):
    """Size of each part of the model; `size` sets all of them, and single settings override it."""

    section_name = "model"
    size: str = setting("tiny", "Preset for all settings below.", choices=MODEL_SIZES)
    # Mel frames per position of text encoder, alignment and decoder. Two frames halve the cost, and
    # no phoneme is shorter.
    frames_per_position: ClassVar[int] = 2
    text_width: int = setting(128, "Channels in the text encoder.", bounds=(8, 2_048))
    text_blocks: int = setting(4, "Blocks in the text encoder.", bounds=(1, 64))
    attention_heads: int = setting(2, "Heads in every attention layer.", bounds=(1, 64))
    voice_width: int = setting(
        128, "Channels in the voice encoder, and the size of the voice vector.", bounds=(8, 2_048)
    )
    voice_blocks: int = setting(2, "Blocks in the voice encoder.", bounds=(1, 64))
    voice_latents: int = setting(8, "Voice latents that the decoder attends to.", bounds=(1, 1_024))
    frame_width: int = setting(192, "Channels in the frame encoder.", bounds=(8, 2_048))
    frame_blocks: int = setting(
        0,
        "Blocks of the frame encoder at each of its five stages; 0 omits it.",
        bounds=(0, 64),
    )
    decoder_width: int = setting(192, "Channels in the decoder.", bounds=(8, 2_048))
    decoder_blocks: int = setting(8, "Blocks in the decoder.", bounds=(1, 64))
    kernel_positions: int = setting(
        7, "Kernel size of the depthwise convolutions, in positions.", bounds=(1, 63)
    )
    segment_frames: int = setting(
        96, "Mel frames per clip and step on which the decoder is trained.", bounds=(16, 8_192)
    )
    reference_frames: int = setting(
        192,
        "Mel frames of reference audio per clip in training.",
        bounds=(32, 8_192),
    )


_OPTIMIZATION_LEVEL_NAMES = ("basic", "enhanced", "experimental")
_TASK_NAMES = ("acoustic", "vocoder")
PRECISIONS = ("float32", "bfloat16", "float16")


class Guidance(NamedTuple):
    text: float
    voice: float


@frozen_settings
class TrainingConfig(Section):
    """Length, optimization, precision and GPUs of a run."""

    section_name = "training"
    task: str = setting(
        "acoustic",
        "acoustic: train the model, from text and a voice to a mel. vocoder: from a mel to a "
        "waveform.",
        choices=_TASK_NAMES,
    )
    optimization_level: str = setting(
        "basic",
        "Preset for optimization and augmentation settings.",
        choices=_OPTIMIZATION_LEVEL_NAMES,
    )
    max_steps: int | None = setting(
        None,
        "Length of the run in optimizer steps; null uses `epochs`, or else a default for the "
        "corpus.",
        bounds=(1, None),
    )
    epochs: int | None = setting(
        None, "Length of the run in epochs; ignored if max_steps is set.", bounds=(1, None)
    )
    learning_rate: float = setting(2e-3, "Peak learning rate.", bounds=(0, None))
    warmup_steps: int = setting(50, "Steps of linear learning rate warmup.", bounds=(0, None))
    clip_norm: float = setting(
        1.0,
        "Maximum global norm of the gradient; a larger one is scaled down to it.",
        bounds=(1e-3, None),
    )
    ema_decay: float = setting(
        0.995,
        "Decay of the exponential moving average (EMA) of the weights, which evaluation and "
        "synthesis use; ramps up over the first steps.",
        bounds=(0, 1),
    )
    freeze: str | None = setting(
        None, 'Parts of the model to freeze, by name, such as "voice_encoder, decoder.block_*".'
    )
    gradient_accumulation_steps: int = setting(
        1,
        "Batches accumulated into one optimizer step: a data.batch_size of 28 with 4 steps takes "
        "the memory of 28 clips and trains like a batch of 112.",
        bounds=(1, None),
    )
    text_drop_rate: float = setting(
        0.1,
        "Fraction of clips trained without text conditioning (classifier-free guidance); "
        "text_guidance needs it.",
        bounds=(0, 0.9),
    )
    text_guidance: float = setting(
        1.0,
        "Default scale of classifier-free guidance toward the text in synthesis: 1 makes words "
        "clearer; 0 turns it off, which is twice as fast. Ignored if text_drop_rate is 0.",
        bounds=(0, 10),
    )
    voice_drop_rate: float = setting(
        0.0,
        "Fraction of clips trained without voice conditioning (classifier-free guidance); "
        "`--voice-guidance` needs it.",
        bounds=(0, 0.9),
    )
    voice_noise: float = setting(
        0.0,
        "Noise on the voice input of the text encoder, relative to the voice vector. 1 keeps "
        "words clear in unseen voices; 0 follows known voices more closely.",
        bounds=(0, 10),
    )
    adversarial_weight: float = setting(
        1.0,
        "Gradient of the mel discriminator relative to that of the flow loss: 1 makes speech "
        "sharper and more natural; 0 disables it. Steps with it take about 1.4 times as long. In "
        "vocoder training: weight of the spectrum discriminators relative to the spectral "
        "distance.",
        bounds=(0, 10),
    )
    adversarial_start: float = setting(
        0.5,
        "Fraction of the run after which the discriminator is used. In vocoder training: fraction "
        "after which training switches from magnitudes to the refiner.",
        bounds=(0, 1),
    )
    phoneme_weight: float = setting(
        1.0,
        "Gradient of the phoneme classifier relative to that of the flow loss: 1 makes words "
        "clearer; 0 disables it.",
        bounds=(0, 10),
    )
    seed: int = setting(
        0, "Random seed; everything random in a run is derived from it.", bounds=(0, 2**31 - 1)
    )
    xla: bool | None = setting(
        None, "Compile the training step with XLA; null does so on GPUs but not on CPUs."
    )
    precision: str = setting(
        "float32",
        "Data type of matrix products and convolutions; weights, losses and sums stay in float32. "
        "No gain on CPUs; on GPUs, measure it with `myxtts tune`. float16, for cards without "
        "bfloat16, uses dynamic loss scaling.",
        choices=PRECISIONS,
    )
    multi_gpu: bool = setting(
        False, "Train on all visible GPUs with mirrored replicas of the model."
    )
    visible_gpus: str | None = setting(
        None,
        'Ids of the GPUs to use, such as 0, "0,1" or [0, 1]; null leaves all of them visible.',
        read=read_gpu_ids,
        check=parse_optional_gpu_ids,
    )
    strict_devices: bool = setting(
        False,
        "Stop if mirrored training, multi-GPU mode or a GPU in model_gpu is not available.",
    )
    virtual_devices: int = setting(
        0, "Logical CPU devices that stand in for GPUs; 0 uses the real GPUs.", bounds=(0, 64)
    )

    def first_adversarial_step(self, total_steps: int) -> int:
        return round(self.adversarial_start * total_steps)

    @property
    def default_guidance(self) -> Guidance:
        """Default guidance; 0 for conditions that were never dropped in training."""
        return Guidance(
            text=self.text_guidance if self.text_drop_rate else 0.0,
            # Off by default, because it exaggerates unseen voices.
            voice=0.0,
        )


@frozen_settings
class EvaluationConfig(Section):
    """Evaluation during training, choice of the best checkpoint, and early stopping."""

    section_name = "evaluation"
    evaluate_every: int = setting(
        500,
        "Steps between evaluations; each gives validation losses, an alignment and a speech "
        "sample.",
        bounds=(1, None),
    )
    measure_every: int | None = setting(
        None,
        "Every n-th evaluation also scores its checkpoint in the background, as `myxtts evaluate` "
        "does; null turns this off.",
        bounds=(1, None),
    )
    best_metric: str | None = setting(
        None,
        "Metric that selects the best checkpoint; those without validation_ need measure_every. "
        "null: wer, measured at every evaluation, for English with the extra eval; otherwise "
        "validation_mel_distance.",
        choices=JUDGING_METRICS,
    )
    early_stopping_evaluations: int | None = setting(
        None,
        "Stop after this many evaluations without an improvement of best_metric; null never "
        "stops early.",
        bounds=(1, None),
    )


@frozen_settings
class SavingConfig(Section):
    """Checkpoints and logged metrics."""

    section_name = "saving"
    save_every: int = setting(500, "Steps between checkpoints.", bounds=(1, None))
    keep_checkpoints: int = setting(
        3, "Number of recent checkpoints to keep, besides the best one.", bounds=(1, None)
    )
    log_every: int = setting(10, "Steps between lines of metrics.jsonl.", bounds=(1, None))


@frozen_settings
class VocoderConfig(Section):
    """Size and training of the vocoder (`training.task: vocoder`)."""

    section_name = "vocoder"
    width: int = setting(224, "Channels of the vocoder.", bounds=(8, 2_048))
    blocks: int = setting(
        4, "Blocks of the network that predicts magnitudes from a mel.", bounds=(1, 64)
    )
    refining_blocks: int = setting(
        4,
        "Blocks of the refiner, which corrects the spectrum after Griffin-Lim.",
        bounds=(1, 64),
    )
    frames_per_segment: int = setting(
        64, "Mel frames per clip and step on which the vocoder is trained.", bounds=(16, 8_192)
    )
    mels_from: str | None = setting(
        None,
        "A trained run, or base. The vocoder is also trained on the mels that this model predicts "
        "for the clips, without augmentation.",
    )


SIZES: dict[str, dict[str, Any]] = {
    # Trains in reasonable time on two CPU cores; the defaults of ModelConfig.
    "tiny": {},
    # The included base model.
    "base": {"decoder_width": 256},
    "small": {
        "text_width": 192,
        "text_blocks": 5,
        "voice_width": 192,
        "voice_blocks": 3,
        "voice_latents": 16,
        "decoder_width": 320,
        "decoder_blocks": 10,
        "segment_frames": 128,
        "reference_frames": 256,
    },
    "normal": {
        "text_width": 256,
        "text_blocks": 6,
        "attention_heads": 4,
        "voice_width": 256,
        "voice_blocks": 4,
        "voice_latents": 32,
        "decoder_width": 512,
        "decoder_blocks": 14,
        "segment_frames": 192,
        "reference_frames": 256,
    },
    "big": {
        "text_width": 512,
        "text_blocks": 8,
        "attention_heads": 8,
        "voice_width": 512,
        "voice_blocks": 6,
        "voice_latents": 32,
        "decoder_width": 768,
        "decoder_blocks": 20,
        "segment_frames": 256,
        "reference_frames": 384,
    },
}

# Settings of each level by section; not only those of the optimizer.
OPTIMIZATION_LEVELS: dict[str, Layer] = {
    # The defaults: minutes to hours of clean recordings, no expensive options.
    "basic": {},
    # Training on hours to days of real recordings.
    "enhanced": {
        "training": {
            # Real voices vary more between batches: half the learning rate, with a longer warmup.
            "learning_rate": 1e-3,
            "warmup_steps": 1_000,
            # Average over a thousand steps, suitable for long runs.
            "ema_decay": 0.999,
        },
        "augmentation": {
            # Speed changes delay overfitting on small corpora.
            "speed": 0.05,
            # References are recorded with other microphones and in other rooms than the corpus.
            "gain_db": 6.0,
            "noise_dbfs": -50.0,
        },
    },
    # Large models, many voices, GPUs.
    "experimental": {
        "training": {
            # Wider models need lower learning rates to stay stable.
            "learning_rate": 5e-4,
            "warmup_steps": 4_000,
            # Rare large gradients have less effect on a long run.
            "clip_norm": 0.5,
            "ema_decay": 0.9999,
            # Faster on GPUs with bfloat16, slightly slower on CPUs.
            "precision": "bfloat16",
            # Allows --voice-guidance, which is off by default because it exaggerates unseen voices.
            "voice_drop_rate": 0.1,
        },
        "augmentation": {
            "speed": 0.1,
            "gain_db": 10.0,
            "noise_dbfs": -45.0,
            # Pitch shifts create voices between those of the corpus, which helps cloning unseen
            # ones.
            "pitch_semitones": 1.0,
        },
    },
}

# Settings of each task; they never overlap with those of a level.
TASKS: dict[str, Layer] = {
    "vocoder": {
        "training": {
            # A few hundred of a few thousand steps train the magnitudes; more makes them too sharp.
            "adversarial_start": 0.1,
        },
        # There is no text to recognize, and the losses hardly reflect the quality.
        "evaluation": {"best_metric": "validation_mel_distance"},
    },
}


# Section and name of the settings that choose a preset, with the presets.
_PRESETS: tuple[tuple[str, str, dict[str, Layer]], ...] = (
    ("model", "size", {name: {"model": values} for name, values in SIZES.items()}),
    ("training", "optimization_level", OPTIMIZATION_LEVELS),
    ("training", "task", TASKS),
)


def without_presets(settings: Layer, changes: Layer) -> Layer:
    """Return the settings without those that a changed size, level or task may have set."""
    dropped = {
        (section, name)
        for owner, choice, presets in _PRESETS
        if choice in changes.get(owner, {})
        for preset in presets.values()
        for section, values in preset.items()
        for name in values
    }
    return {
        section: {name: value for name, value in values.items() if (section, name) not in dropped}
        for section, values in settings.items()
    }


def presets_of(given: Layer) -> Layer:
    """Return the settings that the given size, level and task imply, by section."""
    found: Layer = {}
    for owner, choice, presets in _PRESETS:
        chosen = given.get(owner, {}).get(choice)
        for section, values in (presets.get(chosen, {}) if isinstance(chosen, str) else {}).items():
            found.setdefault(section, {}).update(values)
    return found


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


@frozen_settings
class XTTSConfig:
    """The whole configuration of a run.

    >>> config = XTTSConfig(train_data="my-corpus", batch_size=8, max_steps=1_000)
    >>> config.with_(seed=1).training.seed
    1
    """

    audio: AudioConfig
    text: TextConfig
    data: DataConfig
    model: ModelConfig
    vocoder: VocoderConfig
    training: TrainingConfig
    augmentation: AugmentationConfig
    evaluation: EvaluationConfig
    saving: SavingConfig

    if TYPE_CHECKING:
        given: ClassVar[Layer]
        """Explicit settings by section; all others are presets and defaults."""

    def __init__(self, **settings: Any) -> None:
        given = _given(settings)
        presets = presets_of(given)
        for name, section_class in SECTIONS.items():
            values = given.get(name, {})
            _require_known(name, values)
            object.__setattr__(self, name, section_class(**(presets.get(name, {}) | values)))
        object.__setattr__(self, "given", given)
        self._check_across_sections()

    def with_(self, **settings: Any) -> XTTSConfig:
        """Return a copy with some settings changed, such as `config.with_(batch_size=8)`.

        A new size or optimization level also replaces the settings of the old one.
        """
        changes = _given(settings)
        kept = without_presets(self.as_dict(), changes)
        changed = XTTSConfig(**{name: kept[name] | changes.get(name, {}) for name in SECTIONS})
        own = without_presets(self.given, changes)
        given = {name: own.get(name, {}) | changes.get(name, {}) for name in SECTIONS}
        object.__setattr__(changed, "given", given)
        return changed

    @property
    def has_own_batch_size(self) -> bool:
        """Whether data.batch_size was given; otherwise `train` may choose a smaller one."""
        return "batch_size" in self.given.get("data", {})

    @property
    def clips_per_step(self) -> int:
        """Clips in all accumulated batches; an average with bucketed batching."""
        return self.data.batch_size * self.training.gradient_accumulation_steps

    def as_dict(self) -> dict[str, dict[str, Any]]:
        return dataclasses.asdict(self)

    def _check_across_sections(self) -> None:
        audio, data, model = self.audio, self.data, self.model
        _require(
            audio.highest_hz <= audio.sample_rate_hz / 2,
            f"audio.highest_hz: found {audio.highest_hz}, expected at most half of "
            f"audio.sample_rate_hz ({audio.sample_rate_hz / 2:g})",
        )
        _require(
            audio.hop_samples <= audio.fft_samples // 2,
            f"audio.hop_samples: found {audio.hop_samples}, expected at most half of "
            f"audio.fft_samples ({audio.fft_samples // 2})",
        )
        for name in ("text_width", "voice_width", "decoder_width"):
            width = getattr(model, name)
            _require(
                width % (2 * model.attention_heads) == 0,
                f"model.{name}: found {width}, expected a multiple of twice "
                f"model.attention_heads ({2 * model.attention_heads})",
            )
        for name in ("segment_frames", "reference_frames"):
            frames = getattr(model, name)
            _require(
                frames % (VOICE_STEP_FRAMES * model.frames_per_position) == 0,
                f"model.{name}: found {frames}, expected a multiple of "
                f"{VOICE_STEP_FRAMES * model.frames_per_position}",
            )
        _require(
            (data.max_mel_frames or 0) % model.frames_per_position == 0,
            f"data.max_mel_frames: found {data.max_mel_frames}, expected a multiple of "
            f"{model.frames_per_position}",
        )
        best = self.evaluation.best_metric
        _require(
            best not in MEASURES or self.evaluation.measure_every is not None,
            f"evaluation.best_metric: found {best}, which needs evaluation.measure_every; "
            "set that too",
        )
        _require(
            self.training.task == "acoustic" or self.evaluation.measure_every is None,
            "evaluation.measure_every: measures speech from text, expected null for "
            f"training.task: {self.training.task}",
        )
        _require(
            self.training.task == "vocoder" or not self.vocoder.mels_from,
            "vocoder.mels_from: is for training.task: vocoder (--task vocoder), expected null for "
            f"training.task: {self.training.task}",
        )
        min_frames = 4 * audio.fft_samples // audio.hop_samples
        _require(
            self.training.task == "acoustic" or self.vocoder.frames_per_segment >= min_frames,
            f"vocoder.frames_per_segment: found {self.vocoder.frames_per_segment}, expected at "
            f"least {min_frames}: four times audio.fft_samples ({audio.fft_samples}) in hops of "
            f"audio.hop_samples ({audio.hop_samples})",
        )


SECTIONS: dict[str, type[Section]] = {
    section.section_name: section
    for section in (
        AudioConfig,
        TextConfig,
        DataConfig,
        ModelConfig,
        VocoderConfig,
        TrainingConfig,
        AugmentationConfig,
        EvaluationConfig,
        SavingConfig,
    )
}


def section_of(setting_name: str) -> str:
    """Return the section of a setting that is given by its own name."""
    sections = section_by_setting()
    if setting_name not in sections:
        hint = did_you_mean(setting_name, [*sections, *SECTIONS])
        raise ConfigError(f"unknown setting '{setting_name}'{hint}")
    return sections[setting_name]


def section_by_setting() -> dict[str, str]:
    """Return the section of every setting, by its unique name."""
    return {key: section for section in SECTIONS for key in settings_of(section)}


def find_setting(flat_name: str) -> tuple[str, str]:
    """Return section and name of a setting that is given without its section, by any name."""
    return ("data" if flat_name in ALIASES else section_of(flat_name)), flat_name


def _given(settings: Mapping[str, Any]) -> Layer:
    """Merge sections and flat keywords into settings by section."""
    layer: Layer = {}
    for name, value in settings.items():
        if name in SECTIONS:
            layer.setdefault(name, {}).update(_section_settings(name, value))
        else:
            section, key = find_setting(name)
            layer.setdefault(section, {})[key] = value
    return resolve_aliases(layer)


def settings_of(section: str) -> list[str]:
    return [field.name for field in dataclasses.fields(SECTIONS[section])]  # type: ignore[arg-type]


def _section_settings(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Section):
        return dataclasses.asdict(value)  # type: ignore[call-overload]
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name}: found {value!r}, expected settings such as {name}: {{...}}")
    return dict(value)


def _require_known(section: str, values: Mapping[str, Any]) -> None:
    known = settings_of(section)
    for key in values:
        if key not in known:
            hint = _hint(section, str(key))
            raise ConfigError(f"unknown setting '{section}.{key}'{hint}")


def _hint(section: str, key: str) -> str:
    """Suggest the setting that was probably meant, in this section or another."""
    sections = section_by_setting()
    near = key if key in sections else nearest(key, settings_of(section)) or nearest(key, sections)
    return f"; did you mean '{sections[near]}.{near}'?" if near else ""


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)
