"""Weights by torch.distributed on loopback: streamed, bounded, agreed on first, and never half."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from swarmnode.weights import stream
from swarmnode.weights.broadcast_in import BroadcastIn
from swarmnode.weights.broadcast_out import OK, BroadcastOut
from swarmnode.weights.channel import Taken, WeightsError, WeightsIn, WeightsMismatch, WeightsTorn
from swarmnode.weights.checksum import checksum
from swarmnode.weights.meeting import Address, Meeting
from swarmnode.weights.plan import Plan
from tests.unit.weights_support import blank, gathering, large, mixed, values

BUFFER_BYTES = 1 << 16


def trainer(tensors: dict[str, Tensor], generators: int, seconds: float = 20) -> BroadcastOut:
    address = Address("127.0.0.1", 0, seconds)
    return BroadcastOut(address, generators, Plan.of(tensors), buffer_bytes=BUFFER_BYTES)


def generator(out: BroadcastOut, rank: int, manner: str, versions: int) -> subprocess.Popen[str]:
    module = "tests.unit.weights_generator"
    where = [out.address.host, str(out.address.port), str(rank), str(versions), manner]
    process = subprocess.Popen(
        [sys.executable, "-m", module, *where], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    return process


def waited_for(taking: WeightsIn, into: dict[str, Tensor], have: int = -1) -> Taken:
    """Ask until a version is there."""
    while (taken := taking.take(into, have)) is None:
        time.sleep(0.001)
    return taken


@pytest.mark.parametrize("direct", [0, 1, 40, 400])
@pytest.mark.parametrize("size", [1, 3, 7, 64, 10_000])
def test_a_stream_is_the_tensors_bytes_whatever_is_set(size: int, direct: int) -> None:
    sent, plan = mixed(), Plan.of(mixed())
    into = blank(sent)
    into["wide"] = torch.zeros(11, 7).t()
    ours, theirs = ([torch.zeros(size, dtype=torch.uint8) for _ in range(2)] for _ in range(2))
    landing, last, own = stream.Landing(into, theirs, direct), None, 0
    stream_sent = stream.packed(plan, sent.items(), ours, direct)
    for part, data in zip(stream.parts(plan, size, direct), stream_sent, strict=True):
        memory = landing.memory(part)
        for buffers, used in ((ours, data), (theirs, memory)):
            if used.data_ptr() in {one.data_ptr() for one in buffers}:
                assert used.data_ptr() != last, "a buffer is used while it may be on its way"
        last = data.data_ptr()
        own += memory.data_ptr() in {one.data_ptr() for one in into.values()}
        memory.copy_(data)
        landing.unpack(part, memory)
    assert all(torch.equal(into[name], sent[name]) for name in sent)
    assert (own > 0) == (direct in (1, 40)), "large ones were to be received where they belong"


def test_a_stream_holds_one_parameter_at_a_time_and_two_buffers() -> None:
    tensors = {f"weight-{i}": torch.full((100, 100), float(i)) for i in range(5)}
    buffers = [torch.zeros(1000, dtype=torch.uint8) for _ in range(2)]
    parts = stream.packed(Plan.of(tensors), gathering(tensors), buffers, 0)
    assert sum(map(len, parts)) == 200_000


def test_a_trainer_that_gathers_holds_one_parameter_at_a_time() -> None:
    tensors = {f"weight-{i}": torch.full((1000, 1000), float(i)) for i in range(4)}
    address, plan = Address("127.0.0.1", 0, 20), Plan.of(tensors)
    out = BroadcastOut(address, 1, plan, buffer_bytes=BUFFER_BYTES, gathered=True)
    taking, into = BroadcastIn(out.address, 1), blank(tensors)
    with ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(waited_for, taking, into)
        out.publish(0, gathering(tensors))
        waiting.result()
    assert all(torch.equal(into[name], tensors[name]) for name in tensors)
    taking.close()
    out.close()


def test_buffers_are_as_large_as_is_set_unless_the_stream_is_short() -> None:
    plan = Plan.of({"weights": torch.empty(1 << 28, device="meta")})  # 1 GiB
    assert stream.buffer_bytes(plan, 1 << 20) == 1 << 20
    assert stream.buffer_bytes(plan, 1 << 30) == 1 << 27


def test_every_version_reaches_a_process_and_a_thread_bit_by_bit() -> None:
    sent = large()
    out = trainer(sent, 2)
    taking, into, sums, have = BroadcastIn(out.address, 2), blank(sent), "", -1
    with ThreadPoolExecutor(1) as beside, generator(out, 1, "whole", 3) as process:
        for version in range(3):
            for tensor in sent.values():
                tensor.add_(1)
            waiting = beside.submit(waited_for, taking, into, have)
            published = out.publish(version, sent.items())
            have = waiting.result().version
            assert checksum(into.values()) == published.checksum == checksum(sent.values())
            sums += f"{version} {published.checksum}\n"
        assert process.communicate()[0] == sums
    taking.close()
    out.close()


def test_what_was_said_about_earlier_versions_is_not_kept_for_ever() -> None:
    sent = {"weights": torch.zeros(10)}
    out = trainer(sent, 1)
    taking, into, keys = BroadcastIn(out.address, 1), blank(sent), []
    with ThreadPoolExecutor(1) as beside:
        for version in range(6):
            waiting = beside.submit(waited_for, taking, into, version - 1)
            out.publish(version, sent.items())
            waiting.result()
            keys.append(out._meeting._store.num_keys())
    assert keys[1] == keys[-1]
    taking.close()
    out.close()


def test_after_a_generators_death_the_others_know_and_the_next_version_reaches_all() -> None:
    sent = large()
    out = trainer(sent, 2)
    survivor, into = BroadcastIn(out.address, 1), blank(sent)
    with ThreadPoolExecutor(2) as beside:
        with generator(out, 2, "dies", 1):
            waiting = beside.submit(waited_for, survivor, into)
            with pytest.raises(WeightsError, match=r"version 4 didn't get|generator 2 didn't"):
                out.publish(4, sent.items())
            # It may have had all that it needed before the other died.
            error = waiting.exception()
            assert error is None or isinstance(error, WeightsTorn)
        back, filled = BroadcastIn(out.address, 2), blank(sent)
        both = [
            beside.submit(waited_for, survivor, into, 4),
            beside.submit(waited_for, back, filled),
        ]
        published = out.publish(5, sent.items())
        assert [one.result().version for one in both] == [5, 5]
    assert checksum(into.values()) == checksum(filled.values()) == published.checksum
    for one in (survivor, back, out):
        one.close()


def test_a_trainer_that_breaks_off_leaves_tensors_that_only_a_new_version_mends() -> None:
    sent = {f"weight-{i}": torch.full((300, 100), 1.0) for i in range(6)}
    out = trainer(sent, 1, seconds=5)
    taking, into = BroadcastIn(out.address, 1), blank(sent)

    def breaking() -> Iterator[tuple[str, Tensor]]:
        yield from list(sent.items())[:4]
        raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(waited_for, taking, into)
        with pytest.raises(KeyboardInterrupt):
            out.publish(7, breaking())
        with pytest.raises(WeightsTorn, match="version 7 broke off") as error:
            waiting.result()
        assert "\n" not in str(error.value)
        assert values(into) != {1.0}
        assert taking.newest() is None
        waiting = beside.submit(waited_for, taking, into, 100)  # whatever it says that it has
        out.publish(8, sent.items())
        assert waiting.result().version == 8
    assert values(into) == {1.0}
    taking.close()
    out.close()


def test_a_generator_that_does_not_come_costs_a_wait_and_is_named() -> None:
    sent = large()
    out = trainer(sent, 2, seconds=0.5)
    taking, into = BroadcastIn(out.address, 1), blank(sent)
    with ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(waited_for, taking, into)
        with pytest.raises(WeightsError, match=r"generator 2 didn't come .* within 0.5 s"):
            out.publish(0, sent.items())
        with pytest.raises(WeightsError, match="gave version 0 up") as error:
            waiting.result()
    assert type(error.value) is WeightsError
    assert all(tensor.sum() == 0 for tensor in into.values()), "nothing was filled"
    taking.close()
    out.close()


def test_a_generator_that_is_lost_as_the_broadcast_begins_fails_it_for_all() -> None:
    sent = large()
    out = trainer(sent, 1, seconds=1)
    lost = Meeting(out.address, serve=False)

    def comes_and_is_gone() -> None:
        while (offer := lost.offered()) is None:
            time.sleep(0.001)
        lost.tell(offer.key("ready/1"), OK)

    with ThreadPoolExecutor(1) as beside:
        gone = beside.submit(comes_and_is_gone)
        with pytest.raises(WeightsError, match=r"^version 0 didn't get to all gen") as error:
            out.publish(0, sent.items())
        gone.result()
    assert "\n" not in str(error.value)
    out.close()


def test_sides_that_differ_are_told_so_before_anything_is_sent() -> None:
    sent = large()
    out = trainer(sent, 1)
    taking, into = BroadcastIn(out.address, 1), blank(sent)
    into["matrix"] = torch.zeros(3)
    with ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(waited_for, taking, into)
        with pytest.raises(WeightsMismatch, match="generator 1: the weights sent are not those"):
            out.publish(0, sent.items())
        with pytest.raises(WeightsMismatch, match=r"matrix .* was sent for matrix \(F32 \[3\]\)"):
            waiting.result()
        assert taking.take(into, -1) is None, "the offer stands although it was given up"
        right = blank(sent)
        waiting = beside.submit(waited_for, taking, right)
        out.publish(1, sent.items())
        assert waiting.result().version == 1
    taking.close()
    out.close()


def test_bytes_that_change_on_the_way_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = large()
    out = trainer(sent, 1)
    taking, into = BroadcastIn(out.address, 1), blank(sent)
    unpack, parts = stream.Landing.unpack, iter(range(100))

    def damaged(self: stream.Landing, part: Sequence[stream.Span], memory: Tensor) -> None:
        if next(parts) == 1:
            memory[5] ^= 1
        unpack(self, part, memory)

    monkeypatch.setattr(stream.Landing, "unpack", damaged)
    with ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(waited_for, taking, into)
        with pytest.raises(WeightsError, match=r"generator 1: version 3 .* is damaged"):
            out.publish(3, sent.items())
        with pytest.raises(WeightsTorn, match="damaged: the checksum of what came is"):
            waiting.result()
    taking.close()
    out.close()


def test_a_trainer_that_is_not_there_or_has_gone_is_an_error_in_one_line() -> None:
    with pytest.raises(WeightsError, match=r"127.0.0.1:1 is not answering") as error:
        BroadcastIn(Address("127.0.0.1", 1, 0.2), 1)
    assert "\n" not in str(error.value)
    out = trainer(large(), 1)
    with pytest.raises(WeightsError, match="can't be served"):
        BroadcastOut(out.address, 1, Plan.of(large()))
    taking = BroadcastIn(out.address, 1)
    out.close()
    with pytest.raises(WeightsError, match="is gone"):
        taking.newest()
    taking.close()


def test_what_belongs_to_others_in_torch_distributed_is_left_alone() -> None:
    out = trainer(large(), 1)
    taking, into = BroadcastIn(out.address, 1), blank(large())
    with ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(waited_for, taking, into)
        out.publish(0, large().items())
        waiting.result()
    assert not torch.distributed.is_initialized()  # no default group was made
    taking.close()
    out.close()


def test_a_version_goes_to_those_who_are_named_and_again_to_one_that_came_back() -> None:
    """Numbers need not be ranks, and whoever is not named neither takes part nor is waited for."""
    sent = large()
    out = trainer(sent, 3)
    third, away, into = BroadcastIn(out.address, 3), BroadcastIn(out.address, 1), blank(sent)
    with ThreadPoolExecutor(1) as beside:
        for generators, version in (([3], 5), ([3], 6)):
            waiting = beside.submit(waited_for, third, into, version - 1)
            out.publish_to(generators, version, sent.items())
            assert waiting.result().version == version
            assert away.take(blank(sent), -1) is None
        # The same number, another process: it has no group, and not even the newest version.
        third.close()
        third, again = BroadcastIn(out.address, 3), blank(sent)
        waiting = beside.submit(waited_for, third, again)
        out.publish_to([3], 6, sent.items())
        assert waiting.result().version == 6
        assert checksum(again.values()) == checksum(sent.values())
        # Both together, in a group of their own, and then one alone again.
        with ThreadPoolExecutor(1) as besides:
            other = besides.submit(waited_for, away, blank(sent))
            waiting = beside.submit(waited_for, third, again, 6)
            out.publish_to([1, 3], 7, sent.items())
            assert (other.result().version, waiting.result().version) == (7, 7)
        with pytest.raises(ValueError, match="version 5 after 7"):
            out.publish_to([1], 5, sent.items())
    for end in (third, away):
        end.close()
    out.close()


def test_a_trainer_that_came_back_is_reached_again() -> None:
    sent = large()
    out = trainer(sent, 1)
    taking, into = BroadcastIn(out.address, 1), blank(sent)
    with ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(waited_for, taking, into)
        out.publish(9, sent.items())
        assert waiting.result().version == 9
        address = out.address
        out.close()
        with pytest.raises(WeightsError, match="is gone"):
            taking.take(into, 9)
        out = BroadcastOut(address, 1, Plan.of(sent), buffer_bytes=BUFFER_BYTES)
        waiting = beside.submit(waited_for, taking, into, 9)
        out.publish(2, sent.items())  # it went on from a checkpoint
        assert waiting.result().version == 2
    taking.close()
    out.close()
