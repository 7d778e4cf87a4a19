"""What the daemon orders the network process to start, checked field by field.

Source: the one caller, network/remote.py. Every fault is one line that names the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from swarmnode.network.dialback import is_loopback
from swarmproto import (
    PRIVATE_KEY_BYTES,
    SWARM_ID_BYTES,
    SwarmRules,
    WireError,
    decode_rules,
    swarm_id,
)


class BadOrder(Exception):
    """The daemon asked for what can't be; the text is one line."""


@dataclass(frozen=True, slots=True)
class StartOrder:
    """How to join which swarm; addresses are multiaddrs.

    Without rules (none, in no bytes) the swarm file can be asked for, and nothing is held for
    others. `test_network`: everybody can dial everybody, and nobody's word on it is needed.
    """

    private_key: bytes
    swarm_id: bytes
    rules: SwarmRules | None
    rules_bytes: bytes
    listen: tuple[str, ...]
    announce_addresses: tuple[str, ...]
    bootstrap: tuple[str, ...]
    saved_peers: tuple[str, ...]
    public: bool
    relay: bool
    test_network: bool
    folder: str

    @classmethod
    def of(cls, payload: Any) -> StartOrder:
        """Raises BadOrder."""
        if not isinstance(payload, Mapping):
            raise BadOrder("start: expected a map")
        rules_bytes = _value(payload, "rules", bytes)
        try:
            rules = decode_rules(rules_bytes) if rules_bytes else None
        except WireError as error:
            raise BadOrder(f"start: rules: {error}") from None
        order = cls(
            private_key=_sized(payload, "private_key", PRIVATE_KEY_BYTES),
            swarm_id=_sized(payload, "swarm_id", SWARM_ID_BYTES),
            rules=rules,
            rules_bytes=rules_bytes,
            listen=_texts(payload, "listen"),
            announce_addresses=_texts(payload, "announce_addresses"),
            bootstrap=_texts(payload, "bootstrap"),
            saved_peers=_texts(payload, "saved_peers"),
            public=_value(payload, "public", bool),
            relay=_value(payload, "relay", bool),
            test_network=_value(payload, "test_network", bool),
            folder=_value(payload, "folder", str),
        )
        if rules is not None and swarm_id(rules) != order.swarm_id:
            raise BadOrder("start: the rules are not those of the swarm id")
        if not order.listen:
            raise BadOrder("start: listen: at least one address")
        return order

    @property
    def assumed_dialable(self) -> bool:
        """Whether to take it that others can dial us, before anybody has tried.

        So on a test network, and where the operator says so (`public`, `relay`); and where all that
        we listen on and begin with is this machine, since whoever hears of us is on it as well.
        """
        local = all(map(is_loopback, (*self.listen, *self.announce_addresses, *self.bootstrap)))
        return self.test_network or self.public or self.relay or local


def _value(payload: Mapping[Any, Any], name: str, kind: type) -> Any:
    value = payload.get(name)
    if type(value) is not kind:
        raise BadOrder(f"start: {name}: expected {kind.__name__}, got {type(value).__name__}")
    return value


def _sized(payload: Mapping[Any, Any], name: str, size: int) -> bytes:
    value: bytes = _value(payload, name, bytes)
    if len(value) != size:
        raise BadOrder(f"start: {name}: expected {size} bytes, got {len(value)}")
    return value


def _texts(payload: Mapping[Any, Any], name: str) -> tuple[str, ...]:
    values = payload.get(name)
    if not isinstance(values, list | tuple) or not all(type(value) is str for value in values):
        raise BadOrder(f"start: {name}: expected a list of texts")
    return tuple(values)
