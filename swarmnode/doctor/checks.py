"""What the doctor says of the facts: a finding for each thing a node needs, and its fix. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from time import gmtime, strftime

from swarmnode.doctor.examine import RELEASED, MachineFacts
from swarmnode.observe.network_warnings import CLOCK_SECONDS, SET_CLOCK
from swarmnode.observe.node_warnings import LOW_DISK_BYTES, NO_DISK_BYTES
from swarmnode.observe.status import StatusDocument
from swarmnode.observe.words import plain, reach_in_words, size_of
from swarmnode.rewards.sandbox import Confinement

PYTHON = (3, 11)
MIN_MEMORY_BYTES = 2 * 1024**3
MIN_DESCRIPTORS = 4096


class Result(StrEnum):
    """What a check found."""

    OK = "ok"
    WARNING = "warning"
    """A node runs, but not as well as it could."""
    FAILED = "failed"
    """A node cannot run, or cannot do what it was asked."""


@dataclass(frozen=True, slots=True)
class Check:
    """One finding."""

    name: str
    """Kebab-case, stable."""
    result: Result
    found: str
    fix: str = ""
    """What to do; empty when all is well."""


def checks(facts: MachineFacts) -> list[Check]:
    """Judge the facts, in the order in which things are needed."""
    return [found for check in _CHECKS for found in check(facts)]


def healthy(found: Sequence[Check]) -> bool:
    """Whether nothing failed."""
    return all(check.result is not Result.FAILED for check in found)


def _python(facts: MachineFacts) -> list[Check]:
    found = ".".join(map(str, facts.python))
    if facts.python != PYTHON:
        return [_failed("python", found, "Use Python 3.11.")]
    return [_ok("python", found)]


def _torch(facts: MachineFacts) -> list[Check]:
    if version := facts.packages.get("torch"):
        return [_ok("torch", version)]
    fix = "Install it: `pip install -c constraints.txt swarmnode-rl` brings it along."
    return [_failed("torch", "not installed", fix)]


def _distribution(facts: MachineFacts) -> list[Check]:
    if "swarmnode" in facts.packages:
        return [
            _failed(
                "distribution",
                f"swarmnode {facts.packages['swarmnode']} is installed, which is another product "
                "with the same import name",
                "Run `pip uninstall swarmnode`, then install swarmnode-rl again.",
            )
        ]
    return [_ok("distribution", f"swarmnode-rl {facts.packages.get('swarmnode-rl', '(checkout)')}")]


def _network(facts: MachineFacts) -> list[Check]:
    if facts.library_problem:
        found, _, fix = facts.library_problem.partition("; ")
        return [_failed("transport", found, fix[:1].upper() + fix[1:])]
    if facts.library == "libp2p":
        return [_ok("transport", f"py-libp2p {facts.packages.get('libp2p', '?')}")]
    return [_ok("transport", "hivemind"), *_network_daemon(facts)]


def _network_daemon(facts: MachineFacts) -> list[Check]:
    if facts.p2pd_problem:
        found, _, fix = facts.p2pd_problem.partition("; ")
        return [_failed("p2pd", found, fix[:1].upper() + fix[1:])]
    if not facts.p2pd_executable:
        fix = f"Make it so: `chmod +x {facts.p2pd}`; look for a file system mounted noexec."
        return [_failed("p2pd", "it may not be executed", fix)]
    return [_ok("p2pd", f"of hivemind {facts.packages.get('hivemind', '?')}")]


def _sandbox(facts: MachineFacts) -> list[Check]:
    match facts.sandbox:
        case Confinement.FILTER_AND_LANDLOCK:
            found = "the scorer is confined by a filter of system calls, landlock and limits"
            return [_ok("sandbox", found)]
        case Confinement.FILTER:
            found = (
                "the scorer is confined by a filter of system calls and limits; this kernel has no "
                "landlock as a second wall"
            )
            return [_ok("sandbox", found)]
        case Confinement.NOTHING:
            return [
                _poor(
                    "sandbox",
                    "nothing confines the scorer but resource limits: strangers' text is safe as "
                    "long as our verifiers, which evaluate none of it, have no fault",
                    "For a second line of defence run on Linux (x86-64 or aarch64); "
                    "docs/security.md says what it adds.",
                )
            ]


def _home(facts: MachineFacts) -> list[Check]:
    move = "choose another folder with the environment variable SWARMNODE_HOME"
    if facts.home_problem:
        found = f"{facts.home}: {facts.home_problem}"
        return [_failed("home", found, f"Make it yours, or {move}.")]
    if facts.home_mode is None:
        return [_ok("home", f"{facts.home} will be made by the first run")]
    if facts.home_mode & 0o077:
        return [
            _failed(
                "home",
                f"{facts.home} is open to others (mode {facts.home_mode:o})",
                f"Close it: `chmod 700 {facts.home}`.",
            )
        ]
    return [_ok("home", str(facts.home))]


def _key(facts: MachineFacts) -> list[Check]:
    if facts.key_mode is None:
        return [_ok("key", "will be drawn by the first run")]
    if facts.key_mode & 0o077:
        return [
            _failed(
                "key",
                f"the key is open to others (mode {facts.key_mode:o})",
                "Take a new one with `swarmnode key rotate`; or, if you are sure that nobody has "
                f"read it, `chmod 600 {facts.home / 'key'}`.",
            )
        ]
    return [_ok("key", "its owner's alone")]


def _disk(facts: MachineFacts) -> list[Check]:
    found = f"{size_of(facts.disk_free_bytes)} free for the home"
    fix = "Free some space, or move the home with the environment variable SWARMNODE_HOME."
    if facts.disk_free_bytes < NO_DISK_BYTES:
        return [_failed("disk", found, fix)]
    if facts.disk_free_bytes < LOW_DISK_BYTES:
        return [_poor("disk", found, fix)]
    return [_ok("disk", found)]


def _memory(facts: MachineFacts) -> list[Check]:
    found = f"{size_of(facts.memory_available_bytes)} available"
    # A running node has its share of the memory already.
    if facts.status is None and facts.memory_available_bytes < MIN_MEMORY_BYTES:
        fix = f"Close other programs: the smallest model needs {size_of(MIN_MEMORY_BYTES)}."
        return [_poor("memory", found, fix)]
    return [_ok("memory", found)]


def _open_files(facts: MachineFacts) -> list[Check]:
    found = f"{facts.descriptors} open files"
    if facts.descriptors < MIN_DESCRIPTORS:
        fix = f"Raise the limit: `ulimit -n {MIN_DESCRIPTORS}` before the node is started."
        return [_poor("open-files", found, fix)]
    return [_ok("open-files", found)]


def _ports(facts: MachineFacts) -> list[Check]:
    return [
        _failed(
            "port",
            f"{plain(each.address)}: {plain(each.error)}",
            "End what uses it (`ss -ltnp` names it), or choose another with `--listen`.",
        )
        if each.error
        else _ok("port", f"{plain(each.address)} is free")
        for each in facts.listen
    ]


def _bootstrap(facts: MachineFacts) -> list[Check]:
    if not facts.bootstrap:
        return [_ok("bootstrap", "no bootstrap peer is named")]
    lost = all(each.error for each in facts.bootstrap)
    return [
        Check(
            "bootstrap",
            Result.FAILED if lost else Result.WARNING,
            f"{plain(each.address)}: {plain(each.error)}",
            "Check the address and the firewall, or ask who runs it; a node starts without it and "
            "dials it for ever.",
        )
        if each.error
        else _ok("bootstrap", f"{plain(each.address)}: a peer answers")
        for each in facts.bootstrap
    ]


def running_checks(status: StatusDocument | None, home: Path) -> list[Check]:
    """Judge the node that runs, or should, and nothing else: what a health check asks."""
    if status is None:
        fix = (
            "Start it with `swarmnode run`, or set SWARMNODE_HOME as for the node meant, and "
            "be its user."
        )
        return [_failed("node", f"none is running with the home {home}", fix)]
    return [_ok("node", status.summary), *_reach(status), *_clock(status), *_complaints(status)]


def _running(facts: MachineFacts) -> list[Check]:
    if facts.status is None:
        told = "a running node finds out whether others can dial it"
        return [_ok("node", "none is running with this home"), _ok("reach", told)]
    return running_checks(facts.status, facts.home)


def _own_clock(facts: MachineFacts) -> list[Check]:
    """Without a node to compare it with peers' clocks."""
    if facts.status is not None:
        return []
    if facts.now < RELEASED:
        found = f"it says {strftime('%Y-%m-%d', gmtime(facts.now))}, which is past"
        return [_failed("clock", found, SET_CLOCK)]
    if facts.clock_kept is False:
        found = "nothing keeps it by network time; peers drop what is two minutes off"
        return [_poor("clock", found, SET_CLOCK)]
    kept = "kept by network time" if facts.clock_kept else "this system does not tell what keeps it"
    return [_ok("clock", kept)]


