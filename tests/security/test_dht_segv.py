"""The nested record that ends any hivemind node: by store, by answer to a search; ours live on.

hivemind decodes a tuple by calling its decoder again, in C, once a level: 8 MiB of stack are gone
before 200 levels. Source: security.md section 0.2.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgpack
import pytest

from swarmnode.network.dht_records import key_id
from swarmnode.network.hivemind_dht import HivemindPeer
from swarmnode.network.light_hivemind import (
    CONNECTION_ERRORS,
    DEPTH_MAX,
    DICTIONARY_RECORDS_MAX,
    DictionaryDHTValue,
    MSGPackSerializer,
    dht_messages,
    load_value,
)
from swarmnode.network.p2pd import Daemon
from tests.unit.dht_support import order, peers, record, run

DICTIONARY_TAG = b""
TUPLE = 0x40
DICTIONARY = 0x50
LEVELS = (250, 3000)

UNPATCHED = """
import importlib.util, sys
import swarmnode.network.light_hivemind as light
spec = importlib.util.find_spec("hivemind.utils.serializer")
original = importlib.util.module_from_spec(spec)
spec.loader.exec_module(original)
decode = {"original": original.MSGPackSerializer.loads, "limited": light.load_value}[sys.argv[1]]
try:
    decode(bytes.fromhex(sys.stdin.read()))
except ValueError:
    print("refused")
