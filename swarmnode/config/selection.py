"""Settings of what a node takes from others: discovery, the pool, the filter."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from swarmnode.config.base import Section


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
    """What a filter draws at random: first a peer and then one of its groups, so that nobody
    fills J with one key, or uniformly a group (the paper)."""

    collect_every_seconds: float = Field(default=1.0, gt=0)
    """Seconds between looks for new groups."""

    discover_count: int = Field(default=64, ge=1, le=64)
    """Announcements asked for in one look."""

    fetch_groups_per_look: int = Field(default=8, ge=1, le=256)
    """Groups fetched and scored in one look at most."""

    pool_groups: int = Field(default=12, ge=1, le=4096)
    """Groups that the pool holds at most; the peer with the most loses its oldest first. More give
    the filter a wider choice of older groups; nothing is fetched while the pool is full."""

    pool_age_seconds: float = Field(default=600.0, gt=0)
    """Age, counted from its scoring, at which a group leaves the pool."""

    announcement_seconds: float = Field(default=300.0, gt=0, le=600)
    """How long a published bundle is announced and served."""

    clock_skew_seconds: float = Field(default=120.0, gt=0)
    """How far in the future a record may claim to be made."""
