"""Who may read the page: pure, from a request's headers and path to a refusal or none.

A browser sends requests for whatever page it shows, and programs of other users reach loopback too.
So the path has to begin with a secret that only the node's user can read (in Jupyter's and
bitcoin's manner; in the path, because a cookie goes to every port of a host), the Host must be one
that no foreign name can stand for (DNS rebinding), and a request that another page makes is refused
by Origin and Sec-Fetch-Site. Nothing here changes anything, so that GET and HEAD are all there is.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Collection, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

METRICS_PATH = "/metrics"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""With every answer."""


class Refusal(NamedTuple):
    """Why a request is not answered."""

    status: int
    text: str


READING = ("GET", "HEAD")
ONLY_READING = Refusal(405, "Only GET: nothing can be changed here.\n")
OPEN_IT_ANEW = "Open the address that `swarmnode status` shows.\n"


def refusal(
    method: str,
    path: str,
    headers: Mapping[str, str],
    *,
    secret: str,
    metrics_secret: str,
    hosts: Collection[str],
) -> Refusal | None:
    """None where the request may be answered; header names are lower-case.

    Programs that know the secret of the metrics may read these and nothing else.
    """
    if method not in READING:
        return ONLY_READING
    host = headers.get("host", "")
    if not known_host(host, hosts):
        return Refusal(421, "This host name is not in the setting dashboard.hosts.\n")
    if _foreign(headers, host):
        return Refusal(403, "Not for other pages.\n")
    if path == METRICS_PATH and (_bearer(headers, secret) or _bearer(headers, metrics_secret)):
        return None
    first = path.lstrip("/").partition("/")[0]
    if not _equal(first, secret):
        return Refusal(403, OPEN_IT_ANEW)
    return None


def metrics_refusal(
    method: str, path: str, headers: Mapping[str, str], *, secret: str
) -> Refusal | None:
    """The same where there are metrics alone; no page and no link leads there with the secret."""
    if method not in READING:
        return ONLY_READING
    if not _bearer(headers, secret):
        return Refusal(401, "Authorization: Bearer, with what is in the file metrics-secret.\n")
    return None if path == METRICS_PATH else Refusal(404, f"There is {METRICS_PATH} alone.\n")


def known_host(host: str, hosts: Collection[str]) -> bool:
    """Whether a Host header is an IP address, localhost, or one of `hosts`, at any port."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name == "localhost" or name in {each.lower() for each in hosts}:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _foreign(headers: Mapping[str, str], host: str) -> bool:
    """Whether another page's script, form or element asks; a link that was followed may."""
    origin = headers.get("origin")
    if origin is not None and origin.lower() not in (
        f"http://{host}".lower(),
        f"https://{host}".lower(),
    ):
        return True
    followed = headers.get("sec-fetch-mode") == "navigate" and (
        headers.get("sec-fetch-dest") == "document"
    )
    return headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not followed


def _bearer(headers: Mapping[str, str], secret: str) -> bool:
    kind, _, given = headers.get("authorization", "").partition(" ")
    return kind.lower() == "bearer" and _equal(given.strip(), secret)


def _equal(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), secret.encode())