def _reach(status: StatusDocument) -> list[Check]:
    network = status.network
    if network.state not in ("alone", "connected") or network.reach == "unreachable":
        return []  # a warning says it, and what to do
    return [_ok("reach", plain(reach_in_words(network.reach, network.relays)))]


def _clock(status: StatusDocument) -> list[Check]:
    offset = status.network.clock_offset_seconds
    if offset is None:
        return [_ok("clock", "no peer to compare it with")]
    return [] if abs(offset) >= CLOCK_SECONDS else [_ok("clock", f"{offset:+.1f} s to peers")]


def _complaints(status: StatusDocument) -> list[Check]:
    results = {"info": Result.OK, "warning": Result.WARNING, "error": Result.FAILED}
    return [
        Check(each.code, results[each.severity.value], plain(each.text), plain(each.fix))
        for each in status.warnings
    ]


def _ok(name: str, found: str) -> Check:
    return Check(name, Result.OK, found)


def _poor(name: str, found: str, fix: str) -> Check:
    return Check(name, Result.WARNING, found, fix)


def _failed(name: str, found: str, fix: str) -> Check:
    return Check(name, Result.FAILED, found, fix)


_CHECKS: tuple[Callable[[MachineFacts], list[Check]], ...] = (
    _python,
    _torch,
    _distribution,
    _network,
    _sandbox,
    _home,
    _key,
    _disk,
    _memory,
    _open_files,
    _ports,
    _bootstrap,
    _own_clock,
    _running,
)
