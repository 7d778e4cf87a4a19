"""What a running node has open, by looking at its processes: listeners, UPnP, relaying.

Believes no setting: sockets are the system's word, p2pd's switches those of its command line.
py-libp2p has no command line; there what was asked for is what the node says of itself.
Source: security.md sections 6 and 7 (M13).
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psutil

from swarmnode.doctor.checks import Check, Result

SWITCHES = ("natPortMap", "autonat", "relay", "relayService", "relayDiscovery", "autoRelay")
"""p2pd's flags that open a router's port, ask others to dial, or carry others' connections."""
_PORT_MAPPING = (1900, 5350, 5351)
"""SSDP of UPnP, and NAT-PMP with PCP."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """What the processes of one node have open."""

    processes: int
    listeners: Sequence[str]
    """On every address but loopback, as "PROCESS tcp 0.0.0.0:4001"."""
    mapping: Sequence[str]
    """Sockets that speak UPnP or NAT-PMP."""
    switches: Sequence[str]
    """Of SWITCHES, those that p2pd has on; of a node without p2pd, settings that are."""
    asked: Sequence[str]
    """Addresses that the network was told to listen on, loopback left out."""


def exposure_of(
    process_id: int, addresses: Sequence[str] = (), asked_for: Sequence[str] = ()
) -> Exposure:
    """Look at the process and all below it; a node without p2pd has told its `addresses` itself,
    and which of `public` and `relay` were asked for.

    Raises psutil.Error where they may not be looked at.
    """
    root = psutil.Process(process_id)
    tree = [root, *root.children(recursive=True)]
    listeners: list[str] = []
    mapping: list[str] = []
    flags: dict[str, str] = {}
    for process in tree:
        name = process.name()
        for each in process.net_connections("inet"):
            kind = "tcp" if each.type == socket.SOCK_STREAM else "udp"
            told = f"{name} {kind} {each.laddr.ip}:{each.laddr.port}" if each.laddr else name
            if each.raddr and each.raddr.port in _PORT_MAPPING:
                mapping.append(told)
            waits = each.status == psutil.CONN_LISTEN or (kind == "udp" and not each.raddr)
            if waits and each.laddr and not ipaddress.ip_address(each.laddr.ip).is_loopback:
                listeners.append(told)
        if name == "p2pd":
            flags |= _flags(process.cmdline())
    return Exposure(
        processes=len(tree),
        listeners=sorted(listeners),
        mapping=sorted(mapping),
        switches=[
            *(each for each in SWITCHES if flags.get(each, "0") not in ("0", "false")),
            *(f"network.{each}" for each in asked_for),
        ],
        asked=list(filter(_open, (*flags.get("hostAddrs", "").split(","), *addresses))),
    )


def exposure_checks(exposure: Exposure | None) -> list[Check]:
    """Judge it: what nobody asked for is a failure, what was asked for a warning."""
    if exposure is None:
        fix = "Start one, and ask again: what is open is seen on a running node."
        return [Check("open-to-others", Result.WARNING, "no node is running with this home", fix)]
    return [_listening(exposure), _switched(exposure)]


def _listening(exposure: Exposure) -> Check:
    name, listeners = "open-to-others", ", ".join(exposure.listeners)
    if not exposure.listeners:
        found = f"{exposure.processes} processes listen on this machine alone"
        return Check(name, Result.OK, found)
    if exposure.asked:
        fix = "--listen or --lan asked for this; leave them out to stay on this machine."
        return Check(name, Result.WARNING, listeners, fix)
    fix = (
        "Unless dashboard.address or metrics.address asked for it nobody did: end the node; "
        "report it."
    )
    return Check(name, Result.FAILED, listeners, fix)


def _switched(exposure: Exposure) -> Check:
    name = "upnp-and-relay"
    if exposure.mapping:
        found = f"asks the router to open ports: {', '.join(exposure.mapping)}"
        return Check(name, Result.FAILED, found, "Nobody asked for this: end the node; report it.")
    if "natPortMap" in exposure.switches:
        return Check(name, Result.FAILED, "p2pd runs with UPnP", "End the node; report it.")
    if exposure.switches:
        found = f"the network runs with {', '.join(exposure.switches)}"
        fix = "--public and network.relay ask for these; leave them out to be without."
        return Check(name, Result.WARNING, found, fix)
    return Check(name, Result.OK, "no UPnP, no AutoNAT, no relaying")


def _open(address: str) -> bool:
    if not address:
        return False
    parts: Mapping[str, str] = dict(
        zip(address.strip("/").split("/")[::2], address.strip("/").split("/")[1::2], strict=False)
    )
    host = parts.get("ip4", parts.get("ip6", ""))
    return not host or not ipaddress.ip_address(host).is_loopback


def _flags(command: Sequence[str]) -> dict[str, str]:
    pairs = (each.lstrip("-").partition("=") for each in command[1:] if each.startswith("-"))
    return {name: value for name, _, value in pairs}
