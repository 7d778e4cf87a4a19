"""Messages behind their lengths, whatever the pieces are that they come in."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarmnode.network.length_prefixed import Messages

LIMIT = 70_000


def prefixed(message: bytes) -> bytes:
    length, varint = len(message), b""
    while length >= 0x80:
        varint += bytes([length & 0x7F | 0x80])
        length >>= 7
    return varint + bytes([length]) + message


@settings(deadline=None)
@given(
    messages=st.lists(st.binary(max_size=300), max_size=6),
    long=st.sampled_from([0, 127, 128, 16_383, 16_384, LIMIT]),
    piece=st.integers(1, 5_000),
)
def test_each_message_comes_once_and_whole(messages: list[bytes], long: int, piece: int) -> None:
    sent = [*messages, bytes(long)]
    stream, splitter = b"".join(map(prefixed, sent)), Messages(LIMIT)
    pieces = (stream[start : start + piece] for start in range(0, len(stream), piece))
    assert [each for data in pieces for each in splitter.whole(data)] == sent


@pytest.mark.parametrize("said", [prefixed(bytes(LIMIT + 1))[:10], b"\xff" * 5, b"\x80" * 9])
def test_a_length_beyond_the_limit_or_without_end_is_refused_at_once(said: bytes) -> None:
    with pytest.raises(ValueError, match=r"a message of|without end"):
        list(Messages(LIMIT).whole(said))


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_anything_is_messages_or_refused(said: bytes) -> None:
    splitter = Messages(50)
    with contextlib.suppress(ValueError):
        assert all(len(each) <= 50 for each in splitter.whole(said))
