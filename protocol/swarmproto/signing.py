"""Ed25519, strictly: what one implementation accepts, all do.

Knows keys, signatures and domains, no record. OpenSSL verifies by the equation without cofactor
and refuses S >= L; what it tolerates beyond RFC 8032 (encodings of y >= p, keys and R of small
order) is refused here first. Source: RFC 8032 section 5.1; protocol/README.md, section 5.
"""

from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from swarmproto.errors import Reason, WireError
from swarmproto.limits import PRIVATE_KEY_BYTES, PUBLIC_KEY_BYTES, SIGNATURE_BYTES
from swarmproto.streams import framed

FIELD_PRIME: Final = 2**255 - 19
GROUP_ORDER: Final = 2**252 + 27742317777372353535851937790883648493
_Y_OF_ORDER_EIGHT: Final = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_SMALL_ORDER_Y: Final = frozenset(
    {0, 1, FIELD_PRIME - 1, _Y_OF_ORDER_EIGHT, FIELD_PRIME - _Y_OF_ORDER_EIGHT}
)


def generate_private_key() -> bytes:
    """32 bytes from the operating system: the seed of RFC 8032, section 5.1.5."""
    return Ed25519PrivateKey.generate().private_bytes_raw()


def public_key_of(private_key: bytes) -> bytes:
    """32 bytes; raises ValueError unless the private key has 32."""
    return _loaded(private_key).public_key().public_bytes_raw()


def _loaded(private_key: bytes) -> Ed25519PrivateKey:
    if len(private_key) != PRIVATE_KEY_BYTES:
        raise ValueError("a private key has 32 bytes")
    return Ed25519PrivateKey.from_private_bytes(private_key)


def sign(private_key: bytes, domain: bytes, *parts: bytes) -> bytes:
    """64 bytes over the framed domain and parts."""
    return _loaded(private_key).sign(framed(domain, *parts))


def _is_weak_point(encoded: bytes) -> bool:
    """Whether a point is not canonically encoded or has small order.

    x = 0 with the sign bit set is not canonical either; y is then 1 or p - 1, of small order.
    """
    y = int.from_bytes(encoded, "little") & (2**255 - 1)
    return y >= FIELD_PRIME or y in _SMALL_ORDER_Y


def check_public_key(public_key: bytes) -> None:
    """Raises WireError(public_key) for a key of wrong length, encoding or order."""
    if len(public_key) != PUBLIC_KEY_BYTES or _is_weak_point(public_key):
        raise WireError(Reason.PUBLIC_KEY, "a key that is not canonical or of small order")


def verify(public_key: bytes, signature: bytes, domain: bytes, *parts: bytes) -> None:
    """Raises WireError: public_key for a key as such, signature for everything else."""
    check_public_key(public_key)
    if len(signature) != SIGNATURE_BYTES or _is_weak_point(signature[:32]):
        raise WireError(Reason.SIGNATURE, "R is not canonical or of small order")
    if int.from_bytes(signature[32:], "little") >= GROUP_ORDER:
        raise WireError(Reason.SIGNATURE, "S is not canonical")
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, framed(domain, *parts))
    except (InvalidSignature, ValueError):
        raise WireError(Reason.SIGNATURE, "the signature doesn't verify") from None
