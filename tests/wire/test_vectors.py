"""The codec against the golden vectors, and the vectors against the script that makes them."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import swarmproto as wire

FOLDER = Path(__file__).parents[2] / "protocol" / "vectors"


def _load(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return content


def _joined(parts: list[tuple[str, int]]) -> bytes:
    return b"".join(bytes.fromhex(piece) * count for piece, count in parts)


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    return value


HASHES = _load("hashes.json")
ENVELOPES = _load("envelopes.json")
SWARM_ID = bytes.fromhex(ENVELOPES["swarm_id"])
VECTORS = [
    vector
    for name in ("groups.json", "envelopes.json", "messages.json")
    for vector in _load(name)["vectors"]
]


@pytest.mark.parametrize(
    "vector", VECTORS, ids=[f"{vector['operation']}: {vector['name']}" for vector in VECTORS]
)
def test_a_golden_vector_gives_its_record_or_its_reason(vector: dict[str, Any]) -> None:
    operation = getattr(wire, vector["operation"])
    data = _joined(vector["input"])
    arguments = (data, SWARM_ID) if vector["operation"].startswith("open_") else (data,)
    if "reason" not in vector:
        assert _plain(operation(*arguments)) == vector["record"]
        return
    with pytest.raises(wire.WireError) as caught:
        operation(*arguments)
    assert caught.value.reason.value == vector["reason"]


@pytest.mark.parametrize("check", ENVELOPES["verify_group"])
def test_a_group_is_held_against_the_hash_at_its_position(check: dict[str, Any]) -> None:
    header = wire.open_header(bytes.fromhex(check["header"]), SWARM_ID)
    group = _joined(check["group"])
    if check["reason"] is None:
        wire.verify_group(header, check["position"], group)
        return
    with pytest.raises(wire.WireError) as caught:
        wire.verify_group(header, check["position"], group)
    assert caught.value.reason.value == check["reason"]


def test_every_reason_has_a_vector() -> None:
    reasons = {vector.get("reason") for vector in VECTORS}
    reasons |= {check["reason"] for check in ENVELOPES["verify_group"]}
    reasons |= {vector.get("reason") for vector in _load("sealing.json")["vectors"]}
    assert reasons - {None} == {reason.value for reason in wire.Reason}


def test_vector_names_are_unique_per_operation() -> None:
    names = [(vector["operation"], vector["name"]) for vector in VECTORS]
    assert len(names) == len(set(names))


def test_stream_seeds_are_those_of_the_vectors() -> None:
    for row in HASHES["streams"]:
        ids = bytes.fromhex(row["swarm_id"]), bytes.fromhex(row["public_key"])
        assert wire.stream_seed(*ids, row["task"], row["level"]) == int(row["seed"])
    last = HASHES["streams"][-1]
    assert wire.reference_seed(last["task"], last["level"]) == int(last["seed"])


def test_fingerprints_are_those_of_the_vectors() -> None:
    for row in HASHES["fingerprints"]:
        pairs = [(question, answer) for question, answer in row["pairs"]]
        assert wire.fingerprint(row["task"], row["level"], pairs).hex() == row["fingerprint"]


def test_held_out_questions_are_those_of_the_vectors() -> None:
    rows = HASHES["held_out"]
    assert [wire.is_held_out(row["task"], row["level"], row["text"]) for row in rows] == [
        row["held_out"] for row in rows
    ]
    assert {row["held_out"] for row in rows} == {True, False}


def test_ids_are_those_of_the_vectors() -> None:
    for row in HASHES["swarm_ids"]:
        rules = wire.decode_rules(bytes.fromhex(row["rules"]))
        assert wire.swarm_id(rules).hex() == row["swarm_id"]
    for row in HASHES["bundle_ids"]:
        assert wire.bundle_id(bytes.fromhex(row["header"])).hex() == row["bundle_id"]


def test_sequence_numbers_are_those_of_the_vectors() -> None:
    for row in HASHES["next_sequence"]:
        assert wire.next_sequence(row["last"], row["now"]) == row["next"]


def test_the_committed_vectors_are_what_the_script_makes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, FOLDER / "make.py", tmp_path], check=True, timeout=60)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_bytes() for path in FOLDER.glob("*.json")}
