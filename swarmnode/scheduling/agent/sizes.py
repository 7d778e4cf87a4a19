"""How large an agent's networks are: in proportion to the language model, or as in the paper."""

from __future__ import annotations

from dataclasses import dataclass

HEADS_MOST = 8


@dataclass(frozen=True, slots=True)
class Size:
    """A transformer encoder with a head of four linear layers."""

    width: int
    layers: int
    feedforward: int
    head: int
    """Width of the three hidden layers of the head."""

    @property
    def attention_heads(self) -> int:
        """One for each 8 channels, at most HEADS_MOST."""
        return max(1, min(HEADS_MOST, self.width // 8))

    @property
    def parameters(self) -> int:
        """Of encoder blocks and head, which are all but a few of a network's."""
        block = 4 * self.width**2 + 2 * self.width * self.feedforward
        small = 9 * self.width + self.feedforward
        head = self.width * self.head + 2 * self.head**2 + 4 * self.head
        return self.layers * (block + small) + head


PAPER = Size(width=256, layers=8, feedforward=512, head=640)
"""HDS (arXiv 2606.24133): projection to 256, 8 blocks with hidden 512, a head of 4 layers, about
5.3 million parameters a network, 26.5 million for actor, two critics and their two targets. The
width of the head is not given; this one makes up the rest."""

_LADDER = tuple(
    Size(width=width, layers=layers, feedforward=2 * width, head=2 * width)
    for width in (16, 32, 64, 128, 256)
    for layers in (1, 2, 4, 8)
)


def size_for(model_parameters: int, share: float) -> Size:
    """The size nearest, by ratio, to that share of a language model's parameters.

    The article recommends 0.3 to 1.5 %, best about 0.5 %; its sizes show that this is meant of one
    network. No size is below 4 thousand parameters, which is 0.5 % of a model of 0.8 million:
    below that, an agent is larger than recommended.
    """
    wanted = max(1.0, model_parameters * share)
    return min(_LADDER, key=lambda s: max(s.parameters / wanted, wanted / s.parameters))
