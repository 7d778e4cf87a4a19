"""Chance of an agent's own: what it draws depends on its seed alone, and a restart goes on exactly.

torch's distributions draw from the process's generator and take no other, so that it is lent the
agent's state while the agent draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class Chance:
    """A generator's state, lent to torch on the CPU for as long as `drawing` lasts."""

    def __init__(self, seed: int) -> None:
        self.state: Tensor = torch.Generator().manual_seed(seed).get_state()

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Everything drawn on the CPU within is of this chance; not for several threads."""
        process = torch.get_rng_state()
        torch.set_rng_state(self.state)
        try:
            yield
        finally:
            self.state = torch.get_rng_state()
            torch.set_rng_state(process)
