"""The rendezvous itself, when the DHT is the attackers' and most connected peers are too."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import pytest

from swarmnode.clock import Clock, VirtualClock
from swarmnode.network.known import Known
from swarmnode.network.rendezvous import Rendezvous
from swarmnode.network.shards import bucket_of, publishing_keys, subkey_of
from swarmproto import DiscoverResponse, encode_discover_response, public_key_of
from tests.unit.network_made import NOW, SWARM, announcement, bundle, private_key
from tests.unit.network_time import in_virtual_time

HONEST = 4
OWN, FIRST_ATTACKER = 255, 100


@dataclass(frozen=True)
class Eclipsed:
    """A Swarm whose DHT keeps nothing but what attackers store, and which acknowledges the rest."""

    clock: Clock
    attackers: int
    asked: bool = True
    """Whether connected peers can be asked at all."""
    has_dht: bool = True

    async def store(self, key: str, subkey: str, value: bytes, expires: float, /) -> int:
        return 1

    async def get(self, keys: Sequence[str], /) -> Mapping[str, Mapping[str, bytes]]:
        records: dict[str, dict[str, bytes]] = {}
        bucket = bucket_of(self.clock.now())
        for number in self._hostile():
            public = public_key_of(private_key(number))
            for at in publishing_keys(SWARM, public, bucket, 0):
                records.setdefault(at, {})[subkey_of(public)] = announced(number)
        return {key: records[key] for key in keys if key in records}

    async def call(
        self, peer_id: str, protocol: str, request: bytes, limit: int, seconds: float, /
    ) -> bytes:
        numbers = self._hostile() if peer_id.startswith("attacker") else range(HONEST)
        return encode_discover_response(DiscoverResponse(tuple(map(announced, numbers))[:12]))

    async def connected(self) -> Sequence[tuple[str, str]]:
        honest = [(f"honest {number}", "") for number in range(HONEST)]
        hostile = [(f"attacker {number}", "") for number in range(self.attackers)]
        # The worst order: attackers were there first.
        return [*hostile, *honest] if self.asked else []

    def _hostile(self) -> range:
        return range(FIRST_ATTACKER, FIRST_ATTACKER + min(self.attackers, 12))


def announced(number: int) -> bytes:
    key = private_key(number)
    return announcement(key, bundle(key))


def seconds_until_honest(attackers: int, seed: int, *, asked: bool = True) -> float | None:
    """How long until an honest announcement is found; None within four minutes."""
    honest = {public_key_of(private_key(number)) for number in range(HONEST)}

    async def scenario(clock: VirtualClock) -> float | None:
        rendezvous = Rendezvous(
            swarm_id=SWARM,
            public_key=public_key_of(private_key(OWN)),
            peer=Eclipsed(clock, attackers, asked),
            known=Known(SWARM, clock),
            clock=clock,
            rng=random.Random(seed),
        )
        while clock.now() - NOW < 240.0:
            found = await rendezvous.discover(64)
            if any(entry.announcement.public_key in honest for entry in found):
                return clock.now() - NOW
            await clock.sleep(1.0)
        return None

    return in_virtual_time(scenario)


@pytest.mark.parametrize("attackers", [7, 8, 40])
def test_an_honest_announcement_is_found_though_attackers_hold_the_dht_and_came_first(
    attackers: int,
) -> None:
    times = [seconds_until_honest(attackers, seed) for seed in range(6)]
    found = [seconds for seconds in times if seconds is not None]
    assert len(found) >= 4
    # A look every four seconds, and every other one asks anybody: one in 11 of 44 is honest.
    assert fmean(found) < 8.0 * (attackers + HONEST) / HONEST + 8.0


def test_a_node_that_asks_nobody_hears_of_attackers_alone() -> None:
    assert seconds_until_honest(2, 0, asked=False) is None
