"""Both ends of a channel in one loop, under asyncio and uvloop; strangers who break the format."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgpack
import pytest
import uvloop

from swarmnode import channel as channel_module
from swarmnode.channel import (
    CallFailed,
    Channel,
    ChannelClosed,
    ChannelTimedOut,
    Handlers,
)

Run = Callable[[Callable[[], Awaitable[None]]], None]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    def under_the_loop(scenario: Callable[[], Awaitable[None]]) -> None:
        complaints: list[dict[str, Any]] = []

        async def watched() -> None:
            asyncio.get_running_loop().set_exception_handler(
                lambda _loop, context: complaints.append(context)
            )
            async with asyncio.timeout(20):
                await scenario()
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(watched())
        assert complaints == []

    return under_the_loop


async def echo(payload: Any) -> Any:
    return payload


async def fail(payload: Any) -> Any:
    raise ValueError(payload)


async def never(_payload: Any) -> None:
    await asyncio.Event().wait()


HANDLERS: Handlers = {"echo": echo, "fail": fail, "never": never}


@asynccontextmanager
async def pair(ours: Handlers, theirs: Handlers) -> AsyncIterator[tuple[Channel, Channel]]:
    one_socket, two_socket = socket.socketpair()
    one, two = await Channel.over(one_socket, ours), await Channel.over(two_socket, theirs)
    running = [asyncio.ensure_future(one.run()), asyncio.ensure_future(two.run())]
    try:
        yield one, two
    finally:
        await one.close()
        await two.close()
        await asyncio.gather(*running)


@asynccontextmanager
async def facing(handlers: Handlers) -> AsyncIterator[tuple[Channel, socket.socket]]:
    """A channel whose other side is a plain socket that the test writes to."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    one = await Channel.over(ours, handlers)
    running = asyncio.ensure_future(one.run())
    with theirs:
        try:
            yield one, theirs
        finally:
            await one.close()
            await running


def frame(value: object) -> bytes:
    body: bytes = msgpack.packb(value)
    return struct.pack(">I", len(body)) + body


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 (the tests look into what announces nothing)
        await asyncio.sleep(0)


def test_many_calls_both_ways_find_their_own_answers(run: Run) -> None:
    async def scenario() -> None:
        async with pair(HANDLERS, HANDLERS) as (one, two):
            payloads: list[Any] = [{"number": n, "bytes": bytes([n % 256]) * n} for n in range(600)]
            answers = await asyncio.gather(
                *(one.call("echo", payload, 10.0) for payload in payloads),
                *(two.call("echo", payload, 10.0) for payload in payloads),
            )
            assert answers == payloads * 2

    run(scenario)


def test_a_slow_call_holds_up_no_other_and_a_handler_may_call_back(run: Run) -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        channels: list[Channel] = []

        async def wait(_payload: Any) -> str:
            await gate.wait()
            return "waited"

        async def ask_back(payload: Any) -> Any:
            return await channels[0].call("echo", payload, 5.0)

        async with pair(HANDLERS, {"wait": wait, "ask_back": ask_back}) as (one, two):
            channels.append(two)
            slow = asyncio.ensure_future(one.call("wait", None, 10.0))
            assert await one.call("ask_back", 7, 10.0) == 7
            assert not slow.done()
            gate.set()
            assert await slow == "waited"

    run(scenario)


def test_an_exception_an_unknown_method_and_an_oversized_value_fail_one_call_alone(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "MAX_FRAME_BYTES", 10_000)

    async def bloat(_payload: Any) -> bytes:
        return bytes(10_001)

    async def scenario() -> None:
        async with pair({}, {**HANDLERS, "bloat": bloat}) as (one, _two):
            with pytest.raises(CallFailed, match="fail: ValueError: a bad day"):
                await one.call("fail", "a bad day", 5.0)
            with pytest.raises(CallFailed, match="no method 'nothing'"):
                await one.call("nothing", None, 5.0)
            with pytest.raises(CallFailed, match="exceeds 10000"):
                await one.call("bloat", None, 5.0)
            with pytest.raises(CallFailed, match="exceeds 10000"):
                await one.call("echo", bytes(10_001), 5.0)
            assert await one.call("echo", 1, 5.0) == 1

    run(scenario)


def test_a_call_that_times_out_or_is_cancelled_ends_its_handler_over_there(run: Run) -> None:
    async def scenario() -> None:
        async with pair({}, HANDLERS) as (one, two):
            with pytest.raises(ChannelTimedOut, match=r"never took over 0\.01 s"):
                await one.call("never", None, 0.01)
            waiting = asyncio.ensure_future(one.call("never", None, 10.0))
            await until(lambda: bool(two._serving))
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await until(lambda: not two._serving and not one._waiting)
            assert await one.call("echo", 1, 5.0) == 1

    run(scenario)


def test_a_call_and_its_cancellation_that_arrive_together_are_answered(run: Run) -> None:
    async def scenario() -> None:
        async with facing(HANDLERS) as (one, stranger):
            stranger.sendall(frame([1, "call", "never", None]) + frame([1, "cancel"]))
            loop = asyncio.get_running_loop()
            assert await loop.sock_recv(stranger, 1000) == frame([1, "failed", "cancelled"])
            assert not one._serving

    run(scenario)


