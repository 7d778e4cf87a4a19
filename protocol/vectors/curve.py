"""Ed25519 in plain integers, for vectors that no honest library will sign.

Slow, not constant-time, never for real keys. Source: RFC 8032, section 5.1.
"""

import hashlib
from typing import Final

Point = tuple[int, int]

P: Final = 2**255 - 19
ORDER: Final = 2**252 + 27742317777372353535851937790883648493
_D: Final = -121665 * pow(121666, -1, P) % P
_ROOT_OF_MINUS_ONE: Final = pow(2, (P - 1) // 4, P)
IDENTITY: Final[Point] = (0, 1)


def x_of(y: int) -> int | None:
    """The even x of a point, or None where y is on no point."""
    square = (y * y - 1) * pow(_D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * _ROOT_OF_MINUS_ONE % P
    if x * x % P != square:
        return None
    return P - x if x % 2 else x


def _point(y: int) -> Point:
    x = x_of(y)
    if x is None:
        raise ValueError("not on the curve")
    return x, y


BASE: Final = _point(4 * pow(5, -1, P) % P)


def add(one: Point, other: Point) -> Point:
    """The complete addition law of the twisted Edwards curve."""
    (x1, y1), (x2, y2) = one, other
    product = _D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, P) % P
    y = (y1 * y2 + x1 * x2) * pow(1 - product, -1, P) % P
    return x, y


def times(scalar: int, point: Point) -> Point:
    """Double and add."""
    result = IDENTITY
    while scalar:
        if scalar & 1:
            result = add(result, point)
        point = add(point, point)
        scalar >>= 1
    return result


def order_eight() -> Point:
    """A point of order 8: what the prime order leaves of any point that is not in its subgroup."""
    y = 2
    while True:
        if x_of(y) is not None:
            candidate = times(ORDER, _point(y))
            if times(4, candidate) != IDENTITY:
                return candidate
        y += 1


def encoded(point: Point) -> bytes:
    """32 bytes, canonical."""
    x, y = point
    return (y | (x % 2) << 255).to_bytes(32, "little")


def secret_scalar(private_key: bytes) -> int:
    """The scalar a of RFC 8032, section 5.1.5."""
    digest = bytearray(hashlib.sha512(private_key).digest()[:32])
    digest[0] &= 0xF8
    digest[31] = digest[31] & 0x7F | 0x40
    return int.from_bytes(digest, "little")


def challenge(r: bytes, public_key: bytes, message: bytes) -> int:
    """k of RFC 8032, section 5.1.6, reduced."""
    return int.from_bytes(hashlib.sha512(r + public_key + message).digest(), "little") % ORDER


def forged(r: int, r_bytes: bytes, scalar: int, public_key: bytes, message: bytes) -> bytes:
    """A signature with a chosen R = r B (or what `r_bytes` makes of it): S = r + k a."""
    s = (r + challenge(r_bytes, public_key, message) * scalar) % ORDER
    return r_bytes + s.to_bytes(32, "little")
