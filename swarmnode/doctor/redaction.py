"""What may leave a machine in a bundle for others: pure, from text to text without secrets.

Takes out what is known to be secret, word for word, and what has the form of something private:
keys, tokens, addresses, paths that name a user. Peers and keys become names that stay the same
within one bundle, so that what belongs together still does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

LEAST_SECRET = 6
"""Characters; what is shorter would be found in any text."""

_PEM = re.compile(r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)", re.DOTALL)
_TOKEN = re.compile(
    r"(?i)\b(?:hf_|sk-|ghp_|github_pat_|wandb_v1_|xox[a-z]-)[\w-]{8,}"
    r"|\b(?:bearer|basic) +[\w.~+/=-]{8,}"
    r"|\b[\w-]*(?:token|secret|password|passwd|api_?key|private_?key)[\w-]*[\"']? *[=:] *[\"']?"
    r"[^\s\"',}]{4,}"
)
_USER_IN_URL = re.compile(r"(?<=://)[^/\s@]+@")
_SECRET_PATH = re.compile(r"(https?://[^/\s]+)/[\w-]{24}(?=/)")
_PEER = re.compile(r"\b(?:12D3KooW|Qm)[1-9A-HJ-NP-Za-km-z]{8,}")
_MULTIADDR = re.compile(r"/(?:ip4|ip6|dns|dns4|dns6|dnsaddr)/[^\s\"',\]]+")
_IP4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")
_IP6 = re.compile(
    r"(?<![\w:])(?=[0-9a-fA-F:]*::|(?:[0-9a-fA-F]{1,4}:){7})[0-9a-fA-F:]{2,}(?:%\w+)?(?![\w:])"
)
_HEX = re.compile(r"\b[0-9a-fA-F]{16,}\b")
_HOME = re.compile(r"(?<![\w.])/(?:home|Users)/[^/\s\"':,]+|(?<![\w./])/root(?=/|\b)")
_OF_NOBODY = ("127.0.0.1", "0.0.0.0", "::1", "::")


class Redaction:
    """Takes out of texts what others must not know; the same thing gets the same name."""

    def __init__(self, secrets: Iterable[str], private: Mapping[str, str]) -> None:
        """`secrets` are taken out word for word; `private` are words with what stands for them."""
        known = {each for each in secrets if len(each) >= LEAST_SECRET}
        self._secrets = sorted(known, key=len, reverse=True)
        self._private = sorted(private.items(), key=lambda each: len(each[0]), reverse=True)
        self._names: dict[str, str] = {}

    def text(self, text: str) -> str:
        """The text as others may read it."""
        for secret in self._secrets:
            text = text.replace(secret, "[secret]")
        text = _PEM.sub("[secret]", text)
        text = _TOKEN.sub("[secret]", text)
        text = _USER_IN_URL.sub("", text)
        text = _SECRET_PATH.sub(r"\1/[secret]", text)
        text = _MULTIADDR.sub(self._multiaddr, text)
        text = _PEER.sub(lambda found: self._name("peer", found[0]), text)
        text = _HEX.sub(lambda found: self._name("hex", found[0].lower()), text)
        for word, standing in self._private:
            text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", standing, text)
        text = _HOME.sub("~", text)
        text = _IP4.sub(self._address, text)
        return _IP6.sub(self._address, text)

    def values(self, value: Any) -> Any:
        """The same of every text in a JSON value, names of fields included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self._field(str(key), each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.values(each) for each in value]
        return value

    def _field(self, key: str, value: Any) -> Any:
        named = re.search(r"(?i)token(?!s|izer|_c)|secret|password|private_?key|(?:^|_)key$", key)
        return "[secret]" if named and isinstance(value, str) and value else self.values(value)

    def _multiaddr(self, found: re.Match[str]) -> str:
        if re.match(r"/ip4/127\.|/ip6/::1/|/ip4/0\.0\.0\.0/|/ip6/::/", found[0]):
            return _PEER.sub(lambda peer: self._name("peer", peer[0]), found[0])
        peer = _PEER.search(found[0])
        return "[address]" + (f"/p2p/{self._name('peer', peer[0])}" if peer else "")

    def _address(self, found: re.Match[str]) -> str:
        return found[0] if found[0] in _OF_NOBODY else "[address]"

    def _name(self, kind: str, thing: str) -> str:
        return self._names.setdefault(thing, f"[{kind}-{len(self._names) + 1}]")
