"""The model's blocks beside the same blocks in PyTorch: forward and backward, float32, on CPUs.

    .venv/bin/python benchmarks/torch_blocks.py [--size tiny] [--rounds 15] [--json FILE]

Needs torch (`pip install -e '.[eval-torch]'`). Both sides get the same weights and inputs, and must
give the same outputs and gradients before anything is timed. Each library has a process of its own
and as many threads; they take turns, so that a busy moment of the machine hits both. PyTorch may
be as fast as it can: eager and compiled, with convolutions in channels-first and in channels-last
layout; the fastest of these in each block is what counts. A ratio above one says that PyTorch
takes longer.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
Pass = Callable[[], Any]

_BATCH, _TOKENS, _SYMBOLS = 16, 48, 80
_TOLERANCE = 2e-4  # of the largest number in an array
_BLOCKS = ("convolution block", "attention", "self-attention", "decoder", "text encoder")

# What a process has built, by block; the calls that time it come later.
_passes: dict[str, Pass] = {}


def seconds_per_pass(name: str, count: int) -> float:
    """Runs in the process that has built the pass."""
    run = _passes[name]
    started = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - started) / count


def random_numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def inputs_of(block: str, model: Any, channels: int) -> Arrays:
    """What a block is given, in the order of its arguments; of floats the gradient is taken."""
    positions = model.segment_frames // model.frames_per_position
    in_decoder = random_numbers(_BATCH, positions, model.decoder_width)
    in_text = random_numbers(_BATCH, _TOKENS, model.text_width)
    latents = random_numbers(_BATCH, model.voice_latents, model.voice_width)
    voice = random_numbers(_BATCH, model.voice_width)
    condition_width = channels + model.text_width + 2
    if block == "convolution block":
        scale = random_numbers(_BATCH, 1, model.decoder_width, seed=1)
        shift = random_numbers(_BATCH, 1, model.decoder_width, seed=2)
        return {"values": in_decoder, "scale": scale, "shift": shift}
    if block == "attention":
        return {"values": in_decoder, "memory": latents}
    if block == "self-attention":
        return {"values": in_text}
    if block == "decoder":
        return {
            "noisy": random_numbers(_BATCH, positions, channels),
            "condition": random_numbers(_BATCH, positions, condition_width),
            "time": np.linspace(0.0, 0.9, _BATCH, dtype=np.float32),
            "vector": voice,
            "latents": latents,
        }
    ids = np.random.default_rng(0).integers(2, _SYMBOLS, (_BATCH, _TOKENS))
    return {"token_ids": ids.astype(np.int32), "voice": voice}


def build_with_tensorflow(block: str, size: str) -> dict[str, Any]:
    """The block as the model has it; returns its weights, inputs, outputs and gradients."""
    from myxtts.devices.loading import load_tensorflow

    load_tensorflow()

    import tensorflow as tf

    from myxtts.config.loading import load_config
    from myxtts.models.decoder import FlowDecoder
    from myxtts.models.layers import Attention, ConvBlock
    from myxtts.models.packing import slots_without_padding
    from myxtts.models.text_encoder import TextEncoder
    from myxtts.models.voice_encoder import Voice

    config = load_config(overrides={"model": {"size": size}})
    model = config.model
    channels = config.data.n_mels * model.frames_per_position
    layers = {
        "convolution block": lambda: ConvBlock(model.decoder_width, model.kernel_positions),
        "attention": lambda: Attention(
            model.decoder_width, model.attention_heads, memory_width=model.voice_width
        ),
        "self-attention": lambda: Attention(model.text_width, model.attention_heads),
        "decoder": lambda: FlowDecoder(model, channels),
        "text encoder": lambda: TextEncoder(model, _SYMBOLS, 1, channels),
    }
    layer = layers[block]()
    layer.build()
    # Some weights start as zeros, behind which a difference would not show.
    for seed, weight in enumerate(layer.trainable_variables):
        weight.assign(weight + 0.05 * random_numbers(*weight.shape, seed=seed))
    positions = model.segment_frames // model.frames_per_position
    mask = tf.ones([_BATCH, positions, 1])
    token_lengths = tf.fill([_BATCH], _TOKENS)
    languages = tf.zeros([_BATCH], tf.int32)

    def outputs(given: dict[str, tf.Tensor]) -> list[tf.Tensor]:
        if block == "convolution block":
            return [layer(given["values"], mask, given["scale"], given["shift"])]
        if block == "attention":
            return [layer(given["values"], memory=given["memory"])]
        if block == "self-attention":
            return [layer(given["values"], memory_mask=tf.ones([_BATCH, _TOKENS, 1]))]
        if block == "decoder":
            voice = Voice(given["vector"], given["latents"])
            return [layer(given["noisy"], given["condition"], mask, given["time"], voice)]
        ids = given["token_ids"]
        text = layer(ids, token_lengths, slots_without_padding(ids), languages, given["voice"])
        return [text.states, text.mean_mel, text.log_durations]

    inputs = inputs_of(block, model, channels)
    given = {name: tf.constant(value) for name, value in inputs.items()}
    floats = [name for name, value in inputs.items() if value.dtype == np.float32]
    weights = [variable.value for variable in layer.trainable_variables]

    @tf.function(autograph=False)
    def forward_and_backward(given: dict[str, tf.Tensor]) -> tuple[list, list, list]:
        with tf.GradientTape() as tape:
            tape.watch([given[name] for name in floats])
            results = outputs(given)
            loss = tf.add_n([tf.reduce_mean(tf.square(result)) for result in results])
        of_inputs, of_weights = tape.gradient(loss, ([given[name] for name in floats], weights))
        return results, of_inputs, [tf.convert_to_tensor(gradient) for gradient in of_weights]

    results, of_inputs, of_weights = forward_and_backward(given)
    _passes[block] = lambda: forward_and_backward(given)
    root = f"{layer.name}/"
    names = [variable.path.removeprefix(root) for variable in layer.trainable_variables]
    return {
        "inputs": inputs,
        "sizes": {
            "heads": model.attention_heads,
            "kernel": model.kernel_positions,
            "decoder blocks": model.decoder_blocks,
            "text blocks": model.text_blocks,
        },
        "weights": {
            name: variable.numpy()
            for name, variable in zip(names, layer.trainable_variables, strict=True)
        },
        "results": [result.numpy() for result in results],
        "input gradients": {
            name: gradient.numpy() for name, gradient in zip(floats, of_inputs, strict=True)
        },
        "weight gradients": {
            name: gradient.numpy() for name, gradient in zip(names, of_weights, strict=True)
        },
    }


def torch_layout(name: str, value: np.ndarray) -> tuple[str, np.ndarray]:
    """A Keras weight's name and array as PyTorch has them."""
    path, _, kind = name.rpartition("/")
    path = path.replace("/", ".")
    prefix = f"{path}." if path else ""
    if kind == "kernel":
        return f"{prefix}weight", value.T
    if kind == "embeddings":
        return f"{prefix}weight", value
    if kind == "depthwise_kernel":
        return f"{prefix}depthwise", value.transpose(2, 3, 0, 1)
    return f"{prefix}{kind}", value


