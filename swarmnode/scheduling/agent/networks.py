"""Actor and critic: transformer encoders over a token for each domain, each layer, and the whole.

HDS (arXiv 2606.24133): a linear projection, encoder blocks, a head of four linear layers. What the
tokens are is not said there. A token for each domain with shared weights, told apart by a learned
vector, keeps the size the same whatever K is; the published code flattens all tokens into a head
of nine million parameters instead, which its own figure of 26.5 million leaves no room for.

The policy is a Dirichlet density, with concentrations 1 + s p: p the mean it tends to, s how sure
it is. Why Dirichlet: it is a true density on the shares with a closed form and an exact entropy,
it treats all domains alike (a logistic-normal density has to leave one out), and torch has its
pathwise gradient. With every concentration at least 1 the density is bounded, also where a share
is 0, and s → 0 is the equal density, the highest entropy that there is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
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


class Encoder(nn.Module):
    """Observations to tokens: (batch, layout.length) to (batch, 1 + K + layers, width)."""

    def __init__(self, layout: Layout, size: Size, extra: int = 0) -> None:
        """`extra` numbers for each domain come beside the observation's."""
        super().__init__()
        self.layout = layout
        self.domain = nn.Linear(layout.domain_features + extra, size.width)
        self.layer = nn.Linear(LAYER_FEATURES, size.width)
        self.whole = nn.Linear(layout.global_features, size.width)
        names = torch.empty(1 + layout.domains + layout.layers, size.width)
        self.names = nn.Parameter(nn.init.normal_(names, std=0.5))
        block = nn.TransformerEncoderLayer(
            size.width,
            size.attention_heads,
            size.feedforward,
            dropout=0.0,
            batch_first=True,
            norm_first=True,
        )
        self.blocks = nn.TransformerEncoder(block, size.layers, enable_nested_tensor=False)

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
        tokens = [self.whole(whole).unsqueeze(-2), self.domain(domains)]
        if layout.layers:
            tokens.append(self.layer(layers.reshape(-1, layout.layers, LAYER_FEATURES)))
        encoded: Tensor = self.blocks(torch.cat(tokens, dim=-2) + self.names)
        return encoded


def head(size: Size, out: int) -> nn.Sequential:
    """Four linear layers; the last starts small, so that an untrained network says little."""
    last = nn.Linear(size.head, out)
    nn.init.normal_(last.weight, std=0.01)
    nn.init.zeros_(last.bias)
    widths = (size.width, size.head, size.head, size.head)
    layers = [(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(widths)]
    return nn.Sequential(nn.LayerNorm(size.width), *(m for pair in layers for m in pair), last)


class Actor(nn.Module):
    """Observations to the concentrations of a Dirichlet density: (batch, K), each above 1."""

    prior: Tensor

    def __init__(self, layout: Layout, size: Size, prior: Sequence[float]) -> None:
        """`prior` are shares above 0 that the untrained actor tends to."""
        super().__init__()
        self.encoder = Encoder(layout, size)
        self.head = head(size, 2)
        self.register_buffer("prior", torch.tensor(prior).log())
        self.first_sureness = math.log(FIRST_SURENESS * layout.domains)

    def forward(self, observations: Tensor) -> Tensor:
        """The concentrations 1 + s p."""
        out = self.head(self.encoder(observations))
        domains = out[..., 1 : 1 + self.prior.shape[0], 0]
        tendency = (domains + self.prior).softmax(dim=-1)
        sureness = (out[..., 0, 1:] + self.first_sureness).clamp(
            math.log(SURENESS_LEAST), math.log(SURENESS_MOST)
        )
        concentrations: Tensor = 1.0 + sureness.exp() * tendency
        return concentrations


class Critic(nn.Module):
    """Observations and shares to the value of drawing by these shares: (batch,)."""

    def __init__(self, layout: Layout, size: Size) -> None:
        super().__init__()
        self.domains = layout.domains
        self.encoder = Encoder(layout, size, extra=1)
        self.head = head(size, 1)

    def forward(self, observations: Tensor, shares: Tensor) -> Tensor:
        """`shares` is (batch, K)."""
        centred = (self.domains * shares - 1.0).unsqueeze(-1)
        tokens = self.encoder(observations, centred)
        value: Tensor = self.head(tokens.mean(dim=-2)).squeeze(-1)
        return value


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
