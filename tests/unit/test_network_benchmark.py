"""The network benchmark: its nodes, its rows, its page, and what it says without root."""

from __future__ import annotations

import asyncio
import ctypes
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from swarmnode.clock import VirtualClock, VirtualLoop
from swarmnode.network.memory import MemoryNetwork
from swarmproto import bundle_size
from tests.benchmarks import network, network_gossip, network_simulated
from tests.benchmarks.network_made import Node
from tests.benchmarks.network_namespace import (
    NotAllowed,
    Reading,
    enter_private_network,
    loopback_bytes,
)
from tests.benchmarks.network_page import fill, render
from tests.benchmarks.network_rows import Round, Row, as_json, between, from_json, percentile
from tests.benchmarks.network_swarm import library_of

FIGURES = {
    "to_pool_p50": 0.5,
    "to_pool_p90": 0.9,
    "fetch_p50": 0.02,
    "fetch_p90": 0.04,
    "load": 1.0,
    "resident_mib": 100.0,
    "trained_groups": 4.0,
    "trained_bytes": 20_000.0,
    "fetched_bytes": 21_000.0,
    "failed_fetches": 0.0,
    "restarts": 0.0,
    "wire_share": 1.1,
}


def rounds(sent: float) -> list[Round]:
    return [Round(sent, 0.01, 0.02)] * 3


def ours(nodes: int = 16, discover: float = 100_000.0) -> Row:
    windows = {"idle": 1000.0, "announce": 9000.0, "discover": discover, "fetch": 90_000.0}
    found = {name: rounds(sent) for name, sent in windows.items()}
    return Row("swarmnode", nodes, 30.0, found, FIGURES)


def theirs(nodes: int = 16) -> Row:
    found = {"publish": rounds(100_000.0), "read": rounds(900_000.0)}
    return Row("rl-swarm", nodes, 0.0, found, {"read_share": 1.0, "load": 1.0})


def test_the_loopbacks_own_counter_of_sent_bytes_is_read() -> None:
    table = (
        "Inter-|   Receive                            |  Transmit\n"
        " face |bytes    packets errs drop fifo frame compressed multicast|bytes packets\n"
        "  eth0:      11       1    0    0    0     0          0         0       12       1\n"
        "    lo:    1276       5    0    0    0     0          0         0     1277       5\n"
    )
    assert loopback_bytes(table) == 1277
    assert loopback_bytes() >= 0


def test_what_lies_between_two_readings_is_shared_out_over_the_nodes() -> None:
    found = between(Reading(1000, 1.0, 2.0), Reading(5000, 1.5, 2.2), 4)
    assert found.sent == 1000.0
    assert found.python == pytest.approx(0.125)
    assert found.p2pd == pytest.approx(0.05)


def test_a_percentile_is_one_of_the_values() -> None:
    values = [5.0, 1.0, 2.0, 4.0, 3.0]
    assert [percentile(values, share) for share in (0.0, 0.5, 0.9, 1.0)] == [1.0, 3.0, 5.0, 5.0]


def test_a_row_survives_its_file() -> None:
    assert from_json(json.loads(json.dumps(as_json(ours())))) == ours()


def test_swarms_are_named_by_layout_and_size() -> None:
    assert network.cases([]) == network.ALL
    assert network.cases(["swarmnode:32", "rl-swarm:8"]) == [("swarmnode", 32), ("rl-swarm", 8)]
    assert network.cases(["gossip-mixed:8"]) == [("gossip-mixed", 8)]
    assert {layout for layout, _ in network.cases(["libraries"])} == {
        *("libp2p", "mixed", "gossip-hivemind", "gossip-libp2p", "gossip-mixed")
    }
    for wrong in (
        "swarmnode",
        "libraries:4",
        "swarmnode:",
        "swarmnode:1",
        "other:4",
        "rl-swarm:many",
    ):
        with pytest.raises(network.Usage):
            network.cases([wrong])


def test_without_the_right_to_a_namespace_it_says_so_in_one_line_and_exits_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refusing = SimpleNamespace(unshare=lambda _flags: -1)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_arguments, **_options: refusing)

    def measured(_case: network.Case) -> Row:
        enter_private_network()
        raise AssertionError

    monkeypatch.setattr(network, "measure", measured)
    assert network.main(["swarmnode:4"]) == 3
    said = capsys.readouterr().err
    assert "private network namespace" in said
    assert said.count("\n") == 1


def test_bad_arguments_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert network.main(["everything"]) == 2
    assert "everything" in capsys.readouterr().err


def test_the_right_is_asked_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_arguments, **_options: SimpleNamespace())
    with pytest.raises(NotAllowed, match="Linux alone"):
        enter_private_network()


def test_a_block_is_replaced_and_the_prose_stays() -> None:
    page = "before\n<!-- network:a -->\n\nold\n\n<!-- /network:a -->\nafter\n"
    filled = fill(page, {"a": "new"})
    assert filled == "before\n<!-- network:a -->\n\nnew\n\n<!-- /network:a -->\nafter\n"
    assert fill(filled, {"a": "new"}) == filled


