"""The status document on one screen. Every text goes through `plain`: some are a stranger's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from swarmnode.cli.split_screen import split_lines
from swarmnode.observe.facts import HealthWarning, Severity
from swarmnode.observe.network_status import NetworkStatus
from swarmnode.observe.status import Reward, StatusDocument
from swarmnode.observe.words import counted, lasting, plain, reach_in_words, size_of

MOST_SHOWN = 6
"""Tasks, reasons and addresses that have room on the screen; --json has all."""

_PEERS_ARE = {
    "monitor": "only measured",
    "off": "off",
    "fallback": "only measured after a fall of held-out success",
}
_COLOURS = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}


def screen(status: StatusDocument, dashboard: str = "") -> RenderableType:
    """What `swarmnode status` shows; `dashboard` is the page's whole address, if there is one."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _lines(status, dashboard):
        table.add_row(name, Text(plain(value)))
    parts: list[RenderableType] = [Text(plain(status.summary), style="bold"), "", table]
    if status.warnings:
        parts += ["", *(_complaint(warning) for warning in status.warnings)]
    return Group(*parts)


def _lines(status: StatusDocument, dashboard: str) -> Iterator[tuple[str, str]]:
    node, swarm = status.node, status.swarm
    yield "node", f"{node.peer_id or node.public_key}, up for {lasting(status.uptime_seconds)}"
    if dashboard:
        yield "dashboard", dashboard
    yield "version", f"swarmnode {status.version}" + (f", model {node.model}" if node.model else "")
    if swarm is not None:
        kind = "private swarm" if swarm.private else "swarm"
        name = f"{swarm.name}, " if swarm.name else ""
        yield kind, f"{name}id {swarm.id[:16]}…, about {counted(swarm.size, 'node')}"
    yield from _training(status)
    yield from _network(status.network)
    if status.dropped:
        yield "dropped", _largest(status.dropped)
    if status.processes:
        yield (
            "processes",
            ", ".join(
                f"{each.name} {each.process_id or 'down'} ({size_of(each.memory_bytes)}"
                + (f", {counted(each.restarts, 'restart')})" if each.restarts else ")")
                for each in status.processes
            ),
        )
    if machine := status.machine:
        free = size_of(machine.disk_free_bytes)
        yield "disk", f"{size_of(status.home_bytes)} in the home, {free} free"
    if saved := status.checkpoint:
        age = lasting(max(0.0, status.now - saved.written))
        yield "checkpoint", f"version {saved.policy_version}, {age} old, {size_of(saved.bytes)}"
    elif status.role == "node":
        yield "checkpoint", "none yet"


def _training(status: StatusDocument) -> Iterator[tuple[str, str]]:
    if rounds := status.round:
        took = "" if rounds.seconds is None else f", the last took {rounds.seconds:.1f} s"
        step = "" if status.policy_version is None else f", policy version {status.policy_version}"
        yield "round", f"{rounds.number}{step}{took}"
    rewards = status.rewards
    means = {
        "local": rewards.local.mean,
        "held out": rewards.held_out.mean,
        "training set": rewards.training_set.mean,
    }
    if any(mean is not None for mean in means.values()):
        yield "rewards", ", ".join(f"{name} {_figure(mean)}" for name, mean in means.items())
        yield "by task", _by_task(rewards.local, rewards.held_out)
    if mix := status.mix:
        yield (
            "mix",
            (
                f"last round {mix.local_groups} own + {mix.external_groups} of "
                f"{counted(mix.external_peers, 'peer')}; wanted "
                f"{mix.wanted_local_groups} + {mix.wanted_external_groups}; peers "
                + _PEERS_ARE.get(mix.peers_are, f"{mix.external_token_share:.0%} of the tokens")
            ),
        )
    if split := status.split:
        yield from split_lines(split)
    if pool := status.pool:
        last = pool.last_admitted_seconds
        since = "" if last is None else f", the last {lasting(last)} ago"
        yield "pool", f"{pool.groups} of {pool.capacity} groups; {pool.admitted} admitted{since}"


def _network(network: NetworkStatus) -> Iterator[tuple[str, str]]:
    if network.state == "off":
        return
    last = network.last_acknowledgement_seconds
    peers = counted(network.peers, "peer")
    if network.strangers:
        peers += f" ({network.strangers} without the key of this swarm)"
    yield (
        "network",
        (
            f"{network.state} for {lasting(network.state_seconds)}, {peers}, "
            f"{counted(network.known_announcements, 'announcement')} known, last acknowledged "
            + ("never" if last is None else f"{lasting(last)} ago")
        ),
    )
    yield "traffic", f"{size_of(network.bytes_in)} in, {size_of(network.bytes_out)} out"
    yield (
        "reach",
        reach_in_words(network.reach, network.relays)
        + (f": {', '.join(network.addresses[:MOST_SHOWN])}" if network.addresses else ""),
    )
    if relayed := network.relayed:
        yield "relaying", _relayed(relayed)
    if lan := network.lan:
        found = f"{', '.join(lan.addresses)}, {counted(lan.connected, 'peer')} found there"
        yield "local network", lan.error or found
    if network.bootstrap:
        yield (
            "bootstrap",
            "; ".join(
                f"{each.address} "
                + (
                    "connected"
                    if each.connected
                    else f"no answer ({counted(each.failures, 'attempt')})"
                )
                for each in network.bootstrap[:MOST_SHOWN]
            ),
        )


def _relayed(counts: Mapping[str, int]) -> str:
    places, circuits = counts.get("places", 0), counts.get("circuits", 0)
    refused = counts.get("places_refused", 0) + counts.get("circuits_refused", 0)
    return (
        f"{counted(places, 'place')} given, {counted(circuits, 'circuit')} of "
        f"{size_of(counts.get('bytes', 0))} carried, {refused} refused, "
        f"{counts.get('circuits_failed', 0)} failed"
    )


def _by_task(local: Reward, held_out: Reward) -> str:
    tasks = sorted({*local.by_task, *held_out.by_task})
    shown = [
        f"{task} {_figure(local.by_task.get(task))}/{_figure(held_out.by_task.get(task))}"
        for task in tasks[:MOST_SHOWN]
    ]
    more = len(tasks) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "") + " (local/held out)"


def _largest(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    more = len(ordered) - MOST_SHOWN
    shown = ", ".join(f"{name} {count}" for name, count in ordered[:MOST_SHOWN])
    return shown + (f" and {more} more reasons" if more > 0 else "")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _complaint(warning: HealthWarning) -> Text:
    return Text.assemble(
        (f"{warning.severity.value}: {plain(warning.title)}. ", _COLOURS[warning.severity]),
        plain(warning.text),
        (f" {plain(warning.fix)}", "dim"),
    )
