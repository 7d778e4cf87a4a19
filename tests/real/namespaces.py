"""Machines of their own for tests: network namespaces, plugged into one switch, or behind a router.

Linux, as root. Whatever was made is gone at the end, and what an interrupted test left before.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.real.elsewhere import python_elsewhere
from tests.real.real_support import until

SWITCH = "swarmnode-switch"


def ip(command: str) -> str:
    """What `ip` says. Raises CalledProcessError."""
    done = subprocess.run(["ip", *command.split()], check=True, capture_output=True, text=True)
    return done.stdout


@contextmanager
def namespace(name: str) -> Iterator[str]:
    """A network namespace with a loopback of its own; skips where none can be made."""
    if os.getuid() != 0 or not shutil.which("ip"):
        pytest.skip("network namespaces need root and the program ip")
    subprocess.run(["ip", "netns", "del", name], capture_output=True)
    added = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if added.returncode:
        pytest.skip(f"no network namespace can be made here: {added.stderr.strip()}")
    try:
        ip(f"-n {name} link set lo up")
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True, capture_output=True)


@contextmanager
def switched(addresses: Sequence[str]) -> Iterator[list[str]]:
    """A namespace for each address such as 10.77.0.1/24, all on one switch of their own."""
    with ExitStack() as stack:
        stack.enter_context(namespace(SWITCH))
        ip(f"-n {SWITCH} link add name switch type bridge")
        ip(f"-n {SWITCH} link set switch up")
        names = []
        for number, address in enumerate(addresses):
            name = stack.enter_context(namespace(f"swarmnode-machine{number}"))
            plug(name, number)
            ip(f"-n {name} addr add {address} dev eth0")
            names.append(name)
        yield names


def plug(name: str, number: int) -> None:
    """Give a namespace an interface eth0, up and without an address, at a port of the switch."""
    ip(f"-n {SWITCH} link add port{number} type veth peer name eth0 netns {name}")
    ip(f"-n {SWITCH} link set port{number} master switch up")
    ip(f"-n {name} link set eth0 up")


@contextmanager
def behind_router(router: str, name: str) -> Iterator[str]:
    """A namespace behind address translation in user space, which leads out by way of `router`.

    What is inside can dial, and nobody can dial it. Skips without slirp4netns.
    """
    program = shutil.which("slirp4netns")
    if program is None:
        pytest.skip("address translation needs slirp4netns (docs/contributing.md)")
    with namespace(name):
        command = ["ip", "netns", "exec", router, program, "--configure", "--mtu=1500"]
        command += ["--disable-host-loopback", "--netns-type=path", f"/run/netns/{name}", "tap0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as slirp:
            try:
                until(lambda: "inet " in ip(f"-n {name} addr show"), 20, "an address inside")
                yield name
            finally:
                slirp.kill()


@contextmanager
def behind_linux_router(router: str, name: str) -> Iterator[str]:
    """A namespace behind the kernel's own address translation, as in most routers at home.

    One port inside has one port outside, whoever is dialled, and nobody gets in who was not
    dialled: what hole punching needs, unlike slirp4netns. Skips without nft, or where the kernel
    has none of it.
    """
    if shutil.which("nft") is None:
        pytest.skip("the kernel's address translation needs nft (docs/contributing.md)")
    with namespace(name):
        ip(f"-n {router} link add inside type veth peer name eth0 netns {name}")
        ip(f"-n {router} addr add 192.168.0.1/24 dev inside")
        ip(f"-n {router} link set inside up")
        ip(f"-n {name} link set eth0 up")
        ip(f"-n {name} addr add 192.168.0.2/24 dev eth0")
        ip(f"-n {name} route add default via 192.168.0.1")
        rules = """
            table ip router {
              chain out { type nat hook postrouting priority 100; oifname "eth0" masquerade; }
              chain in { type filter hook input priority 0; iifname "eth0" ct state new drop; }
            }"""
        inside = ["ip", "netns", "exec", router]
        subprocess.run([*inside, "sysctl", "-qw", "net.ipv4.ip_forward=1"], check=True)
        made = subprocess.run(
            [*inside, "nft", "-f", "-"], input=rules, capture_output=True, text=True
        )
        if made.returncode:
            pytest.skip(f"no address translation by this kernel: {made.stderr.strip()}")
        yield name


def python_in(name: str, folder: Path) -> Path:
    """A Python in a namespace, as on another machine."""
    elsewhere = python_elsewhere(folder / f"in-{name}")
    program = folder / f"python-in-{name}"
    program.write_text(f'#!/bin/sh\nexec ip netns exec {name} {elsewhere} "$@"\n')
    program.chmod(0o700)
    return program
