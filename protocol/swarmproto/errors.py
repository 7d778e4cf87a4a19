"""The one error of the wire and its machine-readable reasons.

Knows nothing of records. Invariant: whatever bytes are given to a decoding function of this
package, it returns a record or raises exactly WireError. The reasons are part of the
specification (protocol/README.md, section 9): receivers count by them.
"""

from enum import StrEnum
from typing import Final, final


class Reason(StrEnum):
    """Why bytes or a record were refused; the values are the names in the golden vectors."""

    OVERSIZE = "oversize"
    TRUNCATED = "truncated"
    TRAILING = "trailing"
    MALFORMED = "malformed"
    DEPTH = "depth"
    NODES = "nodes"
    EXTENSION = "extension"
    NONFINITE = "nonfinite"
    KEY_TYPE = "key_type"
    DUPLICATE_KEY = "duplicate_key"
    UTF8 = "utf8"
    MAGIC = "magic"
    VERSION = "version"
    FOREIGN_SWARM = "foreign_swarm"
    PUBLIC_KEY = "public_key"
    SIGNATURE = "signature"
    SEAL = "seal"
    HASH = "hash"
    MISSING_FIELD = "missing_field"
    UNKNOWN_FIELD = "unknown_field"
    WRONG_TYPE = "wrong_type"
    RANGE = "range"
    TEXT = "text"
    CONFLICT = "conflict"
    NONCANONICAL = "noncanonical"


@final
class WireError(Exception):
    """Bytes that break the specification, or a record that could not be sent under it.

    `detail` is written by us alone and never quotes what a peer sent, so it may be logged.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason.value}: {detail}")
        self.reason: Final = reason
        self.detail: Final = detail
