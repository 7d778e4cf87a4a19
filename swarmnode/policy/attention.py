"""How a token sees other tokens: the forms of attention that the native forward is given.

Shapes: query and result are (rows, length, heads, head_width); key and value are (rows, length,
key_value_heads, head_width). Products are scaled by head_width ** -0.5.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, query, key, value) to the attended values, shaped like the query."""


def causal_attention(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attend to the same and earlier places of the row; right padding is seen by padding only."""
    return _attention(query, key, value, None)


def masked_attention(visible: Tensor, dtype: torch.dtype) -> Attend:
    """Return an `attend` under a mask, (rows, length, length) with True where query sees key.

    dtype: of the queries.
    """
    mask = torch.zeros(visible.shape, device=visible.device, dtype=dtype)
    mask = mask.masked_fill_(~visible, float("-inf")).unsqueeze(1)

    def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return _attention(query, key, value, mask)

    return attend


def tree_visibility(positions: Tensor, segments: Tensor) -> Tensor:
    """Return who sees whom in packed rows, (rows, length, length).

    positions and segments: (rows, length). Segment 0 is the prompt, k >= 1 the k-th completion, -1
    padding. A token sees the tokens at the same or an earlier position that belong to the prompt or
    to its own segment.
    """
    earlier = positions.unsqueeze(-2) <= positions.unsqueeze(-1)
    keys = segments.unsqueeze(-2)
    return earlier & ((keys == 0) | (keys == segments.unsqueeze(-1)))


def _attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    return F.scaled_dot_product_attention(
        query.transpose(1, 2),
        key.transpose(1, 2),
        value.transpose(1, 2),
        attn_mask=mask,
        is_causal=mask is None,
        enable_gqa=query.shape[2] != key.shape[2],
    ).transpose(1, 2)
