"""The parts of the page about the machinery: guard-rails, a split's sides, resources. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from swarmnode.api.moment import Moment, figure
from swarmnode.api.parts_learning import table
from swarmnode.api.pictures import bar
from swarmnode.api.tree import Element, Tree, element, elements
from swarmnode.config.guard_rails import GuardRails
from swarmnode.guard_rails.judgement import MEASURED
from swarmnode.observe.guard_warnings import RAIL_WORDS
from swarmnode.observe.machine import ProcessStatus
from swarmnode.observe.split_status import GeneratorStatus, SplitStatus
from swarmnode.observe.status import StatusDocument
from swarmnode.observe.words import counted, lasting, size_of

_ACTIONS = {
    "monitor": "They warn and do nothing else.",
    "exclude": "Answers past a critical limit are kept out of training.",
    "skip": "A round in which something is critical takes no step.",
    "roll_back": "After three critical rounds the policy goes back to its last good checkpoint.",
}


def guard_rails(moment: Moment) -> Element:
    """What is watched in the node's own answers: what it means, now, at first, and its limits."""
    metrics = moment.metrics
    rows = [
        _rail(words.name, words.title, words.text, full, metrics, moment.guard_rails)
        for words in RAIL_WORDS
        for full in _of_rail(words.name, metrics)
    ]
    heads = ["Guard-rail", "State", "Now", "At first", "Warns, is critical", "It means"]
    excess = _excess(metrics)
    return element(
        "div",
        element("p", _ACTIONS[moment.guard_rails.action], class_="note"),
        table(heads, rows, "Guard-rails"),
        element("p", excess) if excess else None,
    )


def _of_rail(name: str, metrics: Mapping[str, float]) -> Sequence[str]:
    """Its figures: one for each script, where it has such; itself where there is none."""
    found = sorted(
        key.removeprefix("guard/value/")
        for key in metrics
        if key.removeprefix("guard/value/").partition("/")[0] == name
        and key.startswith("guard/value/")
    )
    return found or [name]


def _rail(
    name: str,
    title: str,
    what: str,
    full: str,
    metrics: Mapping[str, float],
    settings: GuardRails,
) -> Sequence[Tree | None]:
    recent = metrics.get(f"guard/recent/{full}", metrics.get(f"guard/value/{full}"))
    start = metrics.get(f"guard/start/{full}")
    alarm = metrics.get(f"guard/alarm/{full}", 0.0)
    script = f" ({full.partition('/')[2]})" if "/" in full else ""
    return [
        f"{name}{script}",
        _verdict(alarm, judged=start is not None, off=name in settings.off),
        figure(recent),
        figure(start),
        _limits(name, *getattr(settings, name)),
        f"{what}. Past its limits: {title[:1].lower()}{title[1:]}.",
    ]


def _verdict(alarm: float, *, judged: bool, off: bool) -> Element:
    if off:
        return element("span", "– off", class_="quiet")
    if alarm > 1.0:
        return element("span", "✕ critical", class_="bad")
    if alarm:
        return element("span", "! warns", class_="poor")
    if not judged:
        return element("span", "… not judged yet", class_="quiet")
    return element("span", "✓ normal", class_="fine")


def _limits(name: str, warn: float, critical: float) -> str:
    pair = f"{warn:g}, {critical:g}"
    return {
        "above": pair,
        "share": f"{pair} of the start",
        "factor": f"factor {pair}",
        "size": f"± {pair}",
    }[MEASURED[name]]


def _excess(metrics: Mapping[str, float]) -> str:
    prefix = "answers/common_excess/"
    found = {
        name.removeprefix(prefix): value for name, value in metrics.items()
        if name.startswith(prefix)
    }  # fmt: skip
    if not found:
        return ""
    task = max(found, key=lambda each: found[each])
    return (
        f"Commonest right answers, beyond what the questions explain: at most {found[task]:.2f} "
        f"({task}); from 0.3 on a verifier's loophole is suspected."
    )


def split(moment: Moment) -> Element | None:
    """Both sides of a node whose generation and training are apart; None for any other."""
    told = moment.status.split
    if told is None:
        return None
    return element(
        "div",
        element(
            "div",
            element(
                "div", element("h3", "Trainer"), elements("dl", _trainer(told), class_="facts")
            ),
            element("div", element("h3", "Queue"), elements("dl", _queue(told), class_="facts")),
            class_="pair",
        ),
        table(
            ["Generator", "Version", "Now", "A group takes", "Idle"],
            [_generator(each) for each in told.generators],
            "Generators",
        ),
    )


