"""Vectors of the four protocols' requests and responses, and of swarm rules."""

from typing import Final

from form import Parts, Vector, accepted, packed, packed_map, refused, without
from samples import ANNOUNCEMENT, BUNDLE, BUNDLE_ID, CREATED, GROUPS, RULES, SWARM_ID

import swarmproto as wire

Cases = dict[str, dict[str, tuple[bytes | Parts, str]]]

_FETCH: Final[dict[str, object]] = {"swarm": SWARM_ID, "bundle": BUNDLE_ID, "positions": [0, 1]}
_FETCHED: Final[dict[str, object]] = {"status": "ok", "header": b"h", "groups": [[0, b"g"]]}
_OFFER: Final[dict[str, object]] = {"announcement": b"a", "header": b"h", "groups": [b"g"]}
_RULES: Final[dict[str, object]] = {
    "name": RULES.name,
    "tasks": [list(pair) for pair in RULES.tasks],
    "completions_min": RULES.completions_min,
    "completions_max": RULES.completions_max,
    "completion_tokens_max": RULES.completion_tokens_max,
    "groups_per_bundle_max": RULES.groups_per_bundle_max,
}


def _valid() -> list[Vector]:
    ask = wire.DiscoverRequest(SWARM_ID, 8)
    told = wire.DiscoverResponse((ANNOUNCEMENT,))
    fetch = wire.FetchRequest(SWARM_ID, BUNDLE_ID, (0, 1))
    fetched = wire.FetchResponse("ok", BUNDLE.header_bytes, ((1, GROUPS[1]),))
    missing = wire.FetchResponse("missing", None, ())
    offer = wire.OfferRequest(ANNOUNCEMENT, BUNDLE.header_bytes, GROUPS)
    held, full = wire.OfferResponse("held", CREATED), wire.OfferResponse("full", 0)
    rules = wire.encode_rules(RULES)
    swarm = wire.SwarmResponse(rules, ("/dns4/bootstrap.example/tcp/4001",))
    known = wire.SwarmRequest(SWARM_ID)
    unknown = wire.SwarmResponse(None, ())
    rows: list[tuple[str, str, bytes, object]] = [
        ("eight announcements", "discover_request", wire.encode_discover_request(ask), ask),
        ("one", "discover_response", wire.encode_discover_response(told), told),
        ("two groups", "fetch_request", wire.encode_fetch_request(fetch), fetch),
        ("header and one group", "fetch_response", wire.encode_fetch_response(fetched), fetched),
        ("not here", "fetch_response", wire.encode_fetch_response(missing), missing),
        ("a whole bundle", "offer_request", wire.encode_offer_request(offer), offer),
        ("held", "offer_response", wire.encode_offer_response(held), held),
        ("full", "offer_response", wire.encode_offer_response(full), full),
        ("by id", "swarm_request", wire.encode_swarm_request(known), known),
        ("rules and an address", "swarm_response", wire.encode_swarm_response(swarm), swarm),
        ("unknown", "swarm_response", wire.encode_swarm_response(unknown), unknown),
        ("rules", "rules", rules, RULES),
        ("an unknown field", "swarm_request", packed({"swarm": SWARM_ID, "later": []}), known),
    ]
    return [accepted(name, f"decode_{kind}", data, record) for name, kind, data, record in rows]


def _requests() -> Cases:
    def fetch(**changes: object) -> bytes:
        return packed(_FETCH | changes)

    return {
        "discover_request": {
            "no swarm": (packed({"count": 8}), "missing_field"),
            "a swarm id of 31 bytes": (packed({"swarm": bytes(31), "count": 8}), "range"),
            "count 0": (packed({"swarm": SWARM_ID, "count": 0}), "range"),
            "count 65": (packed({"swarm": SWARM_ID, "count": 65}), "range"),
            "count true": (packed({"swarm": SWARM_ID, "count": True}), "wrong_type"),
            "1025 bytes": (((b"\x81\xa1z\xc5\x03\xfb", 1), (b"\0", 1019)), "oversize"),
        },
        "fetch_request": {
            "no positions": (packed(without(_FETCH, "positions")), "missing_field"),
            "position 64": (fetch(positions=[64]), "range"),
            "position -1": (fetch(positions=[-1]), "range"),
            "position false": (fetch(positions=[False]), "wrong_type"),
            "a position twice": (fetch(positions=[1, 1]), "range"),
            "positions that fall": (fetch(positions=[1, 0]), "range"),
            "65 positions": (fetch(positions=list(range(65))), "range"),
            "a bundle id as text": (fetch(bundle="b" * 32), "wrong_type"),
        },
        "offer_request": {
            "no groups": (packed(_OFFER | {"groups": []}), "range"),
            "a group of 256 KiB + 1": (_long_offer(wire.GROUP_BYTES_MAX + 1, 1), "range"),
            "eight groups of 256 KiB": (_long_offer(wire.GROUP_BYTES_MAX, 8), "oversize"),
            "an announcement of 1025 bytes": (
                packed(_OFFER | {"announcement": bytes(1025)}),
                "range",
            ),
        },
        "swarm_request": {
            "empty": (packed({}), "missing_field"),
            "an array": (packed([SWARM_ID]), "wrong_type"),
        },
    }


