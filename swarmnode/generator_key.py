"""The key that a node and its generators on other machines share, and TLS by it.

A file with an Ed25519 key and a certificate that it signed itself: both sides show it, and take no
other, so that whoever has the file may join and nobody else can read, forge or begin a request. TLS
1.3 alone. Knows no model and no node.
"""

from __future__ import annotations

import datetime
import os
import ssl
import stat
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

_NAME = "swarmnode generators"
# Clocks of two machines need not agree.
_FROM, _UNTIL = datetime.datetime(2000, 1, 1), datetime.datetime(9999, 12, 31)
_MOST_FILE_BYTES = 16 * 1024


class GeneratorKeyError(Exception):
    """The key file cannot be used; the text is one line."""


def make_key(path: Path) -> None:
    """Write a new one, mode 0600, unless there is a file. Raises GeneratorKeyError."""
    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, None)
    )
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    text += made.public_bytes(serialization.Encoding.PEM)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
    except FileExistsError:
        return
    except OSError as error:
        raise GeneratorKeyError(f"{path} cannot be written: {error.strerror}") from error


def tls_by(path: Path, *, serves: bool) -> ssl.SSLContext:
    """TLS in which both sides show this key. Raises GeneratorKeyError, also for a file that others
    may open."""
    text = _read(path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if serves else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Who it is follows from the key; machines have many names.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        certificate = x509.load_pem_x509_certificate(text)
        context.load_verify_locations(
            cadata=certificate.public_bytes(serialization.Encoding.PEM).decode()
        )
        context.load_cert_chain(path)
    except (ValueError, ssl.SSLError) as error:
        raise GeneratorKeyError(
            f"{path} holds no generators' key: take the file that the node has written"
        ) from error
    return context


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            content = file.read(_MOST_FILE_BYTES)
    except OSError as error:
        raise GeneratorKeyError(f"{path} cannot be read: {error.strerror}") from error
    if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise GeneratorKeyError(
            f"{path} may be opened by others, who could join with the key in it: remove it for a "
            f"new one, or if you are sure that nobody has read it, chmod 600 {path}"
        )
    return content
