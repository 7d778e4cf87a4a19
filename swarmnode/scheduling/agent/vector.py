"""The parameters of a module as one vector, of which they are parts.

What is done to all of them, an optimizer's step, clipping, an average of two modules, is one
operation then rather than one for each: in networks of a few thousand parameters that is most of
the cost. Values and gradients stay where modules and autograd look for them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Vector:
    """Parameters that share one piece of memory, and so do their gradients."""

    def __init__(self, parts: Sequence[Tensor]) -> None:
        """Move the values of `parts`, leaves of one type, into the vector."""
        self.parts = list(parts)
        """As they were given; what is written into them in place is in the vector."""
        values = torch.cat([part.detach().flatten() for part in parts])
        self.whole = nn.Parameter(values, requires_grad=False)
        """All values, (n,), with all gradients under `grad`."""
        gradient = torch.zeros_like(values)
        self.whole.grad = gradient
        place = 0
        for part in self.parts:
            end = place + part.numel()
            part.data = values[place:end].view_as(part)
            if part.requires_grad:
                part.grad = gradient[place:end].view_as(part)
            place = end

    def clear(self) -> None:
        """Set all gradients to 0; they must not be set to None, which would part them from it."""
        assert self.whole.grad is not None
        self.whole.grad.zero_()
