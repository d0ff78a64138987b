"""The whole configuration: one of each section, and what is checked across them.

Sections are frozen, keyword-only dataclasses, each in a module of its own. `XTTSConfig` holds one
of each and also takes any setting whose name is unique as a flat keyword:
`XTTSConfig(multi_gpu=True, batch_size=8)`. A setting given by name wins over what a size or an
optimisation level sets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from myxtts.config.aliases import ALIASES, resolve_aliases
from myxtts.config.audio import AudioConfig
from myxtts.config.augmentation import AugmentationConfig
from myxtts.config.data import BATCHING_MODES, DataConfig
from myxtts.config.evaluation import EvaluationConfig
from myxtts.config.metrics import MEASURES
from myxtts.config.model import MODEL_SIZES, VOICE_STEP_FRAMES, ModelConfig
from myxtts.config.names import did_you_mean, nearest
from myxtts.config.presets import presets_of, without_presets
from myxtts.config.saving import SavingConfig
from myxtts.config.schema import Layer, Section, frozen_settings
from myxtts.config.text import TextConfig
from myxtts.config.training import OPTIMIZATION_LEVELS, PRECISIONS, TASKS, Guidance, TrainingConfig
from myxtts.config.vocoder import VocoderConfig
from myxtts.errors import ConfigError

__all__ = [
    "BATCHING_MODES",
    "MODEL_SIZES",
    "OPTIMIZATION_LEVELS",
    "PRECISIONS",
    "SECTIONS",
    "TASKS",
    "VOICE_STEP_FRAMES",
    "AudioConfig",
    "AugmentationConfig",
    "DataConfig",
    "EvaluationConfig",
    "Guidance",
    "ModelConfig",
    "SavingConfig",
    "Section",
    "TextConfig",
    "TrainingConfig",
    "VocoderConfig",
    "XTTSConfig",
    "find_setting",
    "section_by_setting",
    "section_of",
]


@frozen_settings
class XTTSConfig:
    """The whole configuration of a run."""

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
        """Settings that were given by name, by section; the rest are presets and defaults."""

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
        """A copy with some settings changed, such as `config.with_(batch_size=8)`.

        A new size or optimisation level also replaces what the old one had set.
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
        """Of all batches whose gradients are accumulated; with bucketed batching on average."""
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
        least_frames = 4 * audio.fft_samples // audio.hop_samples
        _require(
            self.training.task == "acoustic" or self.vocoder.frames_per_segment >= least_frames,
            f"vocoder.frames_per_segment: found {self.vocoder.frames_per_segment}, expected at "
            f"least {least_frames}: four times audio.fft_samples ({audio.fft_samples}) in hops of "
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
    """The section that a setting's own name belongs to."""
    sections = section_by_setting()
    if setting_name not in sections:
        hint = did_you_mean(setting_name, [*sections, *SECTIONS])
        raise ConfigError(f"unknown setting '{setting_name}'{hint}")
    return sections[setting_name]


def section_by_setting() -> dict[str, str]:
    """Every setting's own name, which no two of them share, with its section."""
    return {key: section for section in SECTIONS for key in _settings_of(section)}


def find_setting(flat_name: str) -> tuple[str, str]:
    """Section and name of a setting that is given without its section, by any of its names."""
    return ("data" if flat_name in ALIASES else section_of(flat_name)), flat_name


def _given(settings: Mapping[str, Any]) -> Layer:
    """Settings by section, from sections and from flat keywords."""
    layer: Layer = {}
    for name, value in settings.items():
        if name in SECTIONS:
            layer.setdefault(name, {}).update(_section_settings(name, value))
        else:
            section, key = find_setting(name)
            layer.setdefault(section, {})[key] = value
    return resolve_aliases(layer)


def _settings_of(section: str) -> list[str]:
    return [field.name for field in dataclasses.fields(SECTIONS[section])]  # type: ignore[arg-type]


def _section_settings(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Section):
        return dataclasses.asdict(value)  # type: ignore[call-overload]
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name}: found {value!r}, expected settings such as {name}: {{...}}")
    return dict(value)


def _require_known(section: str, values: Mapping[str, Any]) -> None:
    known = _settings_of(section)
    for key in values:
        if key not in known:
            hint = _hint(section, str(key))
            raise ConfigError(f"unknown setting '{section}.{key}'{hint}")


def _hint(section: str, key: str) -> str:
    """The setting that was meant: in another section, or of another name in this one or any."""
    sections = section_by_setting()
    near = key if key in sections else nearest(key, _settings_of(section)) or nearest(key, sections)
    return f"; did you mean '{sections[near]}.{near}'?" if near else ""


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)
