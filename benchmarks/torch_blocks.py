"""The model's blocks compared with PyTorch: forward and backward, float32, on CPUs.

    .venv/bin/python benchmarks/torch_blocks.py [--size tiny] [--rounds 15] [--json FILE]

Needs torch (`pip install -e '.[eval-torch]'`). Both sides get the same weights and inputs, and must
give the same outputs and gradients before anything is timed. Each library runs in a separate
process with the same number of threads, alternating, so that load on the machine affects both. For
PyTorch the fastest variant of each block counts: eager or compiled, channels-first or
channels-last convolutions, PyTorch's own attention or projections on the side of the latents as in
this model. A ratio above one means that PyTorch is slower.
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
from typing import Any, NamedTuple

import numpy as np

Arrays = dict[str, np.ndarray]
Pass = Callable[[], Any]

_BATCH, _TOKENS, _SYMBOLS = 16, 48, 80
# Text lengths in the batch, as in training: the longest is twice the shortest.
_TEXT_LENGTHS = np.linspace(_TOKENS // 2, _TOKENS, _BATCH).astype(np.int32)
# Single blocks are stacked, as in the model: a function call costs as much as a block.
_STACKED = 8
_TOLERANCE = 2e-4  # relative to the largest value in an array
_BLOCKS = ("convolution block", "attention", "self-attention", "decoder", "text encoder")


class Variant(NamedTuple):
    """How PyTorch computes a block."""

    compiled: bool = False
    channels_last: bool = False
    on_latents: bool = False  # attention's projections on the side of the few latents

    def __str__(self) -> str:
        names = [
            "compiled" if self.compiled else "eager",
            *["channels last"] * self.channels_last,
            *["on latents"] * self.on_latents,
        ]
        return ", ".join(names)


# Functions built by this process, by block; timed by later calls.
_passes: dict[str, Pass] = {}


def seconds_per_pass(name: str, count: int) -> float:
    """Runs in the process that built the function."""
    run = _passes[name]
    started = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - started) / count


def random_numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def inputs_of(block: str, model: Any, channels: int) -> Arrays:
    """Inputs of a block, in argument order; floats get gradients."""
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
        return {"values": in_decoder, "latents": latents}
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
    return {"token_ids": (ids * text_mask()).astype(np.int32), "voice": voice}


def text_mask() -> np.ndarray:
    """[batch, tokens]: one for real tokens."""
    return (np.arange(_TOKENS) < _TEXT_LENGTHS[:, None]).astype(np.float32)


def build_with_tensorflow(block: str, size: str) -> dict[str, Any]:
    """The block of the model; returns its weights, inputs, outputs and gradients."""
    from myxtts.devices.startup import load_tensorflow

    load_tensorflow()

    import keras
    import tensorflow as tf

    from myxtts.config.loading import load_config
    from myxtts.models.attention import AttentionToLatents, SelfAttention
    from myxtts.models.decoder import FlowDecoder
    from myxtts.models.layers import ConvBlock
    from myxtts.models.packing import Packing
    from myxtts.models.text_encoder import TextEncoder
    from myxtts.models.voice_encoder import Voice

    config = load_config(overrides={"model": {"size": size}})
    model = config.model
    channels = config.data.n_mels * model.frames_per_position

    def stack(kind: type, *sizes: int, **named_sizes: int) -> list[keras.layers.Layer]:
        return [kind(*sizes, **named_sizes, name=f"layer_{index}") for index in range(_STACKED)]

    width, heads = model.decoder_width, model.attention_heads
    if block == "convolution block":
        layers = stack(ConvBlock, width, model.kernel_positions)
    elif block == "attention":
        layers = stack(AttentionToLatents, width, heads, memory_width=model.voice_width)
    elif block == "self-attention":
        layers = stack(SelfAttention, model.text_width, heads)
    elif block == "decoder":
        layers = [FlowDecoder(model, channels)]
    else:
        layers = [TextEncoder(model, _SYMBOLS, 1, channels)]
    for layer in layers:
        layer.build()
    variables = [variable for layer in layers for variable in layer.trainable_variables]
    # Some weights are initialised with zeros, which would hide differences.
    for seed, weight in enumerate(variables):
        weight.assign(weight + 0.05 * random_numbers(*weight.shape, seed=seed))
    positions = model.segment_frames // model.frames_per_position
    mask = tf.ones([_BATCH, positions, 1])
    slots = tf.constant(np.flatnonzero(text_mask())[None], tf.int32)
    packing = Packing(slots, tf.constant(_TEXT_LENGTHS), _TOKENS)
    languages = tf.zeros([_BATCH], tf.int32)

    def outputs(given: dict[str, tf.Tensor]) -> list[tf.Tensor]:
        if block == "decoder":
            voice = Voice(given["vector"], given["latents"])
            arguments = (given["noisy"], given["condition"], mask, given["time"], voice)
            return [layers[0](*arguments)]
        if block == "text encoder":
            arguments = (given["token_ids"], _TEXT_LENGTHS, slots, languages, given["voice"])
            text = layers[0](*arguments)
            results = (text.states, text.mean_mel, text.log_durations[:, :, None])
            return [result * text_mask()[:, :, None] for result in results]
        values = given["values"]
        if block == "self-attention":
            packed = packing.pack(values)
            for layer in layers:
                packed = layer(packed, packing=packing)
            return [packing.unpack(packed)]
        for layer in layers:
            if block == "convolution block":
                values = layer(values, mask, given["scale"], given["shift"])
            else:
                values = layer(values, given["latents"])
        return [values]

    inputs = inputs_of(block, model, channels)
    given = {name: tf.constant(value) for name, value in inputs.items()}
    floats = [name for name, value in inputs.items() if value.dtype == np.float32]
    weights = [variable.value for variable in variables]

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
    root = f"{layers[0].name}/" if len(layers) == 1 else ""
    names = [variable.path.removeprefix(root) for variable in variables]
    return {
        "inputs": inputs,
        "sizes": {
            "heads": model.attention_heads,
            "kernel": model.kernel_positions,
            "decoder blocks": model.decoder_blocks,
            "text blocks": model.text_blocks,
        },
        "weights": {
            name: variable.numpy() for name, variable in zip(names, variables, strict=True)
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
    """Name and array of a Keras weight in PyTorch's layout."""
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