def _trainer(told: SplitStatus) -> Iterator[Element]:
    pace = told.trainer_round_seconds
    doing = "waits for groups" if told.trainer_waits else "trains"
    yield _fact("Now", doing)
    yield _fact("Weights", f"version {told.version}")
    yield _fact("A round takes", "–" if pace is None else f"{pace:.2f} s")
    yield _fact("Idle of late", f"{told.trainer_idle_share:.0%}")


def _queue(told: SplitStatus) -> Iterator[Element]:
    dropped = ", ".join(f"{name} {count}" for name, count in sorted(told.dropped.items()) if count)
    yield _fact("Waiting", f"{told.queue_groups} of {told.capacity_groups} groups")
    yield _fact("Lag", f"{told.lag} of {told.max_lag} versions")
    yield _fact("Generated", f"{told.generated_groups} groups")
    yield _fact("Dropped", dropped or "none")


def _generator(each: GeneratorStatus) -> Sequence[Tree | None]:
    doing = f"samples {counted(each.under_way, 'group')}" if each.under_way else "between batches"
    if each.waiting_seconds is not None:
        doing = f"held back for {lasting(each.waiting_seconds)}"
    pace = each.group_seconds
    return [
        each.name,
        str(each.version),
        doing,
        "–" if pace is None else f"{pace:.2f} s",
        f"{each.idle_share:.0%}",
    ]


def _fact(name: str, value: str) -> Element:
    return element("div", element("dt", name), element("dd", value))


def resources(moment: Moment) -> Element:
    """What the node's processes use, and what the machine has left."""
    status, earlier = moment.status, moment.earlier
    rows = [_process(each, status, earlier) for each in status.processes]
    heads = ["Process", "Processor", "Memory", "Restarts"]
    return element(
        "div",
        elements("dl", _machine(status), class_="facts"),
        table(heads, rows, "Processes"),
    )


def _machine(status: StatusDocument) -> Iterator[Element]:
    if machine := status.machine:
        used = 1.0 - machine.memory_available_bytes / max(1, machine.memory_total_bytes)
        free = size_of(machine.memory_available_bytes)
        total = size_of(machine.memory_total_bytes)
        yield element(
            "div", element("dt", "Memory of the machine"),
            element("dd", f"{free} of {total} free", bar(used)),
        )  # fmt: skip
        home, disk_free = size_of(status.home_bytes), size_of(machine.disk_free_bytes)
        yield _fact("Disk", f"{home} in the home, {disk_free} free")
        yield _fact("Processors", str(machine.processors))
    if pool := status.pool:
        yield element(
            "div", element("dt", "Pool of peers' groups"),
            element("dd", f"{pool.groups} of {pool.capacity}",
                    bar(pool.groups / max(1, pool.capacity))),
        )  # fmt: skip
    if status.network.state != "off":
        network = status.network
        yield _fact("Traffic", f"{size_of(network.bytes_in)} in, {size_of(network.bytes_out)} out")
    if saved := status.checkpoint:
        yield _fact("Checkpoint", f"version {saved.policy_version}, {size_of(saved.bytes)}")


def _process(
    each: ProcessStatus, status: StatusDocument, earlier: StatusDocument | None
) -> Sequence[Tree | None]:
    running = each.process_id is not None
    return [
        each.name,
        _processor_share(each, status, earlier) if running else "not running",
        size_of(each.memory_bytes) if running else "–",
        str(each.restarts) if each.restarts else "–",
    ]


def _processor_share(
    each: ProcessStatus, status: StatusDocument, earlier: StatusDocument | None
) -> str:
    """Of one processor, since the earlier status."""
    before = next(
        (one for one in (earlier.processes if earlier else ())
         if (one.name, one.process_id) == (each.name, each.process_id)),
        None,
    )  # fmt: skip
    if earlier is None or before is None or status.now <= earlier.now:
        return "–"
    used = (each.processor_seconds - before.processor_seconds) / (status.now - earlier.now)
    return f"{max(0.0, used):.0%}"