def build_with_torch(
    block: str, reference: dict[str, Any], compiled: bool, channels_last: bool
) -> None:
    """The same block in PyTorch; raises unless it computes what `reference` did."""
    import torch
    from torch import nn
    from torch.nn import functional

    torch.set_num_threads(os.cpu_count() or 1)
    sizes = reference["sizes"]
    weights = dict(torch_layout(*item) for item in reference["weights"].items())

    def norm(values: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(values, values.shape[-1:], eps=1e-6)

    def linear(path: str) -> nn.Linear:
        outputs, inputs = weights[f"{path}.weight"].shape
        return nn.Linear(inputs, outputs, bias=f"{path}.bias" in weights)

    class ConvBlock(nn.Module):
        def __init__(self, path: str) -> None:
            super().__init__()
            self.expand = linear(f"{path}expand")
            self.contract = linear(f"{path}contract")
            kernel = torch.empty(weights[f"{path}depthwise"].shape)
            self.depthwise = nn.Parameter(kernel)
            self.residual_scale = nn.Parameter(torch.empty(kernel.shape[0]))

        def convolve(self, values: torch.Tensor) -> torch.Tensor:
            margin = sizes["kernel"] // 2
            width = values.shape[-1]
            if channels_last:
                # A view in channels-last memory format: nothing is moved.
                image = values[:, None].permute(0, 3, 1, 2)
                kernel = self.depthwise.contiguous(memory_format=torch.channels_last)
                convolved = functional.conv2d(image, kernel, padding=(0, margin), groups=width)
                return convolved.permute(0, 2, 3, 1)[:, 0]
            convolved = functional.conv1d(
                values.transpose(1, 2), self.depthwise[:, :, 0], padding=margin, groups=width
            )
            return convolved.transpose(1, 2)

        def forward(
            self,
            values: torch.Tensor,
            scale: torch.Tensor,
            shift: torch.Tensor,
            mask: torch.Tensor | None = None,
        ) -> torch.Tensor:
            hidden = self.convolve(values if mask is None else values * mask)
            hidden = norm(hidden) * (1.0 + scale) + shift
            branch = self.contract(functional.silu(self.expand(hidden)))
            return values + branch * self.residual_scale

    class Attention(nn.Module):
        def __init__(self, path: str) -> None:
            super().__init__()
            self.query = linear(f"{path}query")
            self.key_value = linear(f"{path}key_value")
            self.output = linear(f"{path}output")
            self.residual_scale = nn.Parameter(torch.empty(self.query.out_features))

        def forward(
            self,
            values: torch.Tensor,
            memory: torch.Tensor | None = None,
            mask: torch.Tensor | None = None,
        ) -> torch.Tensor:
            heads = sizes["heads"]
            normed = norm(values)
            query = self.query(normed).unflatten(-1, (heads, -1)).transpose(1, 2)
            pairs = self.key_value(normed if memory is None else memory)
            key, value = pairs.unflatten(-1, (2 * heads, -1)).transpose(1, 2).chunk(2, dim=1)
            mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
            branch = self.output(mixed.transpose(1, 2).flatten(2))
            return values + branch * self.residual_scale

    class Modulation(nn.Module):
        def __init__(self, path: str, blocks: int) -> None:
            super().__init__()
            self.parts = 2 * (blocks + 1)
            self.project = linear(f"{path}project")

        def forward(self, condition: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
            projected = self.project(functional.silu(condition))[:, None]
            parts = projected.chunk(self.parts, dim=-1)
            return list(zip(parts[::2], parts[1::2], strict=True))

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.noisy, self.condition = linear("noisy"), linear("condition")
            self.time, self.voice = linear("time"), linear("voice")
            self.modulation = Modulation("modulation.", sizes["decoder blocks"])
            for index in range(sizes["decoder blocks"]):
                self.add_module(f"block_{index}", ConvBlock(f"block_{index}."))
                if index % 4 == 0:
                    self.add_module(f"attention_{index}", Attention(f"attention_{index}."))
            self.mel = linear("mel")

        def forward(
            self,
            noisy: torch.Tensor,
            condition: torch.Tensor,
            time: torch.Tensor,
            vector: torch.Tensor,
            latents: torch.Tensor,
            mask: torch.Tensor,
        ) -> torch.Tensor:
            values = self.noisy(noisy) + self.condition(condition)
            half = self.time.in_features // 2
            exponents = torch.arange(half, dtype=torch.float32) / half
            angles = time[:, None] * torch.exp(-math.log(1_000.0) * exponents) * 1_000.0
            features = torch.cat([angles.sin(), angles.cos()], -1)
            summary = functional.silu(self.time(features)) + self.voice(vector)
            modulations = self.modulation(summary)
            for index in range(sizes["decoder blocks"]):
                if index % 4 == 0:
                    values = self.get_submodule(f"attention_{index}")(values, latents)
                scale, shift = modulations[index]
                values = self.get_submodule(f"block_{index}")(values, scale, shift, mask)
            scale, shift = modulations[-1]
            return self.mel(norm(values) * (1.0 + scale) + shift)

    class TextEncoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name in ("symbols", "languages", "symbol_mean_mel", "symbol_log_duration"):
                self.add_module(name, nn.Embedding(*weights[f"{name}.weight"].shape))
            self.voice = linear("voice")
            self.modulation = Modulation("modulation.", sizes["text blocks"])
            for index in range(sizes["text blocks"]):
                self.add_module(f"block_{index}", ConvBlock(f"block_{index}."))
                self.add_module(f"attention_{index}", Attention(f"attention_{index}."))
            self.duration_block = ConvBlock("duration_block.")
            self.mean_mel, self.log_duration = linear("mean_mel"), linear("log_duration")

        def forward(
            self, token_ids: torch.Tensor, voice: torch.Tensor, mask: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            language = self.languages(torch.zeros(len(voice), dtype=torch.int32))
            values = self.symbols(token_ids) + language[:, None]
            modulations = self.modulation(self.voice(voice) + language)
            for index in range(sizes["text blocks"]):
                values = self.get_submodule(f"attention_{index}")(values, mask=mask)
                scale, shift = modulations[index]
                values = self.get_submodule(f"block_{index}")(values, scale, shift)
            states = norm(values)
            for_durations = self.duration_block(states, *modulations[-1])
            mean_mel = self.symbol_mean_mel(token_ids) + self.mean_mel(states)
            log_durations = self.symbol_log_duration(token_ids) + self.log_duration(for_durations)
            return states, mean_mel, log_durations[:, :, 0]

    build: dict[str, Callable[[], nn.Module]] = {
        "convolution block": lambda: ConvBlock(""),
        "attention": lambda: Attention(""),
        "self-attention": lambda: Attention(""),
        "decoder": Decoder,
        "text encoder": TextEncoder,
    }
    module = build[block]()
    state = {name: torch.from_numpy(value.copy()) for name, value in weights.items()}
    module.load_state_dict(state)
    run = torch.compile(module) if compiled else module
    given = {name: torch.from_numpy(value.copy()) for name, value in reference["inputs"].items()}
    floats = [value.requires_grad_() for value in given.values() if value.is_floating_point()]
    masks = {
        "convolution block": {"mask": torch.ones(_BATCH, 1, 1)},
        "self-attention": {"mask": torch.ones(_BATCH, 1, 1, _TOKENS, dtype=torch.bool)},
        "decoder": {"mask": torch.ones(_BATCH, 1, 1)},
        "text encoder": {"mask": torch.ones(_BATCH, 1, 1, _TOKENS, dtype=torch.bool)},
    }
    parameters = dict(module.named_parameters())

    def forward_and_backward() -> tuple[Any, Any]:
        results = run(**given, **masks.get(block, {}))
        results = results if isinstance(results, tuple) else (results,)
        loss = sum(result.square().mean() for result in results)
        return results, torch.autograd.grad(loss, [*floats, *parameters.values()])

    results, gradients = forward_and_backward()
    expected = [*reference["results"], *reference["input gradients"].values()]
    found = [*results, *gradients[: len(floats)]]
    weight_gradients = dict(torch_layout(*item) for item in reference["weight gradients"].items())
    expected += [weight_gradients[name] for name in parameters]
    found += gradients[len(floats) :]
    for there, here in zip(expected, found, strict=True):
        difference = np.abs(there - here.detach().numpy()).max() / max(np.abs(there).max(), 1e-9)
        if there.shape != tuple(here.shape) or difference > _TOLERANCE:
            raise SystemExit(f"{block}: PyTorch's numbers are others, by {difference:.1e}")
    _passes[variant_name(block, compiled, channels_last)] = forward_and_backward


def variant_name(block: str, compiled: bool, channels_last: bool) -> str:
    mode = "compiled" if compiled else "eager"
    return f"{block}, {mode}, channels {'last' if channels_last else 'first'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--blocks", nargs="+", default=_BLOCKS, choices=_BLOCKS)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--passes", type=int, default=10, help="of a round")
    parser.add_argument("--eager-only", action="store_true", help="without torch.compile")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    results: dict[str, Any] = {}
    with ProcessPoolExecutor(1, context) as ours, ProcessPoolExecutor(1, context) as theirs:
        for block in options.blocks:
            reference = ours.submit(build_with_tensorflow, block, options.size).result()
            variants = [
                (compiled, channels_last)
                for compiled in ((False,) if options.eager_only else (False, True))
                for channels_last in ((False,) if "attention" in block else (False, True))
            ]
            for variant in variants:
                theirs.submit(build_with_torch, block, reference, *variant).result()
            turns = [(ours, block)]
            turns += [(theirs, variant_name(block, *variant)) for variant in variants]
            seconds: dict[str, list[float]] = {name: [] for _, name in turns}
            for counted in (False, *[True] * options.rounds):
                for pool, name in turns:
                    taken = pool.submit(seconds_per_pass, name, options.passes).result()
                    if counted:
                        seconds[name].append(taken)
            results[block] = show(block, seconds)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


def show(block: str, seconds: dict[str, list[float]]) -> dict[str, Any]:
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    fastest = min((name for name in medians if name != block), key=lambda name: medians[name])
    ratios = [theirs / ours for theirs, ours in zip(seconds[fastest], seconds[block], strict=True)]
    ratio = statistics.median(ratios)
    print(f"{block + ', TensorFlow':46}{medians[block] * 1e3:9.2f} ms")
    for name, median in medians.items():
        if name != block:
            print(f"{name:46}{median * 1e3:9.2f} ms")
    print(f"{'  PyTorch at its fastest / TensorFlow':46}{ratio:9.2f}")
    return {"seconds": medians, "fastest": fastest, "ratio": ratio}


if __name__ == "__main__":
    main()
