"""A training step of the same blocks in PyTorch. Asked by benchmarks/step.py.

The decoder's residual convolution blocks with AdamW, for batches of one shape.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.mixing = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.norm = nn.RMSNorm(width, elementwise_affine=False)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed = self.norm(self.mixing(x.transpose(1, 2)).transpose(1, 2))
        return x + self.scale * self.contract(nn.functional.silu(self.expand(mixed)))


def main() -> None:
    given = json.load(sys.stdin)
    torch.manual_seed(0)
    torch.set_num_threads(given["threads"])
    blocks = (Block(given["width"], given["kernel"]) for _ in range(given["blocks"]))
    model: nn.Module = nn.Sequential(*blocks)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    run = torch.compile(model) if given["compiled"] else model
    batch = torch.randn(given["batch"], given["frames"], given["width"])

    def step() -> float:
        started = time.perf_counter()
        loss = run(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
        return time.perf_counter() - started

    first = step()
    step()
    seconds = statistics.median(step() for _ in range(given["steps"]))
    print(json.dumps({"first": first, "steady": seconds}))


if __name__ == "__main__":
    main()