def _long_offer(size: int, count: int) -> Parts:
    """Groups of zeros, written so that the vector stays short."""
    head = b"\x83\xacannouncement\xc4\x01a\xa6header\xc4\x01h\xa6groups" + bytes([0x90 | count])
    parts: list[tuple[bytes, int]] = [(head, 1)]
    for _ in range(count):
        parts += [(b"\xc6" + size.to_bytes(4, "big"), 1), (b"\0", size)]
    return parts


def _responses() -> Cases:
    def fetched(**changes: object) -> bytes:
        return packed(_FETCHED | changes)

    return {
        "discover_response": {
            "65 announcements": (packed({"announcements": [b"a"] * 65}), "range"),
            "an announcement of 1025 bytes": (packed({"announcements": [bytes(1025)]}), "range"),
            "a text": (packed({"announcements": ["a"]}), "wrong_type"),
        },
        "fetch_response": {
            "an unknown status": (fetched(status="later"), "range"),
            "ok without a header": (packed(without(_FETCHED, "header")), "conflict"),
            "missing with a header": (fetched(status="missing"), "conflict"),
            "busy with a group": (
                packed({"status": "busy", "groups": [[0, b"g"]]}),
                "conflict",
            ),
            "a position twice": (fetched(groups=[[0, b"g"], [0, b"g"]]), "range"),
            "a group without a position": (fetched(groups=[b"g"]), "wrong_type"),
            "a header of 4097 bytes": (fetched(header=bytes(4097)), "range"),
            "a status twice": (
                packed_map([*_FETCHED.items(), ("status", "ok")]),
                "duplicate_key",
            ),
            "a bomb of empty maps": (((b"\xdd\0\x0f\xff\xfb", 1), (b"\x80", 1048571)), "nodes"),
        },
        "offer_response": {
            "held until 0": (packed({"status": "held", "until": 0}), "conflict"),
            "full until later": (packed({"status": "full", "until": 1}), "conflict"),
            "an integer as status": (packed({"status": 1, "until": 1}), "wrong_type"),
        },
        "swarm_response": {
            "33 addresses": (packed({"bootstrap": ["a"] * 33}), "range"),
            "empty rules": (packed({"rules": b"", "bootstrap": []}), "range"),
            "nil as rules": (packed({"rules": None, "bootstrap": []}), "wrong_type"),
        },
    }


def _rules() -> Cases:
    def rules(**changes: object) -> bytes:
        return packed(_RULES | changes)

    tasks = [["b", "easy"], ["a", "easy"]]
    return {
        "rules": {
            "a rule that version 1 doesn't know": (rules(later=1), "unknown_field"),
            "tasks out of order": (rules(tasks=tasks), "noncanonical"),
            "a task twice": (rules(tasks=[["a", "easy"], ["a", "easy"]]), "noncanonical"),
            "keys in another order": (packed(dict(reversed(_RULES.items()))), "noncanonical"),
            "a longer encoding": (
                packed(_RULES).replace(b"_min\x02", b"_min\xcc\x02"),
                "noncanonical",
            ),
            "no task": (rules(tasks=[]), "range"),
            "one completion": (rules(completions_min=1), "range"),
            "65 completions": (rules(completions_max=65), "range"),
            "fewer at most than at least": (rules(completions_min=9, completions_max=8), "range"),
            "no tokens": (rules(completion_tokens_max=0), "range"),
            "65 groups": (rules(groups_per_bundle_max=65), "range"),
            "no name": (packed(without(_RULES, "name")), "missing_field"),
        }
    }


def message_vectors() -> list[Vector]:
    """Valid ones first."""
    return _valid() + [
        refused(name, f"decode_{kind}", data, reason)
        for cases in (_requests(), _responses(), _rules())
        for kind, named in cases.items()
        for name, (data, reason) in named.items()
    ]
