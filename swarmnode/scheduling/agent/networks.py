"""Actor and critics: transformer encoders over a token for each domain, each layer, and the whole.

HDS (arXiv 2606.24133): a linear projection, encoder blocks, a head of four linear layers. What the
tokens are is not said there. A token for each domain with shared weights, told apart by a learned
vector, keeps the size the same whatever K is; the published code flattens all tokens into a head
of nine million parameters instead, which its own figure of 26.5 million leaves no room for.

The policy is a Dirichlet density, with concentrations 1 + s p: p the mean it tends to, s how sure
it is. Why Dirichlet: it is a true density on the shares with a closed form and an exact entropy,
it treats all domains alike (a logistic-normal density has to leave one out), and torch has its
pathwise gradient. With every concentration at least 1 the density is bounded, also where a share
is 0, and s → 0 is the equal density, the highest entropy that there is.

Every tensor of weights has a first dimension of members: the twin critics are computed together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Dirichlet

from swarmnode.scheduling.agent.sizes import Size
from swarmnode.scheduling.observation import LAYER_FEATURES, Layout

SURENESS_LEAST, SURENESS_MOST = 0.05, 2000.0
"""Bounds of s."""

FIRST_SURENESS = 2.0
"""s of an untrained actor, for each domain."""

SHARE_LEAST = 1e-7
"""Shares below this count as this in logarithms."""


class Layer(nn.Module):
    """A linear layer of each member: (members, n, inputs) to (members, n, outputs)."""

    def __init__(self, members: int, inputs: int, outputs: int) -> None:
        """Drawn as torch draws those of nn.Linear."""
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(members, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(members, 1, outputs).uniform_(-bound, bound))

    def forward(self, inputs: Tensor) -> Tensor:
        """All members at once: networks this small cost their number of calls, not their size."""
        return torch.baddbmm(self.bias, inputs, self.weight)


class Norm(nn.Module):
    """A layer normalisation of each member, over the last of (members, n, width)."""

    def __init__(self, members: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(members, 1, width))
        self.bias = nn.Parameter(torch.zeros(members, 1, width))

    def forward(self, inputs: Tensor) -> Tensor:
        """Keeps the shape."""
        return torch.addcmul(self.bias, F.layer_norm(inputs, inputs.shape[-1:]), self.weight)


class Block(nn.Module):
    """A transformer-encoder block, normalised before its parts."""

    def __init__(self, members: int, size: Size) -> None:
        super().__init__()
        self.heads = size.attention_heads
        self.attention_norm = Norm(members, size.width)
        self.query_key_value = Layer(members, size.width, 3 * size.width)
        self.attention_output = Layer(members, size.width, size.width)
        self.feed_forward_norm = Norm(members, size.width)
        self.up = Layer(members, size.width, size.feedforward)
        self.down = Layer(members, size.feedforward, size.width)
        # As torch begins its own attention (Glorot and Bengio 2010).
        bound = (6.0 / (4.0 * size.width)) ** 0.5
        nn.init.uniform_(self.query_key_value.weight, -bound, bound)
        nn.init.zeros_(self.query_key_value.bias)
        nn.init.zeros_(self.attention_output.bias)

    def forward(self, hidden: Tensor, tokens: int) -> Tensor:
        """(members, batch x tokens, width); every token sees all of its own observation."""
        members, rows, width = hidden.shape
        projected = self.query_key_value(self.attention_norm(hidden))
        split = projected.view(-1, tokens, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value)
        joined = attended.transpose(1, 2).reshape(members, rows, width)
        hidden = hidden + self.attention_output(joined)
        raised = self.up(self.feed_forward_norm(hidden)).relu()
        fallen: Tensor = hidden + self.down(raised)
        return fallen


class Encoder(nn.Module):
    """Observations to tokens: (batch, layout.length) to (members, batch x tokens, width)."""

    def __init__(self, members: int, layout: Layout, size: Size, extra: int = 0) -> None:
        """`extra` numbers for each domain come beside the observation's."""
        super().__init__()
        self.layout = layout
        self.members = members
        self.tokens = 1 + layout.domains + layout.layers
        self.domain = Layer(members, layout.domain_features + extra, size.width)
        self.layer = Layer(members, LAYER_FEATURES, size.width)
        self.whole = Layer(members, layout.global_features, size.width)
        names = torch.empty(members, 1, self.tokens, size.width)
        self.names = nn.Parameter(nn.init.normal_(names, std=0.5))
        self.blocks = nn.ModuleList([Block(members, size) for _ in range(size.layers)])

    def forward(self, observations: Tensor, extra: Tensor | None = None) -> Tensor:
        """`extra` is (batch, K, extra)."""
        layout = self.layout
        of_domains = layout.domains * layout.domain_features
        of_layers = layout.layers * LAYER_FEATURES
        parts = [of_domains, of_layers, layout.global_features]
        domains, layers, whole = torch.split(observations, parts, dim=-1)
        domains = domains.reshape(-1, layout.domains, layout.domain_features)
        if extra is not None:
            domains = torch.cat((domains, extra), dim=-1)
        tokens = [self._of(self.whole, whole.unsqueeze(-2)), self._of(self.domain, domains)]
        if layout.layers:
            rows = layers.reshape(-1, layout.layers, LAYER_FEATURES)
            tokens.append(self._of(self.layer, rows))
        hidden = (torch.cat(tokens, dim=-2) + self.names).flatten(1, 2)
        for block in self.blocks:
            hidden = block(hidden, self.tokens)
        return hidden

    def _of(self, layer: Layer, rows: Tensor) -> Tensor:
        """(batch, count, features) to (members, batch, count, width)."""
        batch, count, _ = rows.shape
        flat = rows.reshape(1, batch * count, -1).expand(self.members, -1, -1)
        return layer(flat).view(self.members, batch, count, -1)  # type: ignore[no-any-return]