"""


def nested(levels: int) -> bytes:
    """A tuple in a tuple in a tuple."""
    inner: bytes = msgpack.packb([])
    for _ in range(levels):
        inner = msgpack.packb([msgpack.ExtType(TUPLE, inner)])
    packed: bytes = msgpack.packb(msgpack.ExtType(TUPLE, inner))
    return packed


def nested_dictionary(levels: int) -> bytes:
    """The same as the subkey in a dictionary."""
    items = [[msgpack.ExtType(TUPLE, nested(levels)), b"", time.time() + 60]]
    packed: bytes = msgpack.packb(
        msgpack.ExtType(DICTIONARY, msgpack.packb([16, time.time() + 60, items]))
    )
    return packed


CRAFTED = [nested(levels) for levels in LEVELS] + [nested_dictionary(levels) for levels in LEVELS]


def decode_in_a_process(which: str, levels: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", UNPATCHED, which],
        input=nested(levels).hex(),
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="measured with the stack of Linux, 8 MiB")
def test_the_decoder_of_hivemind_ends_the_process_and_ours_refuses() -> None:
    assert decode_in_a_process("original", 3000).returncode == -signal.SIGSEGV
    refused = decode_in_a_process("limited", 3000)
    assert (refused.returncode, refused.stdout) == (0, "refused\n")


@pytest.mark.parametrize("data", CRAFTED)
def test_what_is_nested_too_deep_is_refused_whichever_way_hivemind_decodes_it(data: bytes) -> None:
    for decode in (load_value, MSGPackSerializer.loads):
        with pytest.raises(ValueError, match=r"deep|limit|exceeds|extension|unpack"):
            decode(data)


def test_tuples_are_read_down_to_the_limit_and_no_deeper() -> None:
    value: Any = ()
    for _ in range(DEPTH_MAX - 1):
        value = (value,)
    assert load_value(MSGPackSerializer.dumps(value)) == value
    with pytest.raises(ValueError, match="deep"):
        load_value(MSGPackSerializer.dumps((value,)))


def test_a_dictionary_is_bounded_and_believed_nothing_but_its_records() -> None:
    def packed(items: list[Any], latest: float = 1e300) -> bytes:
        data: bytes = msgpack.packb(msgpack.ExtType(DICTIONARY, msgpack.packb([0, latest, items])))
        return data

    now = time.time()
    good = load_value(packed([["a", b"1", now + 5.0]]))
    assert isinstance(good, DictionaryDHTValue)
    assert good.latest_expiration_time == now + 5.0
    full = [[str(number), b"", now + 5.0] for number in range(DICTIONARY_RECORDS_MAX + 1)]
    assert len(load_value(packed(full[:-1])).data) == DICTIONARY_RECORDS_MAX
    for items in (
        full,
        [["a", b"1", True]],
        [["a", "text", now]],
        [[b"a", b"1", now]],
        [["a", {}, now]],
        [["a", bytes(3000), now]],
        [["a", b"1"]],
        ["a"],
    ):
        with pytest.raises((ValueError, TypeError)):
            load_value(packed(items))
    with pytest.raises(ValueError, match="too many bytes"):
        load_value(bytes(10**6))
    with pytest.raises(ValueError, match="extension"):
        load_value(msgpack.packb(msgpack.ExtType(0x51, b"")))


async def works(peer: HivemindPeer, other: HivemindPeer, number: int) -> None:
    """A round trip through both."""
    key, subkey, value, expires = record(number)
    assert await other.store(key, subkey, value, expires) == 2
    assert (await peer.get([key]))[key][subkey] == value
    assert not peer.died.is_set()


def test_the_crafted_record_is_refused_by_store_and_the_node_stays_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        orders = [order(number, tmp_path) for number in (1, 2, 3)]
        async with peers(*orders) as (victim, second, attacker):
            assert await attacker.connect(second.addresses[0])
            p2p = attacker._daemon.p2p
            key, subkey, value, expires = record(1)
            good_subkey, good_value = (
                MSGPackSerializer.dumps(subkey),
                MSGPackSerializer.dumps(value),
            )
            rows = [(DICTIONARY_TAG, data) for data in CRAFTED]
            rows += [(good_subkey, data) for data in CRAFTED]
            rows += [(data, good_value) for data in CRAFTED]
            rows += [(MSGPackSerializer.dumps(None), good_value)]  # a value without a subkey
            for number, (tag, data) in enumerate(rows):
                request = dht_messages.StoreRequest(
                    keys=[key_id(key)],
                    subkeys=[tag],
                    values=[data],
                    expiration_time=[expires],
                    in_cache=[number % 2 == 0],
                )
                answer = await asyncio.wait_for(
                    p2p.call_protobuf_handler(
                        second._daemon.p2p.peer_id,
                        "DHTProtocol.rpc_store",
                        request,
                        dht_messages.StoreResponse,
                    ),
                    30,
                )
                assert list(answer.store_ok) == [False]
            assert not second.export_records()
            await works(second, victim, 4)

    run(scenario)


def test_messages_of_the_wrong_shape_are_refused_and_the_node_stays_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        orders = [order(number, tmp_path) for number in (1, 2, 3)]
        async with peers(*orders) as (victim, second, attacker):
            assert await attacker.connect(second.addresses[0])
            store, find = dht_messages.StoreRequest, dht_messages.FindRequest
            stored, found = dht_messages.StoreResponse, dht_messages.FindResponse
            columns = {"values": [b""], "expiration_time": [1.0], "in_cache": [False]}
            wrong = [
                ("rpc_store", store(keys=[bytes(20)], **columns), stored),
                ("rpc_store", store(keys=[bytes(20)] * 65, subkeys=[b""] * 65), stored),
                ("rpc_find", find(keys=[bytes(20)] * 9), found),
                ("rpc_find", find(keys=[bytes(21)]), found),
            ]
            for name, request, response in wrong:
                with pytest.raises(CONNECTION_ERRORS):
                    await asyncio.wait_for(
                        attacker._daemon.p2p.call_protobuf_handler(
                            victim._daemon.p2p.peer_id, f"DHTProtocol.{name}", request, response
                        ),
                        30,
                    )
            await works(victim, second, 4)

    run(scenario)


def test_the_crafted_record_in_an_answer_to_a_search_is_skipped_and_the_node_stays_up(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with peers(*(order(number, tmp_path) for number in (1, 2, 3))) as (victim, other, _):
            attacker = await Daemon.start(order(66, tmp_path))
            try:
                sent: list[bytes] = []

                async def find(request: Any, _context: Any) -> Any:
                    sent.append(CRAFTED[len(sent) % len(CRAFTED)])
                    result = dht_messages.FindResult(
                        type=dht_messages.FOUND_DICTIONARY, value=sent[-1], expiration_time=1e12
                    )
                    return dht_messages.FindResponse(
                        results=[result for _ in request.keys],
                        peer=dht_messages.NodeInfo(node_id=bytes(20)),
                    )

                async def ping(_request: Any, _context: Any) -> Any:
                    return dht_messages.PingResponse(
                        peer=dht_messages.NodeInfo(node_id=bytes(20)), dht_time=1.0
                    )

                add = attacker.p2p.add_protobuf_handler
                await add("DHTProtocol.rpc_find", find, dht_messages.FindRequest)
                await add("DHTProtocol.rpc_ping", ping, dht_messages.PingRequest)
                where = str((await attacker.p2p.get_visible_maddrs())[0])
                assert await victim.connect(where)
                for number in range(len(CRAFTED)):
                    await works(victim, other, 4 + number)
                assert set(sent) == set(CRAFTED), "each was received by the victim"
            finally:
                await attacker.close()

    run(scenario)
