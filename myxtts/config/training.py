"""Settings of a run: its length, optimisation, precision and GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from myxtts.config.schema import Section, setting

OPTIMIZATION_LEVELS = ("basic", "enhanced", "experimental")
PRECISIONS = ("float32", "bfloat16", "float16")


class Guidance(NamedTuple):
    text: float
    voice: float


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Section):
    """Length, optimisation, precision and GPUs of a run."""

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
    warmup_steps: int = setting(50, "Steps over which the learning rate rises.", least=0)
    weight_decay: float = setting(0.01, "AdamW weight decay, on matrices only.", least=0)
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
    seed: int = setting(0, "Everything random in a run follows from it.", least=0, most=2**31 - 1)
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
