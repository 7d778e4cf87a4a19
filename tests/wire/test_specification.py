"""A second implementation, written from protocol/README.md alone, reads the golden vectors.

It imports nothing of swarmproto. It is as strict as reading valid bytes needs, no more.
"""

import hashlib
import hmac
import json
import re
import struct
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

PROTOCOL = Path(__file__).parents[2] / "protocol"
HASHES = json.loads((PROTOCOL / "vectors" / "hashes.json").read_text())
ENVELOPES = json.loads((PROTOCOL / "vectors" / "envelopes.json").read_text())
SEALING = json.loads((PROTOCOL / "vectors" / "sealing.json").read_text())
WIDTHS = {
    0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4,
}  # fmt: skip
NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip


class Reader:
    """msgpack, recursively."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        piece = self.data[self.at : self.at + count]
        assert len(piece) == count
        self.at += count
        return piece

    def sized(self, tag: int) -> tuple[str, int]:
        if tag <= 0xBF:
            kind = {0x8: "map", 0x9: "array"}.get(tag >> 4, "text")
            return kind, tag & (0x1F if kind == "text" else 0x0F)
        kind = "binary" if tag <= 0xC6 else "text" if tag <= 0xDB else "array"
        return "map" if tag >= 0xDE else kind, int.from_bytes(self.take(WIDTHS[tag]), "big")

    def value(self) -> Any:
        tag = self.take(1)[0]
        if tag <= 0x7F or tag >= 0xE0:
            return tag if tag <= 0x7F else tag - 256
        if tag in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[tag]
        if tag in NUMBERS:
            form = NUMBERS[tag]
            return struct.unpack(form, self.take(struct.calcsize(form)))[0]
        kind, length = self.sized(tag)
        if kind == "map":
            return {self.value(): self.value() for _ in range(length)}
        if kind == "array":
            return [self.value() for _ in range(length)]
        return self.take(length) if kind == "binary" else self.take(length).decode()


def unpacked(data: bytes) -> Any:
    reader = Reader(data)
    value = reader.value()
    assert reader.at == len(data)
    return value


def framed(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def opened(data: bytes, magic: bytes, domain: str) -> dict[str, Any]:
    assert data[:5] == magic + b"\x01"
    assert data[5:37].hex() == ENVELOPES["swarm_id"]
    key, signature, body = data[37:69], data[69:133], data[133:]
    signed = framed(domain.encode(), data[:69], body)
    Ed25519PublicKey.from_public_bytes(key).verify(signature, signed)
    fields: dict[str, Any] = unpacked(body)
    return fields


def vector(name: str, operation: str, file: str) -> tuple[bytes, dict[str, Any]]:
    for candidate in json.loads((PROTOCOL / "vectors" / file).read_text())["vectors"]:
        if (candidate["name"], candidate["operation"]) == (name, operation):
            data = b"".join(bytes.fromhex(piece) * count for piece, count in candidate["input"])
            return data, candidate["record"]
    raise AssertionError(name)


def test_a_header_is_read_from_the_specification_alone() -> None:
    data, record = vector("two groups", "open_header", "envelopes.json")
    fields = opened(data, b"SWNB", "swarmnode/1/bundle-header")
    assert [item.hex() for item in fields["groups"]] == record["group_hashes"]
    assert (fields["sequence"], fields["created"]) == (record["sequence"], record["created"])
    assert fields["policy"]["name"] == record["policy"]["name"]
    assert fields["policy"]["version"] == record["policy"]["version"]
    assert fields["policy"]["tokenizer"].hex() == record["policy"]["tokenizer_fingerprint"]
    group, _ = vector("plain", "decode_group", "groups.json")
    assert hashlib.sha256(group).hexdigest() == record["group_hashes"][0]
    assert hashlib.sha256(data).hexdigest() == HASHES["bundle_ids"][0]["bundle_id"]


def test_an_announcement_is_read_from_the_specification_alone() -> None:
    data, record = vector("two groups", "open_announcement", "envelopes.json")
    fields = opened(data, b"SWNA", "swarmnode/1/announcement")
    rows = [fields["groups"][start : start + 3] for start in range(0, len(fields["groups"]), 3)]
    assert [
        {
            "task": fields["tasks"][row][0],
            "level": fields["tasks"][row][1],
            "claimed_successes": successes,
            "completions": completions,
        }
        for row, successes, completions in rows
    ] == record["groups"]
    assert fields["bundle"].hex() == record["bundle_id"]
    assert fields["holders"] == record["holders"]
    assert fields["expires"] - fields["created"] == 300_000


def test_a_group_is_read_from_the_specification_alone() -> None:
    data, record = vector("rich", "decode_group", "groups.json")
    fields = unpacked(data)
    for key in ("task", "level", "index", "question", "answer"):
        assert fields[key] == record[key]
    assert fields["fingerprint"].hex() == record["fingerprint"]
    for mine, theirs in zip(fields["completions"], record["completions"], strict=True):
        assert mine["text"] == theirs["text"]
        assert (mine["finish"], mine["tokens"]) == (theirs["finish_reason"], theirs["token_count"])
        assert mine.get("total") == theirs["total_logprob"]
        logprobs = mine.get("logprobs")
        assert (None if logprobs is None else logprobs.hex()) == theirs["logprobs"]
    assert struct.unpack("<2f", fields["completions"][0]["logprobs"]) == (-0.5, -2.25)


def test_hashes_follow_from_the_specification_alone() -> None:
    for row in HASHES["framed"]:
        assert framed(*map(bytes.fromhex, row["parts"])).hex() == row["bytes"]
    for row in HASHES["streams"]:
        ids = bytes.fromhex(row["swarm_id"]), bytes.fromhex(row["public_key"])
        names = row["task"].encode(), row["level"].encode()
        digest = hashlib.sha256(framed(b"swarmnode/1/question-stream", *ids, *names)).digest()
        assert int(row["seed"]) == int.from_bytes(digest, "big") >> 193
    for row in HASHES["held_out"]:
        texts = (row[key].encode() for key in ("task", "level", "text"))
        digest = hashlib.sha256(framed(b"swarmnode/1/held-out", *texts)).digest()
        assert row["held_out"] == (int.from_bytes(digest, "big") % 10 == 0)
    for row in HASHES["fingerprints"]:
        texts = (text.encode() for pair in row["pairs"] for text in pair)
        names = row["task"].encode(), row["level"].encode()
        parts = framed(b"swarmnode/1/fingerprint", *names, *texts)
        assert row["fingerprint"] == hashlib.sha256(parts).hexdigest()
    for row in HASHES["swarm_ids"]:
        parts = framed(b"swarmnode/1/swarm-rules", bytes.fromhex(row["rules"]))
        assert row["swarm_id"] == hashlib.sha256(parts).hexdigest()


def derived(name: str, *parts: bytes) -> bytes:
    key = hmac.digest(bytes(32), bytes.fromhex(SEALING["swarm_key"]), "sha256")
    info = framed(f"swarmnode/1/private/{name}".encode(), *parts)
    return hmac.digest(key, info + b"\x01", "sha256")


def unsealed(name: str, parts: list[bytes], answered: list[bytes], sealed: bytes) -> bytes | None:
    bound = framed(f"swarmnode/1/private/{name}".encode(), *parts, *answered)
    try:
        return ChaCha20Poly1305(derived(name, *parts)).decrypt(sealed[:12], sealed[12:], bound)
    except (InvalidTag, ValueError):
        return None


def test_a_private_swarm_is_read_from_the_specification_alone() -> None:
    commitment = derived("commitment")
    rules = bytes.fromhex(SEALING["rules"])
    parts = framed(b"swarmnode/1/private-swarm-rules", rules, commitment)
    assert hashlib.sha256(parts).hexdigest() == SEALING["swarm_id"]
    for row in SEALING["places"]:
        assert derived("place", row["key"].encode()).hex() == row["place"]
    for row in SEALING["subkeys"]:
        place_id = bytes.fromhex(row["place_id"])
        assert derived("subkey", place_id, row["public"].encode()).hex() == row["subkey"]
    for row in SEALING["vectors"]:
        sealed = b"".join(bytes.fromhex(piece) * count for piece, count in row["input"])
        name = row["operation"].removeprefix("open_")
        arguments = [
            bytes.fromhex(each["hex"]) if isinstance(each, dict) else each.encode()
            for each in row["arguments"]
        ]
        answered = [hashlib.sha256(arguments.pop()).digest()] if name == "response" else []
        plain = unsealed(name, arguments, answered, sealed)
        assert (None if plain is None else plain.hex()) == row.get("plain"), row["name"]


def test_the_worked_example_is_that_of_the_vectors() -> None:
    blocks = re.findall(r"```hex\n(.*?)```", (PROTOCOL / "README.md").read_text(), re.DOTALL)
    # A remark is what stands behind three blanks, once the indentation is gone.
    lines = [[line.strip().split("   ")[0] for line in block.splitlines()] for block in blocks]
    shown = ["".join("".join(block).split()) for block in lines]
    written = {
        HASHES["swarm_ids"][0]["rules"],
        HASHES["swarm_ids"][0]["swarm_id"],
        vector("plain", "decode_group", "groups.json")[0].hex(),
        HASHES["bundle_ids"][0]["header"],
        HASHES["bundle_ids"][0]["bundle_id"],
        vector("two groups", "open_announcement", "envelopes.json")[0].hex(),
    }
    assert len(shown) == 6
    assert set(shown) == written


def test_the_specification_names_every_reason_of_the_vectors() -> None:
    text = (PROTOCOL / "README.md").read_text()
    for file in ("groups.json", "envelopes.json", "messages.json", "sealing.json"):
        for row in json.loads((PROTOCOL / "vectors" / file).read_text())["vectors"]:
            assert "reason" not in row or f"`{row['reason']}`" in text
