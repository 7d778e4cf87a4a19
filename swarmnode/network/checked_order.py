"""What the daemon orders the network process to begin with, checked field by field.

Every fault is one line that names the field: a bad order is a bug or a bad setting, never a peer's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swarmnode.network.addresses import is_loopback, is_near
from swarmnode.network.choice import PREFERRED, Library
from swarmnode.network.order import NetworkOrder
from swarmnode.prefixes import networks
from swarmproto import (
    PRIVATE_KEY_BYTES,
    SWARM_ID_BYTES,
    SWARM_KEY_BYTES,
    SwarmRules,
    SwarmSecret,
    WireError,
    decode_rules,
    swarm_id,
)


class BadOrder(Exception):
    """The daemon asked for what can't be; the text is one line."""


def checked_order(payload: Any) -> tuple[NetworkOrder, SwarmRules | None]:
    """The order and its rules, None where it has none: then the swarm file can be asked for, and
    nothing is held for others. Raises BadOrder.
    """
    if not isinstance(payload, Mapping):
        raise BadOrder("start: expected a map")
    order = NetworkOrder(
        private_key=_sized(payload, "private_key", PRIVATE_KEY_BYTES),
        swarm_id=_sized(payload, "swarm_id", SWARM_ID_BYTES),
        rules=_value(payload, "rules", bytes),
        folder=_value(payload, "folder", str),
        swarm_key=_swarm_key(payload),
        listen=_texts(payload, "listen"),
        announce_addresses=_texts(payload, "announce_addresses"),
        bootstrap=_texts(payload, "bootstrap"),
        saved_peers=_texts(payload, "saved_peers"),
        public=_value(payload, "public", bool),
        relay=_value(payload, "relay", bool),
        test_network=_value(payload, "test_network", bool),
        exempt_networks=_texts(payload, "exempt_networks"),
        lan=_value(payload, "lan", bool),
        lan_port=_value(payload, "lan_port", int),
        lan_interfaces=_texts(payload, "lan_interfaces"),
        transport=_transport(payload),
    )
    if not order.listen and not order.lan:
        raise BadOrder("start: listen: at least one address")
    try:
        networks(order.exempt_networks)
    except ValueError as error:
        raise BadOrder(f"start: exempt_networks: {error}") from None
    try:
        rules = decode_rules(order.rules) if order.rules else None
    except WireError as error:
        raise BadOrder(f"start: rules: {error}") from None
    secret = SwarmSecret(order.swarm_key) if order.swarm_key else None
    if rules is not None and swarm_id(rules, secret) != order.swarm_id:
        raise BadOrder("start: the rules, or the key, are not those of the swarm id")
    return order, rules


def assumed_dialable(order: NetworkOrder) -> bool:
    """Whether to take it that others can dial us, before anybody has tried.

    So on a test network, and where the operator says so (`public`, `relay`); and where all that we
    listen on and begin with is this machine, or a local network that was asked for, since whoever
    hears of us is there as well.
    """
    places = (*order.listen, *order.announce_addresses, *order.bootstrap)
    local = all(map(is_near if order.lan else is_loopback, places))
    return order.test_network or order.public or order.relay or local


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


def _swarm_key(payload: Mapping[Any, Any]) -> bytes:
    private = _value(payload, "swarm_key", bytes) != b""
    return _sized(payload, "swarm_key", SWARM_KEY_BYTES) if private else b""


def _transport(payload: Mapping[Any, Any]) -> Library:
    library = _value(payload, "transport", str)
    for known in PREFERRED:
        if library == known:
            return known
    raise BadOrder(f"start: transport: expected one of {', '.join(PREFERRED)}, got {library}")


def _texts(payload: Mapping[Any, Any], name: str) -> tuple[str, ...]:
    values = payload.get(name)
    if not isinstance(values, list | tuple) or not all(type(value) is str for value in values):
        raise BadOrder(f"start: {name}: expected a list of texts")
    return tuple(values)
