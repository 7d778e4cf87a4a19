"""The parts of the page about others: where a round's groups came from, and who is there. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from swarmnode.api.documents import PeerStatus
from swarmnode.api.moment import (
    LATELY_ROUNDS,
    OWN,
    Moment,
    figure,
    names_of,
    publisher_of,
    short,
)
from swarmnode.api.parts_learning import table
from swarmnode.api.pictures import map_of, stacked
from swarmnode.api.tree import Element, Tree, element, elements
from swarmnode.observe.metrics import DROPPED
from swarmnode.observe.status import StatusDocument
from swarmnode.observe.words import counted, lasting, size_of

MOST_PEERS = 40
OUT = "out"
"""The level of a group of which nothing was trained on (docs/losses.md)."""
_LEVELS = {
    OUT: "not trained on",
    "none": "uncorrected",
    "positive": "successes alone",
    "full": "weighted token by token",
    "gate": "weighted as a whole",
    "shaped": "a bounded gradient",
}
KINDS = 6
"""Kinds of parts in a bar, which look different; further ones begin anew."""


def last_round(moment: Moment) -> Element:
    """Where the groups of the last round came from, and what the step made of them."""
    trained: Sequence[Sequence[str]] = moment.history.report.get("trained", ())
    if not trained:
        quiet = "No group was trained on in the last round." if moment.history.points else (
            "No round has ended yet."
        )  # fmt: skip
        return element("p", quiet, class_="quiet")
    names = names_of(moment.peers)
    counts = Counter(str(publisher) for publisher, *_ in trained)
    ordered = sorted(counts, key=lambda each: (each != OWN, -counts[each], each))
    total = sum(counts.values())
    shares = [(counts[each] / total, _kind(at)) for at, each in enumerate(ordered)]
    rows = [
        _source(at, each, counts[each], [one for one in trained if one[0] == each], names)
        for at, each in enumerate(ordered)
    ]
    return element(
        "div",
        element("p", _mix_sentence(moment.status)),
        stacked(shares),
        table(
            ["From", "Groups", "Tasks", "How it was trained on"], rows, "Groups of the last round"
        ),
    )


def _kind(at: int) -> str:
    return "own" if at == 0 else f"peer-{(at - 1) % (KINDS - 1) + 1}"


def _source(
    at: int, publisher: str, count: int, trained: Sequence[Sequence[str]], names: Mapping[str, str]
) -> Sequence[Tree | None]:
    tasks = Counter(task for _, task, *_ in trained)
    treatments = Counter(treatment(level, why) for _, _, level, why in trained)
    return [
        element("span", element("i", class_=f"key {_kind(at)}"), peer_name(publisher, names)),
        str(count),
        _counted(tasks),
        _counted(treatments),
    ]


def treatment(level: str, why: str) -> str:
    """What the step made of a group, in words."""
    return f"{_LEVELS.get(level, level)} ({why})"


def _counted(counts: Counter[str]) -> str:
    return ", ".join(
        name if count == 1 else f"{count} × {name}" for name, count in counts.most_common()
    )


def peer_name(publisher: str, names: Mapping[str, str]) -> Tree:
    """How a publisher is called on the page."""
    if publisher == OWN:
        return "this node"
    peer = names.get(publisher, "")
    return element("span", short(peer or publisher), title=peer or publisher, class_="id")


def _mix_sentence(status: StatusDocument) -> str:
    mix = status.mix
    if mix is None:
        return ""
    wanted = f"wanted {mix.wanted_local_groups} + {mix.wanted_external_groups}"
    tokens = f"{mix.external_token_share:.0%} of the training tokens of late are peers'"
    theirs = "none of peers"
    if mix.external_groups:
        theirs = f"{mix.external_groups} of {counted(mix.external_peers, 'peer')}"
    return (
        f"{counted(mix.local_groups, 'own group')} and {theirs} ({wanted}). "
        + {"fallback": "After a fall of held-out success peers' groups are only measured.",
           "monitor": "Peers' groups are only measured (policy.external = monitor).",
           "off": "Peers' groups are off (policy.external = off)."}.get(mix.peers_are, tokens + ".")
    )  # fmt: skip


def swarm(moment: Moment) -> Element:
    """The map of peers, the list of them, and what was dropped and why."""
    status = moment.status
    if status.network.state == "off":
        return element("p", "This node is on its own (--solo).", class_="quiet")
    given = moment.history.groups_of_peers(LATELY_ROUNDS)
    known = sorted(
        moment.peers,
        key=lambda each: (
            not each.connected, -given.get(publisher_of(each.peer), 0), -each.admitted, each.peer
        ),
    )  # fmt: skip
    if not known:
        return element("p", "No peer is known yet.", class_="quiet")
    rows = [_peer(each, given.get(publisher_of(each.peer), 0)) for each in known[:MOST_PEERS]]
    more = len(known) - len(rows)
    total = max(1, sum(given.values()))
    drawn = [
        (short(each.peer), given.get(publisher_of(each.peer), 0) / total, _on_map(each))
        for each in known
    ]
    heads = ["Peer", "State", "Trained on", "Admitted", "Dropped, and why", "Traffic", "Quality"]
    return element(
        "div",
        element(
            "div",
            map_of(drawn),
            element("div", element("p", _reach(status)), _reasons(moment), class_="beside"),
            class_="pair",
        ),
        table(heads, rows, "Peers"),
        element("p", f"And {more} more: `swarmnode peers`.", class_="note") if more > 0 else None,
    )


def _on_map(peer: PeerStatus) -> str:
    if peer.muted_seconds > 0 or peer.refused:
        return "muted"
    return "near" if peer.connected else "far"


def _peer(peer: PeerStatus, given: int) -> Sequence[Tree | None]:
    return [
        element("span", short(peer.peer), title=peer.peer, class_="id"),
        _state(peer),
        str(given) if given else "–",
        str(peer.admitted) if peer.admitted else "–",
        _dropped(peer.dropped),
        f"{size_of(peer.fetched_bytes)} from it, {size_of(peer.served_bytes)} to it",
        figure(peer.quality, 2),
    ]


def _state(peer: PeerStatus) -> str:
    if peer.muted_seconds > 0:
        return f"✕ muted for {lasting(peer.muted_seconds)}"
    if peer.refused:
        return "✕ refused for a minute"
    if not peer.connected:
        return "○ known through others"
    since = "" if peer.seconds_connected is None else f" for {lasting(peer.seconds_connected)}"
    return f"● connected{since}"


def _dropped(counts: Mapping[str, int]) -> Tree:
    if not counts:
        return "–"
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{name} {count}" for name, count in ordered)


def _reach(status: StatusDocument) -> str:
    network = status.network
    reach = {True: "Others can dial this node.", False: "Others cannot dial this node.",
             None: "Whether others can dial it is not known yet."}[network.reachable]  # fmt: skip
    last = network.last_acknowledgement_seconds
    heard = "never" if last is None else f"{lasting(last)} ago"
    return (
        f"{network.state.capitalize()} for {lasting(network.state_seconds)}, "
        f"{counted(network.known_announcements, 'announcement')} known, "
        f"last acknowledged {heard}. {reach}"
    )


def _reasons(moment: Moment) -> Element:
    """What was dropped since the start, in all, with what each reason means."""
    counts = moment.status.dropped
    if not counts:
        return element("p", "Nothing of peers' was dropped since the start.", class_="quiet")
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return element(
        "div",
        element("h3", "Dropped since the start"),
        elements(
            "dl",
            (
                element(
                    "div",
                    element("dt", element("b", str(count)), f" {name}"),
                    element("dd", DROPPED.get(name, "")),
                )
                for name, count in ordered
            ),
            class_="reasons",
        ),
    )
