"""A mixing toy whose best mixture is known: three domains, one helpful, one neutral, one harmful.

A linear model θ over three blocks learns from noisy gradients of quadratic losses. `helpful` wants
what counts, in blocks A and B; `neutral` wants a part of the same, in block B, and something of its
own in C that doesn't count; `harmful` wants the contrary in B and C. What counts is how far A and B
are from right. So the gradients of helpful and neutral agree and those of harmful oppose both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from swarmnode.scheduling.scheduler import Outcome, Scheduler, advance, beginning

BLOCK = 8
STEPS = 150
RATE = 0.1
NOISE = 0.3
FLOOR = 0.5
"""What the best model still loses."""
JUDGED = 30
"""Last steps over which the loss is averaged."""

Vector = np.ndarray


@dataclass(frozen=True)
class Domain:
    """A quadratic loss ½ ‖mask (θ - wanted)‖² per block's size."""

    mask: Vector
    wanted: Vector

    def loss(self, theta: Vector) -> float:
        return FLOOR + float(np.sum(self.mask * (theta - self.wanted) ** 2)) / (2 * BLOCK)

    def gradient(self, theta: Vector) -> Vector:
        gradient: Vector = self.mask * (theta - self.wanted)
        return gradient


def blocks(a: float, b: float, c: float) -> Vector:
    return np.repeat([a, b, c], BLOCK)


DOMAINS = (
    Domain(blocks(1, 1, 0), blocks(1, 1, 0)),
    Domain(blocks(0, 1, 1), blocks(0, 1, 1)),
    Domain(blocks(0, 1, 1), blocks(0, -1, -1)),
)
COUNTS = Domain(blocks(1, 1, 0), blocks(1, 1, 0))
"""What a mixture is judged by."""


class Toy:
    """One model in training."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.theta: Vector = np.zeros(3 * BLOCK)

    def step(self, shares: Sequence[float]) -> Outcome:
        """Learn from one batch drawn by these shares."""
        gradients = np.stack(
            [
                d.gradient(self.theta) + NOISE * d.mask * self._rng.normal(size=3 * BLOCK)
                for d in DOMAINS
            ]
        )
        before = self.theta
        self.theta = before - RATE * (np.asarray(shares) @ gradients)
        products = gradients @ gradients.T
        return Outcome(
            weights=tuple(shares),
            samples=tuple(32.0 * share for share in shares),
            losses=tuple(domain.loss(before) for domain in DOMAINS),
            diversity=(60.0, 60.0, 60.0),
            gradient_products=tuple(tuple(row) for row in products.tolist()),
            layer_norms=(float(np.linalg.norm(self.theta)),),
            layer_changes=(float(np.linalg.norm(self.theta - before)),),
        )


@dataclass(frozen=True)
class Trained:
    """What became of it."""

    loss: float
    """Mean loss over the last JUDGED steps."""
    shares: Sequence[Sequence[float]]
    """Of every step."""


def train(scheduler: Scheduler, seed: int, steps: int = STEPS) -> Trained:
    """Let a scheduler steer a new model."""
    toy, state = Toy(seed), beginning(3, total_steps=steps)
    losses, shares = [], []
    for _ in range(steps):
        shares.append(tuple(scheduler.weights(state)))
        outcome = toy.step(shares[-1])
        scheduler.update(outcome)
        state = advance(state, outcome)
        losses.append(COUNTS.loss(toy.theta))
    return Trained(float(np.mean(losses[-JUDGED:])), shares)


def grid(parts: int = 10) -> list[tuple[float, ...]]:
    """All mixtures in steps of 1 / parts."""
    counts = product(range(parts + 1), repeat=3)
    return [tuple(n / parts for n in each) for each in counts if sum(each) == parts]
