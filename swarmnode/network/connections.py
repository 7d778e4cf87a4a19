"""Peers that we are connected to, each by one of its addresses. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swarmnode.network.addresses import RELAYED


@dataclass(slots=True)
class Connection:
    """A peer that we are connected to; `since` is in seconds since 1970."""

    address: str
    since: float
    missed_pings: int = 0


def seen_again(
    known: Mapping[str, Connection], listed: Sequence[tuple[str, str]], now: float
) -> dict[str, Connection]:
    """By peer id, of the ids and addresses that are listed now: those known before go on."""
    addresses: dict[str, list[str]] = {}
    for peer_id, address in listed:
        addresses.setdefault(peer_id, []).append(address)
    return {peer_id: _of(known.get(peer_id), each, now) for peer_id, each in addresses.items()}


def _of(before: Connection | None, addresses: Sequence[str], now: float) -> Connection:
    """A peer by the addresses of its connections, those through relays last."""
    best = sorted(addresses, key=lambda address: RELAYED in address)
    if before is None:
        return Connection(best[0], now)
    if before.address not in addresses or RELAYED in before.address:
        before.address = best[0]
    return before