def build_with_torch(block: str, reference: dict[str, Any], variant: Variant) -> None:
    """The same block in PyTorch; raises if its results differ from `reference`."""
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
            if variant.channels_last:
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
            mask: torch.Tensor,
        ) -> torch.Tensor:
            hidden = self.convolve(values * mask)
            hidden = norm(hidden) * (1.0 + scale) + shift
            branch = self.contract(functional.silu(self.expand(hidden)))
            return values + branch * self.residual_scale

    class Attention(nn.Module):
        def __init__(self, path: str) -> None:
            super().__init__()
            self.query = linear(f"{path}query")
            self.key_value = linear(f"{path}key_value")
            self.output = linear(f"{path}output")
            self.residual_scale = nn.Parameter(torch.empty(self.output.out_features))

    class SelfAttention(Attention):
        def forward(self, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            kernel = torch.cat([self.query.weight, self.key_value.weight])
            parts = functional.linear(norm(values), kernel).unflatten(-1, (3 * sizes["heads"], -1))
            query, key, value = parts.transpose(1, 2).chunk(3, dim=1)
            attended = mask[:, None, None, :, 0] > 0
            mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=attended)
            branch = self.output(mixed.transpose(1, 2).flatten(2))
            return values + branch * self.residual_scale

    class AttentionToLatents(Attention):
        def forward(self, values: torch.Tensor, latents: torch.Tensor) -> torch.Tensor:
            attend = self.on_latents if variant.on_latents else self.on_positions
            return values + attend(norm(values), self.key_value(latents)) * self.residual_scale

        def on_positions(self, normed: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
            heads = sizes["heads"]
            query = self.query(normed).unflatten(-1, (heads, -1)).transpose(1, 2)
            key, value = pairs.unflatten(-1, (2 * heads, -1)).transpose(1, 2).chunk(2, dim=1)
            mixed = functional.scaled_dot_product_attention(query, key, value)
            return self.output(mixed.transpose(1, 2).flatten(2))

        def on_latents(self, normed: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
            heads, (batch, tokens, _) = sizes["heads"], pairs.shape
            width = self.output.out_features
            rows = pairs.reshape(batch * tokens, 2 * heads, -1).transpose(0, 1)
            kernels = [
                self.query.weight.unflatten(0, (heads, -1)) * (width // heads) ** -0.5,
                self.output.weight.T.unflatten(0, (heads, -1)),
            ]
            key, value = (
                (half @ kernel).reshape(heads, batch, tokens, width).transpose(0, 1).flatten(1, 2)
                for half, kernel in zip(rows.chunk(2), kernels, strict=True)
            )
            scores = torch.bmm(normed, key.transpose(1, 2)).unflatten(-1, (heads, tokens))
            return torch.bmm(scores.softmax(-1).flatten(2), value) + self.output.bias

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
                    attention = AttentionToLatents(f"attention_{index}.")
                    self.add_module(f"attention_{index}", attention)
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
                self.add_module(f"attention_{index}", SelfAttention(f"attention_{index}."))
            self.duration_block = ConvBlock("duration_block.")
            self.mean_mel, self.log_duration = linear("mean_mel"), linear("log_duration")

        def forward(
            self, token_ids: torch.Tensor, voice: torch.Tensor, mask: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            language = self.languages(torch.zeros(len(voice), dtype=torch.int32))
            values = self.symbols(token_ids) + language[:, None]
            modulations = self.modulation(self.voice(voice) + language)
            for index in range(sizes["text blocks"]):
                values = self.get_submodule(f"attention_{index}")(values, mask)
                scale, shift = modulations[index]
                values = self.get_submodule(f"block_{index}")(values, scale, shift, mask)
            states = norm(values)
            for_durations = self.duration_block(states, *modulations[-1], mask)
            mean_mel = self.symbol_mean_mel(token_ids) + self.mean_mel(states)
            log_durations = self.symbol_log_duration(token_ids) + self.log_duration(for_durations)
            return states, mean_mel, log_durations

    class Stack(nn.Module):
        def __init__(self, kind: type) -> None:
            super().__init__()
            for index in range(_STACKED):
                self.add_module(f"layer_{index}", kind(f"layer_{index}."))

        def forward(self, values: torch.Tensor, **others: torch.Tensor) -> torch.Tensor:
            for index in range(_STACKED):
                values = self.get_submodule(f"layer_{index}")(values, **others)
            return values

    build: dict[str, Callable[[], nn.Module]] = {
        "convolution block": lambda: Stack(ConvBlock),
        "attention": lambda: Stack(AttentionToLatents),
        "self-attention": lambda: Stack(SelfAttention),
        "decoder": Decoder,
        "text encoder": TextEncoder,
    }
    module = build[block]()
    state = {name: torch.from_numpy(value.copy()) for name, value in weights.items()}
    module.load_state_dict(state)
    run = torch.compile(module) if variant.compiled else module
    given = {name: torch.from_numpy(value.copy()) for name, value in reference["inputs"].items()}
    floats = [value.requires_grad_() for value in given.values() if value.is_floating_point()]
    of_text = torch.from_numpy(text_mask()[:, :, None])
    masks = {
        "convolution block": {"mask": torch.ones(_BATCH, 1, 1)},
        "self-attention": {"mask": of_text},
        "decoder": {"mask": torch.ones(_BATCH, 1, 1)},
        "text encoder": {"mask": of_text},
    }
    parameters = dict(module.named_parameters())

    def forward_and_backward() -> tuple[Any, Any]:
        results = run(**given, **masks.get(block, {}))
        results = results if isinstance(results, tuple) else (results,)
        if block in ("self-attention", "text encoder"):
            results = tuple(result * of_text for result in results)
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
            raise SystemExit(f"{block}: PyTorch's results differ by {difference:.1e}")
    _passes[f"{block}, {variant}"] = forward_and_backward


def variants_of(block: str, eager_only: bool) -> list[Variant]:
    """Variants that differ for this block."""
    return [
        Variant(compiled, channels_last, on_latents)
        for compiled in ((False,) if eager_only else (False, True))
        for channels_last in ((False,) if "attention" in block else (False, True))
        for on_latents in ((False, True) if block in ("attention", "decoder") else (False,))
    ]


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
            turns = [(ours, block)]
            for variant in variants_of(block, options.eager_only):
                theirs.submit(build_with_torch, block, reference, variant).result()
                turns.append((theirs, f"{block}, {variant}"))
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
