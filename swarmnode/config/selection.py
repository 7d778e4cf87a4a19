"""Settings of what a node takes from others: discovery, the pool, the filter."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from swarmnode.config.base import Section
from swarmnode.config.external import Fallback, LogProbGate
from swarmnode.config.rounds import Rounds

EXTERNAL_TOKEN_SHARE = 0.5
"""Strangers don't decide alone."""


class Selection(Section):
    """How external groups are found, kept and chosen."""

    external_source: Literal["peers", "own_past", "reference_answers"] = "peers"
    """Where the J external groups of a round come from. `peers`: other nodes. The rest are
    control arms of a study, which fetch nothing from anybody. `own_past`: the node's own live
    groups of earlier rounds, replayed from the pool until newer ones push them out.
    `reference_answers`: new questions of which half the completions are the right answer: what the
    best possible peer could give."""

    filter: str = "nonzero-advantage"
    """Name of the filter that picks the external groups of a round, from the entry point group
    `swarmnode.filters`: nonzero-advantage (the paper's), uniform, top-reward, learnability, fresh,
    balanced, or one that another package brings."""

    draw: Literal["peers", "groups"] = "peers"
    """What a filter draws at random: first an address prefix, then a peer of it and then one of its
    groups, so that nobody fills J with one key, nor with many keys; or uniformly a group (the
    paper)."""

    external_token_share: float | None = Field(default=None, ge=0.0, le=1.0)
    """Largest share of peers' completions in the tokens of the training sets, over about the last
    64 rounds. Of our own groups all tokens count, of a peer's those of the completions that may be
    trained on. Unset is 0.5, or what the mix asks for where that is more, such as 0.75 with 2/6;
    `swarmnode status` warns of more than 0.5."""

    peer_share: float = Field(default=0.25, ge=0.0, le=1.0)
    """Largest such share of one peer. Where fewer peers were heard of in the last 16 rounds than
    would fill the share of all, they may fill it in equal parts."""

    prefix_share: float = Field(default=0.25, ge=0.0, le=1.0)
    """The same of an address prefix, as which all keys count that are connected from it. All peers
    that are known through others alone are one."""

    log_prob_gate: LogProbGate = LogProbGate()
    """What peers say that our own policy never would."""

    fallback: Fallback = Fallback()
    """Own groups alone, after a fall."""

    collect_every_seconds: float = Field(default=1.0, gt=0)
    """Seconds between looks for new groups."""

    discover_count: int = Field(default=64, ge=1, le=64)
    """Announcements asked for in one look."""

    fetch_groups_per_look: int = Field(default=8, ge=1, le=256)
    """Groups fetched and scored in one look at most."""

    pool_groups: int = Field(default=12, ge=1, le=4096)
    """Groups that the pool holds at most; the address prefix with the most, and of it the peer with
    the most, loses its oldest first. More give the filter a wider choice of older groups; while the
    pool is full only those are fetched that take a place of a prefix with more than its share."""

    pool_age_seconds: float = Field(default=600.0, gt=0)
    """Age, counted from its scoring, at which a group leaves the pool."""

    announcement_seconds: float = Field(default=300.0, gt=0, le=600)
    """How long a published bundle is announced and served."""

    clock_skew_seconds: float = Field(default=120.0, gt=0)
    """How far in the future a record may claim to be made."""

    def external_share(self, rounds: Rounds) -> float:
        """`external_token_share` with its default resolved."""
        if self.external_token_share is not None:
            return self.external_token_share
        return max(EXTERNAL_TOKEN_SHARE, rounds.external_share)
