"""What a node can complain of in its place among others: the network, peers, the clock, the key."""

from __future__ import annotations

from swarmnode.observe.facts import Facts, Severity, Warnable
from swarmnode.observe.words import counted, lasting, trying_again

SLOW_START_SECONDS = 60.0
DOWN_SECONDS = 120.0
QUIET_SECONDS = 300.0
"""Without an acknowledgement or an external group for so long, or for two rounds if these take
longer, something is wrong."""
SET_CLOCK = (
    "Set the clock, best by network time: `timedatectl set-ntp true`, or the system settings."
)
CLOCK_SECONDS = 10.0


def _quiet(facts: Facts, age: float | None) -> bool:
    """Whether nothing has come for so long that it is no longer the pace of the rounds."""
    limit = max(QUIET_SECONDS, 2 * facts.round_seconds)
    since = facts.uptime_seconds if age is None else age
    return min(since, facts.network_state_seconds) >= limit


def _takes_part(facts: Facts) -> bool:
    """Whether the node trains, which a bootstrap peer doesn't."""
    return facts.wants_external or facts.shares


def _without_company(facts: Facts) -> bool:
    if not _takes_part(facts):
        return False
    if facts.network_state == "connected":
        return round(facts.swarm_size) <= 1
    return facts.network_state == "alone" and facts.bootstrap_failed < facts.bootstrap_tried


def _knows_nobody(facts: Facts) -> bool:
    return facts.network_state == "alone" and facts.bootstrap_tried == 0 and _takes_part(facts)


def _no_answer(facts: Facts) -> str:
    trying = trying_again(facts.next_attempt_seconds)
    return f"No bootstrap peer answers ({facts.bootstrap_tried} tried){trying and '; ' + trying}."


def _last(age: float | None) -> str:
    return "never since the start" if age is None else f"{lasting(age)} ago"


def _clock(facts: Facts) -> str:
    offset = facts.clock_offset_seconds or 0.0
    return (
        f"This clock is {lasting(abs(offset))} {'behind' if offset > 0 else 'ahead of'} the peers'"
    )


_CAUSES = (
    "network-down",
    "network-restarting",
    "network-slow-start",
    "bootstrap-failed",
    "no-bootstrap",
    "clock-far-off",
    "duplicate-instance",
)

