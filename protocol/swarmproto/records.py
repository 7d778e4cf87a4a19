"""The records of the wire: frozen values, checked when they are encoded and when decoded.

Constructing one checks nothing; the codec is where rules live. Knows no bytes but those that a
field is made of. Source: protocol/README.md.
"""

from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["stop", "length"]
FetchStatus = Literal["ok", "missing", "busy"]
OfferStatus = Literal["held", "full", "refused"]


@dataclass(frozen=True, slots=True)
class CompletionRecord:
    """One sampled answer.

    `logprobs` are the sampler's log-probabilities, little-endian float32, one per token (see
    `pack_logprobs`); `total_logprob` is their sum for senders that keep no more. At most one of
    the two is set. `length` means that the token limit cut the completion.
    """

    text: str
    finish_reason: FinishReason
    token_count: int
    logprobs: bytes | None = None
    total_logprob: float | None = None


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """The completions of one question by one policy: C(q) of swarm sampling.

    `question` and `answer` are for observers: a receiver regenerates both from the stream and
    `index`. `fingerprint` is the level's (see `fingerprint`), 32 bytes.
    """

    task: str
    level: str
    index: int
    fingerprint: bytes
    question: str
    answer: str
    completions: tuple[CompletionRecord, ...]


@dataclass(frozen=True, slots=True)
class PolicyLabel:
    """Which policy sampled a bundle; `version` counts its training steps.

    Equal `tokenizer_fingerprint` (32 bytes) means equal token ids for equal text.
    """

    name: str
    version: int
    tokenizer_fingerprint: bytes


@dataclass(frozen=True, slots=True)
class BundleHeader:
    """What a publisher signs for the groups of one round; `created` is unix milliseconds."""

    swarm_id: bytes
    public_key: bytes
    sequence: int
    created: int
    policy: PolicyLabel
    group_hashes: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Bundle:
    """A header with the bytes that were signed and the groups, in the order of their hashes."""

    header: BundleHeader
    header_bytes: bytes
    group_bytes: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class AnnouncedGroup:
    """What an announcement claims of one group; `claimed_successes` is nobody's proof."""

    task: str
    level: str
    claimed_successes: int
    completions: int


@dataclass(frozen=True, slots=True)
class AnnouncementDraft:
    """An announcement before it is signed.

    `instance` is 16 random bytes per home; `size` is the bundle's, in bytes; times are unix
    milliseconds; `holders` are addresses, the best first; `started` is when the publisher began.
    """

    instance: bytes
    bundle_id: bytes
    size: int
    groups: tuple[AnnouncedGroup, ...]
    policy_version: int
    created: int
    expires: int
    holders: tuple[str, ...]
    started: int | None = None


@dataclass(frozen=True, slots=True)
class Announcement:
    """A verified announcement; `encoded` are the bytes as received, the only ones to pass on."""

    swarm_id: bytes
    public_key: bytes
    instance: bytes
    bundle_id: bytes
    size: int
    groups: tuple[AnnouncedGroup, ...]
    policy_version: int
    created: int
    expires: int
    holders: tuple[str, ...]
    signature: bytes
    encoded: bytes
    started: int | None = None


@dataclass(frozen=True, slots=True)
class SwarmRules:
    """The rules whose hash is a public swarm's id.

    `tasks` are (task, level) pairs, sorted and distinct. The limits are at most the protocol's.
    """

    name: str
    tasks: tuple[tuple[str, str], ...]
    completions_min: int
    completions_max: int
    completion_tokens_max: int
    groups_per_bundle_max: int


@dataclass(frozen=True, slots=True)
class DiscoverRequest:
    """Asks for at most `count` fresh announcements."""

    swarm_id: bytes
    count: int


@dataclass(frozen=True, slots=True)
class DiscoverResponse:
    """Announcements as received; each is opened and judged on its own."""

    announcements: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """Asks for a header and the groups at `positions`, which ascend; none asks for the header."""

    swarm_id: bytes
    bundle_id: bytes
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """`header_bytes` is set exactly when `status` is ok; `groups` are (position, bytes) pairs."""

    status: FetchStatus
    header_bytes: bytes | None
    groups: tuple[tuple[int, bytes], ...]


@dataclass(frozen=True, slots=True)
class OfferRequest:
    """Hands a whole bundle and its announcement to a peer that can be dialled."""

    announcement: bytes
    header_bytes: bytes
    group_bytes: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class OfferResponse:
    """`until` is when the holder may drop the bundle, unix milliseconds; 0 unless held."""

    status: OfferStatus
    until: int


@dataclass(frozen=True, slots=True)
class SwarmRequest:
    """Asks for the swarm file of one swarm."""

    swarm_id: bytes


@dataclass(frozen=True, slots=True)
class SwarmResponse:
    """`rules` are the encoded rules, or none if the swarm is unknown to the peer."""

    rules: bytes | None
    bootstrap: tuple[str, ...]