def head(members: int, size: Size, outputs: int) -> nn.Sequential:
    """Four linear layers; the last starts small, so that an untrained network says little."""
    widths = (size.width, size.head, size.head, size.head)
    hidden = [
        layer
        for before, after in pairwise(widths)
        for layer in (Layer(members, before, after), nn.ReLU())
    ]
    last = Layer(members, size.head, outputs)
    nn.init.normal_(last.weight, std=0.01)
    nn.init.zeros_(last.bias)
    return nn.Sequential(Norm(members, size.width), *hidden, last)


class Actor(nn.Module):
    """Observations to the concentrations of a Dirichlet density: (batch, K), each above 1."""

    prior: Tensor

    def __init__(self, layout: Layout, size: Size, prior: Sequence[float]) -> None:
        """`prior` are shares above 0 that the untrained actor tends to."""
        super().__init__()
        self.encoder = Encoder(1, layout, size)
        self.head = head(1, size, 2)
        self.register_buffer("prior", torch.tensor(prior).log())
        self.first_sureness = math.log(FIRST_SURENESS * layout.domains)

    def forward(self, observations: Tensor) -> Tensor:
        """The concentrations 1 + s p."""
        tokens = self.encoder(observations).unflatten(1, (-1, self.encoder.tokens))
        # The whole and the domains; the layers' tokens are there to be looked at by these.
        speaking = tokens[:, :, : 1 + self.prior.shape[0]]
        out = self.head(speaking.flatten(1, 2)).view(-1, speaking.shape[2], 2)
        domains = out[:, 1:, 0]
        tendency = (domains + self.prior).softmax(dim=-1)
        sureness = (out[:, 0, 1:] + self.first_sureness).clamp(
            math.log(SURENESS_LEAST), math.log(SURENESS_MOST)
        )
        concentrations: Tensor = 1.0 + sureness.exp() * tendency
        return concentrations


class Critics(nn.Module):
    """Observations and shares to the values of drawing by these shares: (members, batch)."""

    def __init__(self, layout: Layout, size: Size, members: int = 2) -> None:
        """`members` are critics that know nothing of one another."""
        super().__init__()
        self.domains = layout.domains
        self.encoder = Encoder(members, layout, size, extra=1)
        self.head = head(members, size, 1)

    def forward(self, observations: Tensor, shares: Tensor) -> Tensor:
        """`shares` is (batch, K)."""
        centred = (self.domains * shares - 1.0).unsqueeze(-1)
        tokens = self.encoder(observations, centred)
        means = tokens.unflatten(1, (-1, self.encoder.tokens)).mean(dim=-2)
        values: Tensor = self.head(means).squeeze(-1)
        return values


def drawn(concentrations: Tensor) -> tuple[Tensor, Tensor]:
    """Shares drawn by a pathwise gradient, and their log density in nats: (batch, K), (batch,)."""
    shares = Dirichlet(concentrations, validate_args=False).rsample()
    return shares, log_density(concentrations, shares)


def log_density(concentrations: Tensor, shares: Tensor) -> Tensor:
    """With respect to the K - 1 first shares, as usual for Dirichlet: nats, (batch,)."""
    safe = shares.clamp_min(SHARE_LEAST)
    density = Dirichlet(concentrations, validate_args=False)
    logarithm: Tensor = density.log_prob(safe)  # type: ignore[no-untyped-call]
    return logarithm
