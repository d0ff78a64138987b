"""Settings of a run: its length, optimisation, precision and GPUs."""

from __future__ import annotations

from typing import NamedTuple

from myxtts.config.gpu_ids import parse_optional_gpu_ids, read_gpu_ids
from myxtts.config.schema import Section, frozen_settings, setting

OPTIMIZATION_LEVELS = ("basic", "enhanced", "experimental")
TASKS = ("acoustic", "vocoder")
PRECISIONS = ("float32", "bfloat16", "float16")


class Guidance(NamedTuple):
    text: float
    voice: float


@frozen_settings
class TrainingConfig(Section):
    """Length, optimisation, precision and GPUs of a run."""

    section_name = "training"
    task: str = setting(
        "acoustic",
        "What is trained. acoustic: the model, from text and a voice to a mel. vocoder: from a mel "
        "to a waveform.",
        choices=TASKS,
    )
    optimization_level: str = setting(
        "basic", "Preset for optimisation and augmentation settings.", choices=OPTIMIZATION_LEVELS
    )
    max_steps: int | None = setting(
        None,
        "Length of the run in optimizer steps; if neither this nor `epochs` is set, it follows "
        "from the size of the corpus.",
        least=1,
    )
    epochs: int | None = setting(
        None, "Length of the run in epochs; ignored if max_steps is set.", least=1
    )
    learning_rate: float = setting(2e-3, "Peak learning rate.", least=0)
    warmup_steps: int = setting(50, "Steps of linear learning rate warmup.", least=0)
    weight_decay: float = setting(0.01, "AdamW weight decay, applied to matrices only.", least=0)
    clip_norm: float = setting(
        1.0, "Maximum global norm of the gradient; a larger one is scaled down to it.", least=1e-3
    )
    ema_decay: float = setting(
        0.995,
        "Decay of the exponential moving average (EMA) of the weights, which evaluation and "
        "synthesis use; it ramps up to this value over the first steps.",
        least=0,
        most=1,
    )
    freeze: str | None = setting(
        None,
        'Parts of the model to freeze, by name, such as "voice_encoder, decoder.block_*".',
    )
    gradient_accumulation_steps: int = setting(
        1,
        "Batches whose gradients are accumulated into one optimizer step: a data.batch_size of 28 "
        "with 4 of these steps takes the memory of 28 clips and trains like a batch of 112.",
        least=1,
    )
    text_drop_rate: float = setting(
        0.1,
        "Fraction of clips trained without text conditioning (classifier-free guidance); "
        "text_guidance needs it.",
        least=0,
        most=0.9,
    )
    text_guidance: float = setting(
        1.0,
        "Default scale of classifier-free guidance towards the text in synthesis: 1 makes words "
        "clearer; 0 turns it off, which is twice as fast. Ignored if text_drop_rate is 0.",
        least=0,
        most=10,
    )
    voice_drop_rate: float = setting(
        0.0,
        "Fraction of clips trained without voice conditioning (classifier-free guidance); "
        "voice_guidance needs it.",
        least=0,
        most=0.9,
    )
    voice_guidance: float = setting(
        0.0,
        "Default scale of classifier-free guidance towards the voice in synthesis; 0 turns it "
        "off. Ignored if voice_drop_rate is 0.",
        least=0,
        most=10,
    )
    voice_noise: float = setting(
        0.0,
        "Standard deviation of noise on the voice that the text encoder hears, relative to the "
        "voice vector: 1 keeps words clear in voices that training did not hear; 0 follows known "
        "voices more closely.",
        least=0,
        most=10,
    )
    adversarial_weight: float = setting(
        1.0,
        "Size of the gradient that a discriminator of mels gives the decoder, relative to that of "
        "the flow loss: 1 makes speech sharper and more natural; 0 trains without a discriminator. "
        "A step with it takes about 1.4 times as long. Of a vocoder: weight of the discriminators "
        "of spectra beside distances from the recording.",
        least=0,
        most=10,
    )
    adversarial_start: float = setting(
        0.5,
        "Fraction of the run after which the discriminator takes part: before, a mel is learnt by "
        "its mean squared error alone. Of a vocoder: fraction after which it learns to correct "
        "spectra, and no longer to predict magnitudes.",
        least=0,
        most=1,
    )
    phoneme_weight: float = setting(
        1.0,
        "Size of the gradient that a phoneme classifier gives the decoder, relative to that of the "
        "flow loss: 1 makes words clearer; 0 trains without one.",
        least=0,
        most=10,
    )
    seed: int = setting(
        0, "Random seed; everything random in a run is derived from it.", least=0, most=2**31 - 1
    )
    xla: bool | None = setting(
        None, "Compile the training step with XLA; null does so on GPUs but not on CPUs."
    )
    xla_cache_dir: str | None = setting(
        None,
        "Folder where XLA caches compiled programs between launches; null uses the user's cache "
        "folder.",
    )
    precision: str = setting(
        "float32",
        "Data type of matrix products and convolutions; weights, losses and sums stay in "
        "float32. Lower precision gains nothing on CPUs; on GPUs, measure it with `myxtts tune`. "
        "float16, for cards without bfloat16, uses dynamic loss scaling.",
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
        "Stop if mirrored training, multi-GPU mode or a GPU in model_gpu is not available, "
        "instead of continuing without it.",
    )
    virtual_devices: int = setting(
        0, "Logical CPU devices that stand in for GPUs; 0 uses the real GPUs.", least=0, most=64
    )

    def first_adversarial_step(self, total_steps: int) -> int:
        return round(self.adversarial_start * total_steps)

    @property
    def default_guidance(self) -> Guidance:
        """Off for what was never dropped in training: the decoder has no output without it."""
        return Guidance(
            text=self.text_guidance if self.text_drop_rate else 0.0,
            voice=self.voice_guidance if self.voice_drop_rate else 0.0,
        )
