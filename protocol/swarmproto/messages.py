"""Requests and responses of the four protocols that every node serves.

Knows their encodings, not who sends them: a transport frames the bytes. What is inside (headers,
announcements, groups, rules) stays bytes and is opened by its own function. Source:
protocol/README.md, section 10.
"""

from itertools import pairwise
from typing import Final, TypeVar

from swarmproto.errors import Reason, WireError
from swarmproto.fields import Fields, as_array, as_binary, as_integer, as_text
from swarmproto.limits import (
    ADDRESS_BYTES_MAX,
    ANNOUNCEMENT_BYTES_MAX,
    ANNOUNCEMENTS_PER_RESPONSE_MAX,
    BOOTSTRAP_ADDRESSES_MAX,
    BUNDLE_BYTES_MAX,
    BUNDLE_ID_BYTES,
    GROUP_BYTES_MAX,
    GROUPS_PER_BUNDLE_MAX,
    HEADER_BYTES_MAX,
    REQUEST_LIMITS,
    RESPONSE_LIMITS,
    RULES_BYTES_MAX,
    SWARM_ID_BYTES,
)
from swarmproto.records import (
    DiscoverRequest,
    DiscoverResponse,
    FetchRequest,
    FetchResponse,
    FetchStatus,
    OfferRequest,
    OfferResponse,
    OfferStatus,
    SwarmRequest,
    SwarmResponse,
)
from swarmproto.scan import pack, unpack

DISCOVER_PROTOCOL: Final = "/swarmnode/discover/1"
FETCH_PROTOCOL: Final = "/swarmnode/fetch/1"
OFFER_PROTOCOL: Final = "/swarmnode/offer/1"
SWARM_PROTOCOL: Final = "/swarmnode/swarm/1"

_Status = TypeVar("_Status", FetchStatus, OfferStatus)

_FETCH_STATUSES: Final[dict[str, FetchStatus]] = {"ok": "ok", "missing": "missing", "busy": "busy"}
_OFFER_STATUSES: Final[dict[str, OfferStatus]] = {
    "held": "held",
    "full": "full",
    "refused": "refused",
}


def _swarm_id(fields: Fields) -> bytes:
    return fields.binary("swarm", SWARM_ID_BYTES, SWARM_ID_BYTES)


def _status(fields: Fields, known: dict[str, _Status]) -> _Status:
    value = fields.value("status")
    if type(value) is not str:
        raise WireError(Reason.WRONG_TYPE, "expected a text")
    if value not in known:
        raise WireError(Reason.RANGE, "an unknown status")
    return known[value]


def _check_sum(groups: tuple[bytes, ...], header_bytes: bytes) -> None:
    if len(header_bytes) + sum(map(len, groups)) > BUNDLE_BYTES_MAX:
        raise WireError(Reason.OVERSIZE, f"a bundle of more than {BUNDLE_BYTES_MAX} bytes")


def decode_discover_request(data: bytes) -> DiscoverRequest:
    """Raises WireError."""
    fields = Fields.of(unpack(data, REQUEST_LIMITS))
    return DiscoverRequest(
        _swarm_id(fields), fields.integer("count", 1, ANNOUNCEMENTS_PER_RESPONSE_MAX)
    )


def encode_discover_request(request: DiscoverRequest) -> bytes:
    """Raises WireError."""
    data = pack({"swarm": request.swarm_id, "count": request.count})
    decode_discover_request(data)
    return data


def decode_discover_response(data: bytes) -> DiscoverResponse:
    """Raises WireError."""
    fields = Fields.of(unpack(data, RESPONSE_LIMITS))
    values = fields.array("announcements", 0, ANNOUNCEMENTS_PER_RESPONSE_MAX)
    return DiscoverResponse(tuple(as_binary(value, 1, ANNOUNCEMENT_BYTES_MAX) for value in values))


def encode_discover_response(response: DiscoverResponse) -> bytes:
    """Raises WireError."""
    data = pack({"announcements": list(response.announcements)})
    decode_discover_response(data)
    return data


def _ascending(positions: tuple[int, ...]) -> None:
    if any(low >= high for low, high in pairwise(positions)):
        raise WireError(Reason.RANGE, "positions that don't ascend")


def decode_fetch_request(data: bytes) -> FetchRequest:
    """Raises WireError."""
    fields = Fields.of(unpack(data, REQUEST_LIMITS))
    positions = tuple(
        as_integer(value, 0, GROUPS_PER_BUNDLE_MAX - 1)
        for value in fields.array("positions", 0, GROUPS_PER_BUNDLE_MAX)
    )
    _ascending(positions)
    bundle = fields.binary("bundle", BUNDLE_ID_BYTES, BUNDLE_ID_BYTES)
    return FetchRequest(_swarm_id(fields), bundle, positions)