@pytest.mark.parametrize(
    "page",
    [
        "no block",
        "<!-- network:a -->\n",
        "<!-- network:a -->\n<!-- /network:a -->\n" * 2,
        "<!-- network:b -->\n<!-- /network:b -->\n",
        "<!-- network:a -->\n<!-- network:b -->\n<!-- /network:a -->\n",
    ],
)
def test_a_page_with_other_blocks_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="blocks"):
        fill(page, {"a": "new"})


def test_targets_that_are_met_and_missed_are_told_apart() -> None:
    met = render([ours(), theirs()])["targets"]
    assert met.count("| met |") == 4
    worse = replace(ours(discover=200_000.0), figures=FIGURES | SLOW)
    missed = render([worse, theirs()])["targets"]
    assert missed.count("**not met**") == 4
    assert "200" in missed


SLOW = {"to_pool_p50": 2.5, "fetched_bytes": 30_000.0, "load": 20.0}


def test_wall_times_of_a_busy_machine_are_marked() -> None:
    assert "at a load of" not in render([ours(), theirs()])["targets"]
    busy = replace(ours(), figures={**FIGURES, "load": 20.0})
    assert "at a load of 20 on 2 cores" in render([busy, theirs()])["targets"]


def test_a_window_costs_what_it_adds_to_the_one_before() -> None:
    line = render([ours()])["traffic"].splitlines()[2]
    assert line.startswith(
        "| 16 | 1.0 | 8.0 | 91.0 | **100.0** | 23.1 | **123.1** | 90.0 | 10 | 20 |"
    )


def test_half_of_a_mixed_swarm_is_on_either_library() -> None:
    assert [library_of("mixed", number) for number in range(4)] == ["hivemind", "libp2p"] * 2
    assert library_of("libp2p", 0) == "libp2p"
    assert library_of("crowded", 1) == "hivemind"
    assert network_gossip.libraries("gossip-mixed", 4) == ["hivemind", "libp2p"] * 2
    assert network_gossip.libraries("gossip-libp2p", 2) == ["libp2p"] * 2
    assert network_gossip.libraries("gossip-hivemind", 2) == ["hivemind"] * 2


def test_rows_of_libraries_and_of_gossip_stand_in_tables_of_their_own() -> None:
    blocks = render([replace(ours(8), layout="mixed"), ours(4)])
    lines = blocks["libraries"].splitlines()[2:]
    assert [line.split(" | ")[:2] for line in lines] == [["| hivemind", "4"], ["| both", "8"]]
    figures = {"share": 0.975, "p50": 0.1, "p99": 1.5, "cpu": 0.002, "bytes": 2500.0}
    found = {f"{rate}/{name}": value for rate in ("5", "20") for name, value in figures.items()}
    late = {"5/late_p99": 0.01, "20/late_p99": 0.02, "load": 1.0}
    row = Row("gossip-libp2p", 8, 0.0, {}, {**found, **late})
    lines = render([from_json(json.loads(json.dumps(as_json(row))))])["gossip"].splitlines()[2:]
    assert lines == [
        "| py-libp2p | 8 | 5 | 97.5 % | 0.10 | 1.50 | 2.0 | 2.5 | 10 | 1.0 |",
        "| py-libp2p | 8 | 20 | 97.5 % | 0.10 | 1.50 | 2.0 | 2.5 | 20 | 1.0 |",
    ]


def test_a_page_without_measurements_claims_nothing() -> None:
    blocks = render([])
    assert blocks["targets"].count("not measured") == 3
    assert all("nan" not in block for block in blocks.values())


def test_the_published_page_has_every_block() -> None:
    page = (Path(__file__).parents[2] / network.PAGE).read_text("utf-8")
    assert fill(page, render([])) != page


def test_a_node_publishes_20_kilobytes_a_round_and_others_train_on_them() -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        sizes = runner.run(_published_sizes(VirtualClock(loop)))
    assert len(sizes) == 2
    assert all(19_000 < size < 23_000 for size in sizes)
    row = network_simulated.measure(4, fetch_seconds=0.02)
    assert row.figures["trained_groups"] == 4.0
    assert 1.0 < row.figures["fetched_bytes"] / row.figures["trained_bytes"] < 1.2
    assert 0.03 < row.figures["to_pool_p50"] < 1.0
    assert row.figures["failed_fetches"] == 0.0


async def _published_sizes(clock: VirtualClock) -> list[int]:
    network_in_memory = MemoryNetwork(clock, latency_seconds=0.01, loss=0.0, seed=0)
    endpoint = network_in_memory.endpoint("memory/0")
    node = Node(0, endpoint, clock)
    sizes: list[int] = []
    put = endpoint.shelf.put

    def weighed(bundle: object, expires: float) -> bytes:
        sizes.append(bundle_size(bundle))  # type: ignore[arg-type]
        return put(bundle, expires)  # type: ignore[arg-type]

    endpoint.shelf.put = weighed  # type: ignore[method-assign]
    publishing = asyncio.ensure_future(node.publish())
    await clock.sleep(60.0)
    publishing.cancel()
    return sizes
