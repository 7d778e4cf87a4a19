"""GossipSub's messages as bytes: made, signed, verified and named.

A message is named by its publisher's peer id and its number, as Go names them. Publishers have
Ed25519 keys, which stand in their ids; others are nobody's of a swarm.
Source: libp2p/specs, pubsub/README.md (signing) and pubsub/gossipsub.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from swarmnode.network.light_libp2p import GossipMessages, length_prefixed
from swarmproto import WireError, check_public_key

DATA_BYTES_MAX: Final = 2048
"""Of one message: more than any announcement has, sealed or not."""
MESSAGE_BYTES_MAX: Final = DATA_BYTES_MAX + 512
NUMBER_BYTES: Final = 8
_ED25519_ID: Final = bytes.fromhex("002408011220")
"""What precedes the key in the peer id of an Ed25519 key, as in libp2p/specs, peer-ids."""
NAME_BYTES: Final = len(_ED25519_ID) + 32 + NUMBER_BYTES
_SIGNED: Final = b"libp2p-pubsub:"


class Signer:
    """Signs our own messages; their numbers go on over restarts, since they count nanoseconds."""

    def __init__(self, private_key: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(private_key)
        self._publisher = _ED25519_ID + self._key.public_key().public_bytes_raw()
        self._number = time.time_ns()

    def message(self, topic: str, data: bytes) -> Any:
        """A message of ours."""
        self._number += 1
        made = GossipMessages.Message(
            from_id=self._publisher,
            data=data,
            seqno=self._number.to_bytes(NUMBER_BYTES),
            topicIDs=[topic],
        )
        made.signature = self._key.sign(_SIGNED + made.SerializeToString(deterministic=True))
        return made


def name_of(message: Any) -> bytes | None:
    """Its name; None for one that can't be an announcement, whatever its signature."""
    fits = (
        len(message.topicIDs) == 1
        and message.from_id.startswith(_ED25519_ID)
        and len(message.from_id) + len(message.seqno) == NAME_BYTES
        and len(message.data) <= DATA_BYTES_MAX
        and message.ByteSize() <= MESSAGE_BYTES_MAX
    )
    return bytes(message.from_id + message.seqno) if fits else None


def is_its_publishers(message: Any) -> bool:
    """Whether the publisher has signed it; the message has a name.

    A key of small order is nobody's: whatever is said would be signed by it.
    """
    signed = GossipMessages.Message(
        from_id=message.from_id,
        data=message.data,
        seqno=message.seqno,
        topicIDs=message.topicIDs,
    )
    key = message.from_id[len(_ED25519_ID) :]
    try:
        check_public_key(key)
        Ed25519PublicKey.from_public_bytes(key).verify(
            message.signature, _SIGNED + signed.SerializeToString(deterministic=True)
        )
    except (InvalidSignature, ValueError, WireError):
        return False
    return True


def framed(**fields: Any) -> bytes:
    """An RPC with its length before it."""
    return bytes(length_prefixed(GossipMessages.RPC(**fields).SerializeToString()))


def subscriptions(topics: Sequence[str], *, on: bool) -> bytes:
    """That we listen to topics, or don't."""
    listed = [GossipMessages.RPC.SubOpts(subscribe=on, topicid=topic) for topic in topics]
    return framed(subscriptions=listed)


def graft(topic: str) -> bytes:
    """Asks a peer to be a member of our mesh."""
    return _control(graft=[GossipMessages.ControlGraft(topicID=topic)])


def prune(topic: str, rest_seconds: float) -> bytes:
    """Tells a peer that it is no member of our mesh, and when it may ask to be."""
    pruned = GossipMessages.ControlPrune(topicID=topic, backoff=int(rest_seconds))
    return _control(prune=[pruned])


def have(topic: str, names: Sequence[bytes]) -> bytes:
    """Names of messages that a peer may ask us for."""
    return _control(ihave=[GossipMessages.ControlIHave(topicID=topic, messageIDs=names)])


def want(names: Sequence[bytes], at_once: int) -> Iterator[bytes]:
    """Ask a peer for messages, so many in each of these."""
    for start in range(0, len(names), at_once):
        wanted = GossipMessages.ControlIWant(messageIDs=names[start : start + at_once])
        yield _control(iwant=[wanted])


def _control(**fields: Any) -> bytes:
    return framed(control=GossipMessages.ControlMessage(**fields))