def encode_fetch_request(request: FetchRequest) -> bytes:
    """Raises WireError."""
    data = pack(
        {
            "swarm": request.swarm_id,
            "bundle": request.bundle_id,
            "positions": list(request.positions),
        }
    )
    decode_fetch_request(data)
    return data


def _positioned_group(value: object) -> tuple[int, bytes]:
    position, group = as_array(value, 2, 2)
    return as_integer(position, 0, GROUPS_PER_BUNDLE_MAX - 1), as_binary(group, 1, GROUP_BYTES_MAX)


def decode_fetch_response(data: bytes) -> FetchResponse:
    """Raises WireError. The groups are not verified: see `verify_group`."""
    fields = Fields.of(unpack(data, RESPONSE_LIMITS))
    status = _status(fields, _FETCH_STATUSES)
    header = fields.binary("header", 1, HEADER_BYTES_MAX) if "header" in fields else None
    values = fields.array("groups", 0, GROUPS_PER_BUNDLE_MAX)
    groups = tuple(_positioned_group(value) for value in values)
    _ascending(tuple(position for position, _ in groups))
    if (header is not None) != (status == "ok") or (groups and header is None):
        raise WireError(Reason.CONFLICT, "a header or groups that don't fit the status")
    _check_sum(tuple(group for _, group in groups), header or b"")
    return FetchResponse(status, header, groups)


def encode_fetch_response(response: FetchResponse) -> bytes:
    """Raises WireError."""
    values: dict[str, object] = {
        "status": response.status,
        "groups": [list(group) for group in response.groups],
    }
    if response.header_bytes is not None:
        values["header"] = response.header_bytes
    data = pack(values)
    decode_fetch_response(data)
    return data


def decode_offer_request(data: bytes) -> OfferRequest:
    """Raises WireError. Nothing inside is verified."""
    fields = Fields.of(unpack(data, RESPONSE_LIMITS))
    header = fields.binary("header", 1, HEADER_BYTES_MAX)
    values = fields.array("groups", 1, GROUPS_PER_BUNDLE_MAX)
    groups = tuple(as_binary(value, 1, GROUP_BYTES_MAX) for value in values)
    _check_sum(groups, header)
    return OfferRequest(fields.binary("announcement", 1, ANNOUNCEMENT_BYTES_MAX), header, groups)


def encode_offer_request(request: OfferRequest) -> bytes:
    """Raises WireError."""
    data = pack(
        {
            "announcement": request.announcement,
            "header": request.header_bytes,
            "groups": list(request.group_bytes),
        }
    )
    decode_offer_request(data)
    return data


def decode_offer_response(data: bytes) -> OfferResponse:
    """Raises WireError."""
    fields = Fields.of(unpack(data, REQUEST_LIMITS))
    response = OfferResponse(_status(fields, _OFFER_STATUSES), fields.integer("until"))
    if (response.until > 0) != (response.status == "held"):
        raise WireError(Reason.CONFLICT, "a time that doesn't fit the status")
    return response


def encode_offer_response(response: OfferResponse) -> bytes:
    """Raises WireError."""
    data = pack({"status": response.status, "until": response.until})
    decode_offer_response(data)
    return data


def decode_swarm_request(data: bytes) -> SwarmRequest:
    """Raises WireError."""
    return SwarmRequest(_swarm_id(Fields.of(unpack(data, REQUEST_LIMITS))))


def encode_swarm_request(request: SwarmRequest) -> bytes:
    """Raises WireError."""
    data = pack({"swarm": request.swarm_id})
    decode_swarm_request(data)
    return data


def decode_swarm_response(data: bytes) -> SwarmResponse:
    """Raises WireError. Compare the hash of the rules with the id that was asked for."""
    fields = Fields.of(unpack(data, RESPONSE_LIMITS))
    rules = fields.binary("rules", 1, RULES_BYTES_MAX) if "rules" in fields else None
    values = fields.array("bootstrap", 0, BOOTSTRAP_ADDRESSES_MAX)
    return SwarmResponse(rules, tuple(as_text(value, 1, ADDRESS_BYTES_MAX) for value in values))


def encode_swarm_response(response: SwarmResponse) -> bytes:
    """Raises WireError."""
    values: dict[str, object] = {"bootstrap": list(response.bootstrap)}
    if response.rules is not None:
        values["rules"] = response.rules
    data = pack(values)
    decode_swarm_response(data)
    return data
