"""Keys and signatures beside the golden vectors."""

import random

import pytest

import swarmproto as wire
from swarmproto.signing import sign, verify

RFC_PRIVATE = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
RFC_PUBLIC = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")


def test_public_keys_are_those_of_rfc_8032() -> None:
    assert wire.public_key_of(RFC_PRIVATE) == RFC_PUBLIC


def test_generated_keys_differ_and_are_fit_for_use() -> None:
    keys = {wire.generate_private_key() for _ in range(20)}
    assert len(keys) == 20
    for key in keys:
        wire.check_public_key(wire.public_key_of(key))


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_private_key_has_32_bytes(length: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        wire.public_key_of(bytes(length))


def test_a_signature_holds_for_its_domain_and_parts_alone() -> None:
    signature = sign(RFC_PRIVATE, b"domain", b"one", b"two")
    verify(RFC_PUBLIC, signature, b"domain", b"one", b"two")
    for domain, parts in (
        (b"domains", (b"one", b"two")),
        (b"domain", (b"onet", b"wo")),
        (b"domain", (b"one", b"two", b"")),
    ):
        with pytest.raises(wire.WireError) as caught:
            verify(RFC_PUBLIC, signature, domain, *parts)
        assert caught.value.reason is wire.Reason.SIGNATURE


def test_every_flipped_bit_of_a_signature_is_refused() -> None:
    signature = sign(RFC_PRIVATE, b"domain", b"part")
    for bit in range(512):
        flipped = bytearray(signature)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(wire.WireError) as caught:
            verify(RFC_PUBLIC, bytes(flipped), b"domain", b"part")
        assert caught.value.reason is wire.Reason.SIGNATURE


def test_random_keys_and_signatures_raise_nothing_but_wire_errors() -> None:
    rng = random.Random(5)
    for _ in range(500):
        with pytest.raises(wire.WireError):
            verify(rng.randbytes(32), rng.randbytes(63) + b"\x00", b"domain")


def test_signatures_of_wrong_length_are_refused() -> None:
    for length in (0, 63, 65):
        with pytest.raises(wire.WireError) as caught:
            verify(RFC_PUBLIC, bytes([7]) * length, b"domain")
        assert caught.value.reason is wire.Reason.SIGNATURE
