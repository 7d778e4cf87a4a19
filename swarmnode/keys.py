"""A node's private key on disk, and the peer id that follows from its public key.

Knows no home and no network. Invariants: a key file comes into being whole, for its owner alone
(0600), and is never overwritten; no text of ours ever holds a private key.
Source: libp2p's peer id specification (Ed25519 keys are inlined by the identity multihash).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from time import gmtime, strftime

HEADER = "# The private key of a swarmnode identity: whoever has it is you. Keep it to yourself."

_KEY_BYTES = 32
_PEER_ID_CHARACTERS = 52
_MOST_FILE_BYTES = 4096
_PUBLIC_KEY_PROTOBUF = bytes.fromhex("08011220")
"""Key type Ed25519 (field 1 = 1), then 32 bytes (field 2)."""
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


class KeyFileError(Exception):
    """A key file cannot be read or written; the text is one line that names the remedy."""


def peer_id_of(public_key: bytes) -> str:
    """The libp2p peer id of an Ed25519 public key: 52 characters that begin with 12D3KooW."""
    key = _PUBLIC_KEY_PROTOBUF + public_key
    return _base58(bytes([0x00, len(key)]) + key)


def _base58(data: bytes) -> str:
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, len(_BASE58))
        text = _BASE58[digit] + text
    zeros = len(data) - len(data.lstrip(b"\0"))
    return _BASE58[0] * zeros + text


def public_key_of_peer(peer_id: str) -> bytes:
    """The inverse of `peer_id_of`; empty for what is no peer id of such a key."""
    number = 0
    if len(peer_id) != _PEER_ID_CHARACTERS:
        return b""
    for character in peer_id:
        digit = _BASE58.find(character)
        if digit < 0:
            return b""
        number = number * 58 + digit
    data = number.to_bytes(_PEER_ID_CHARACTERS, "big")
    public_key = data[-_KEY_BYTES:]
    return public_key if peer_id_of(public_key) == peer_id else b""


def write_key(path: Path, private_key: bytes) -> None:
    """Put a key into a new file of mode 0600. Raises KeyFileError, also where a file is."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        _write_new(temporary, f"{HEADER}\n{private_key.hex()}\n")
        try:
            # A link, unlike a rename, fails where something is; unlike O_EXCL on the name itself,
            # it never shows half a key.
            os.link(temporary, path)
        finally:
            temporary.unlink()
        _sync_folder(path.parent)
    except FileExistsError as error:
        raise KeyFileError(
            f"{error.filename2 or error.filename} is there already and is not overwritten; choose "
            "another place, or move it away"
        ) from error
    except OSError as error:
        raise KeyFileError(f"{path} cannot be written: {error.strerror}") from error


def _write_new(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        os.fchmod(descriptor, 0o600)
        file.write(text)
        file.flush()
        os.fsync(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_key(path: Path) -> bytes:
    """The 32 bytes of a private key. Raises KeyFileError, also for a file that others may open."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            content = file.read(_MOST_FILE_BYTES)
    except OSError as error:
        raise KeyFileError(f"{path} cannot be read: {error.strerror}") from error
    if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise KeyFileError(
            f"{path} may be opened by others, so that the key in it may be known to them: take a "
            f"new one, or if you are sure that nobody has read it, chmod 600 {path}"
        )
    return _parsed(path, content)


def _parsed(path: Path, content: bytes) -> bytes:
    lines = [line for line in content.splitlines() if line.strip() and not line.startswith(b"#")]
    try:
        if len(lines) == 1 and len(key := bytes.fromhex(lines[0].decode())) == _KEY_BYTES:
            return key
    except ValueError:
        pass  # Its text could be most of a key: only the file is named.
    raise KeyFileError(f"{path} holds no swarmnode key: move it away, or restore it from a copy")


def load_or_create_key(path: Path) -> bytes:
    """The key at this place, drawn anew where there is none. Raises KeyFileError."""
    if not os.path.lexists(path):
        # Here, so that a command which only shows its help does not load cryptography.
        from swarmproto import generate_private_key

        write_key(path, generate_private_key())
    return read_key(path)


def replace_key(path: Path, private_key: bytes, now: float) -> Path | None:
    """Put another key into place and keep the old one beside it; where that is now.

    There is a key at every moment. `now` is in seconds since 1970. Raises KeyFileError.
    """
    if not os.path.lexists(path):
        write_key(path, private_key)
        return None
    aside = path.with_name(f"{path.name}.old-{strftime('%Y%m%dT%H%M%SZ', gmtime(now))}")
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        os.link(path, aside)
        _write_new(temporary, f"{HEADER}\n{private_key.hex()}\n")
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise KeyFileError(f"{path} cannot be replaced: {error.strerror}") from error
    return aside