NETWORK_WARNABLES: tuple[Warnable, ...] = (
    Warnable(
        "network-down",
        Severity.ERROR,
        "Network process down",
        lambda f: f.network_state == "down" and f.network_state_seconds >= DOWN_SECONDS,
        lambda f: (
            f"The network process has not run for {lasting(f.network_state_seconds)}"
            f"{': ' + f.network_error if f.network_error else ''}; training goes on alone."
        ),
        "Run `swarmnode doctor`, and look into `swarmnode logs` for what ends it.",
        f"the network process could not be started again for {lasting(DOWN_SECONDS)}",
    ),
    Warnable(
        "network-restarting",
        Severity.WARNING,
        "Network process restarting",
        lambda f: f.network_state == "down",
        lambda f: (
            "The network process ended and is being started again"
            f"{' (' + f.network_error + ')' if f.network_error else ''}; training goes on."
        ),
        "Nothing: the swarm is rejoined by itself.",
        "the network process ended a moment ago",
        ("network-down",),
    ),
    Warnable(
        "network-slow-start",
        Severity.WARNING,
        "Network is slow to start",
        lambda f: f.network_state == "starting" and f.network_state_seconds >= SLOW_START_SECONDS,
        lambda f: (
            f"The network process has been starting for {lasting(f.network_state_seconds)}"
            f"{': ' + f.network_error if f.network_error else ''}."
        ),
        "Wait if the machine is busy; else run `swarmnode doctor`.",
        f"the network process has been starting for {lasting(SLOW_START_SECONDS)}",
    ),
    Warnable(
        "no-bootstrap",
        Severity.INFO,
        "No bootstrap peer known",
        lambda f: _knows_nobody(f) and not f.lan,
        lambda f: "This node knows no peer to start from, so it trains alone until one dials it.",
        "Name one: `swarmnode run ADDRESS`, or join a swarm with `swarmnode swarm join`; on one "
        "network with the others, `--lan` finds them.",
        "the node knows no peer to start from",
    ),
    Warnable(
        "lan-failed",
        Severity.WARNING,
        "No local network",
        lambda f: bool(f.lan_error),
        lambda f: f"Nobody can be found on a local network: {f.lan_error}.",
        "Connect this machine to one. Tunnels and public addresses are none; "
        "`network.lan_interfaces` says which are used.",
        "`--lan` was asked for and cannot work",
    ),
    Warnable(
        "lan-alone",
        Severity.INFO,
        "Nobody else on the local network",
        lambda f: _knows_nobody(f) and f.lan and not f.lan_error,
        lambda f: "No other node of this swarm was found on the local network yet.",
        "Run `swarmnode run --lan` on another machine in it, with the same tasks or swarm file. "
        "Guest networks keep machines apart; a firewall has to let in UDP port 5353 and the TCP "
        "port of `network.lan_port`.",
        "`--lan` has found nobody, and no bootstrap peer is known",
    ),
    Warnable(
        "bootstrap-failed",
        Severity.WARNING,
        "No bootstrap peer answers",
        lambda f: f.network_state == "alone" and f.bootstrap_failed == f.bootstrap_tried > 0,
        _no_answer,
        "Nothing if they are only away: they are dialled for ever. `swarmnode doctor` tells which "
        "of them fails and why.",
        "none of the known peers answers",
    ),
    Warnable(
        "nobody-else",
        Severity.INFO,
        "Nobody else in the swarm",
        _without_company,
        lambda f: "Peers answer, but no other node was heard of in this swarm lately.",
        "Nothing: whoever comes is found. If others should be here, compare the swarm's id in "
        "`swarmnode status`: other rules, or another key, are another swarm.",
        "peers answer, and no other node of the swarm is heard of",
    ),
    Warnable(
        "duplicate-instance",
        Severity.ERROR,
        "Another node uses this key",
        lambda f: bool(f.duplicate_instance),
        lambda f: (
            f"A node with this key and another home ({f.duplicate_instance}) publishes too. "
            "This one started later, so it publishes nothing, takes nothing and trains alone."
        ),
        "Stop one of the two, or give one a key of its own with `swarmnode key rotate`.",
        "another node publishes with this node's key, and this one started later",
    ),
    Warnable(
        "clock-far-off",
        Severity.ERROR,
        "This machine's clock is wrong",
        lambda f: abs(f.clock_offset_seconds or 0.0) >= f.clock_skew_seconds,
        lambda f: _clock(f) + ", so that peers drop what this node publishes.",
        SET_CLOCK,
        "the clock differs from the peers' by more than they accept",
    ),
    Warnable(
        "clock-off",
        Severity.WARNING,
        "This machine's clock is off",
        lambda f: abs(f.clock_offset_seconds or 0.0) >= CLOCK_SECONDS,
        lambda f: _clock(f) + ".",
        SET_CLOCK,
        f"the clock differs from the peers' by {lasting(CLOCK_SECONDS)} or more",
        ("clock-far-off",),
    ),
    Warnable(
        "not-acknowledged",
        Severity.WARNING,
        "Nobody stores our announcements",
        lambda f: (
            f.shares
            and f.network_state == "connected"
            and _quiet(f, f.last_acknowledgement_seconds)
        ),
        lambda f: (
            "Another peer last stored an announcement of ours "
            f"{_last(f.last_acknowledgement_seconds)}; {counted(f.peers, 'peer')} connected."
        ),
        "Look at `swarmnode peers`; `swarmnode doctor` tests the way to the bootstrap peers.",
        "no peer has confirmed an announcement for five minutes or two rounds",
        _CAUSES,
    ),
    Warnable(
        "no-external-groups",
        Severity.WARNING,
        "No groups of peers",
        lambda f: (
            f.wants_external
            and f.network_state == "connected"
            and _quiet(f, f.last_external_seconds)
        ),
        lambda f: (
            f"A peer's group last came in {_last(f.last_external_seconds)}; rounds train on "
            "own groups alone."
        ),
        "`swarmnode status` counts what was dropped and why; peers of other tasks or versions "
        "cannot help.",
        "no group of a peer was admitted for five minutes or two rounds",
        (*_CAUSES, "nobody-else", "scorer-kills"),
    ),
    Warnable(
        "not-reachable",
        Severity.INFO,
        "Others cannot dial this node",
        lambda f: f.network_state == "connected" and f.reachable is False and not f.relayed,
        lambda f: (
            "Nobody can open a connection to this node; its groups go out through peers that "
            "hold them for it."
        ),
        "Nothing: it takes part in full. To be dialled, forward a port in the router and give "
        "`--listen` and `--announce`; or `--public`, where a bootstrap peer is a relay.",
        "other nodes cannot open a connection to this one",
    ),
    Warnable(
        "listening",
        Severity.INFO,
        "Open to other machines",
        lambda f: bool(f.open_addresses),
        lambda f: f"Other machines can connect to {', '.join(f.open_addresses)}.",
        "Leave out `--listen`, `--lan`, `--public`, `dashboard.address` and `metrics.address` to "
        "be reached from this machine alone.",
        "the node listens beyond loopback",
    ),
)