def test_more_calls_than_agreed_wait_their_turn(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "MAX_CALLS", 3)
    most: list[int] = []

    async def scenario() -> None:
        async def count(payload: Any) -> Any:
            most.append(len(two._serving))
            await asyncio.sleep(0)
            return payload

        async with pair({}, {"count": count, "never": never}) as (one, two):
            assert await asyncio.gather(*(one.call("count", n, 5.0) for n in range(50))) == list(
                range(50)
            )
            assert max(most) == 3
            stuck = [asyncio.ensure_future(one.call("never", None, 10.0)) for _ in range(3)]
            await until(lambda: len(two._serving) == 3)
            with pytest.raises(ChannelTimedOut):
                await one.call("count", 1, 0.05)
            for call in stuck:
                call.cancel()
            await asyncio.gather(*stuck, return_exceptions=True)
            assert await one.call("count", 2, 5.0) == 2

    run(scenario)


def test_hanging_up_ends_every_waiting_call_and_every_handler(run: Run) -> None:
    async def scenario() -> None:
        async with pair(HANDLERS, HANDLERS) as (one, two):
            calls = [asyncio.ensure_future(one.call("never", None, 10.0)) for _ in range(20)]
            calls += [asyncio.ensure_future(two.call("never", None, 10.0)) for _ in range(20)]
            await until(lambda: len(one._serving) == len(two._serving) == 20)
            await two.close()
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(outcome) for outcome in outcomes} == {ChannelClosed}
            await until(lambda: not one._serving and not two._serving)
            assert one.ended == "the other side hung up"
            with pytest.raises(ChannelClosed, match="the other side hung up"):
                await one.call("echo", 1, 5.0)

    run(scenario)


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff\xff\xff\xff",
        struct.pack(">I", 1) + b"\xc1",
        struct.pack(">I", 0),
        struct.pack(">I", 3) + b"\x81\x90\x01",
        struct.pack(">I", 4096) + b"\x91" * 4096,
        frame("call"),
        frame([]),
        frame([1, "call", "echo"]),
        frame([1, "call", 7, None]),
        frame(["1", "call", "echo", None]),
        frame([1, "shout", "echo", None]),
        frame([99, "ok", 1]),
        frame([1, "failed", 5]),
        frame([1, "call", "never", None]) * 2,
        b"".join(frame([n, "call", "never", None]) for n in range(300)),
    ],
)
def test_a_frame_that_breaks_the_format_ends_the_channel_cleanly(run: Run, sent: bytes) -> None:
    async def scenario() -> None:
        async with facing(HANDLERS) as (one, stranger):
            waiting = asyncio.ensure_future(one.call("anything", None, 10.0))
            loop = asyncio.get_running_loop()
            await loop.sock_recv(stranger, 1000)
            await loop.sock_sendall(stranger, sent)
            with pytest.raises(ChannelClosed):
                await waiting
            assert one.ended not in ("", "the other side hung up")

    run(scenario)


@pytest.mark.parametrize("sent", [b"", b"\x00", struct.pack(">I", 10) + b"half"])
def test_hanging_up_within_a_frame_is_hanging_up(run: Run, sent: bytes) -> None:
    async def scenario() -> None:
        async with facing(HANDLERS) as (one, stranger):
            waiting = asyncio.ensure_future(one.call("anything", None, 10.0))
            loop = asyncio.get_running_loop()
            await loop.sock_recv(stranger, 1000)
            await loop.sock_sendall(stranger, sent)
            stranger.close()
            with pytest.raises(ChannelClosed, match="hung up"):
                await waiting

    run(scenario)


def test_what_the_other_side_does_not_read_is_not_piled_up(run: Run) -> None:
    async def scenario() -> None:
        async with facing(HANDLERS) as (one, _deaf):
            calls = [
                asyncio.ensure_future(one.call("echo", bytes(1 << 20), 0.2)) for _ in range(50)
            ]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(outcome) for outcome in outcomes} == {ChannelTimedOut}
            assert one._writer.transport.get_write_buffer_size() < 3 << 20

    run(scenario)


def test_two_sides_that_flood_each_other_do_not_lock_up(run: Run) -> None:
    async def scenario() -> None:
        async with pair(HANDLERS, HANDLERS) as (one, two):
            payload = bytes(1 << 20)
            answers = await asyncio.gather(
                *(side.call("echo", payload, 15.0) for side in (one, two) for _ in range(40))
            )
            assert all(answer == payload for answer in answers)

    run(scenario)


def test_closing_does_not_wait_for_a_side_that_never_reads(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "CLOSE_SECONDS", 0.05)

    async def scenario() -> None:
        async with facing(HANDLERS) as (one, _deaf):
            call = asyncio.ensure_future(one.call("echo", bytes(8 << 20), 10.0))
            await asyncio.sleep(0)
            started = asyncio.get_running_loop().time()
            await one.close()
            await one.close()
            assert asyncio.get_running_loop().time() - started < 2.0
            with pytest.raises(ChannelClosed):
                await call

    run(scenario)
