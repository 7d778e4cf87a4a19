"""Asks a running node of any implementation whether it keeps the protocol, over a real connection.

    python protocol/conformance/run.py --rules HEX [--key HEX] ADDRESS

ADDRESS is a multiaddr that ends in /p2p/PEER, `--rules` the rules of its swarm as encoded bytes,
`--key` a private swarm's key. It needs swarmproto, msgpack, libp2p and trio. A line for each
promise; the exit code is 1 where one is broken and 2 where the node can't be reached.
"""

import argparse
import logging
import os
import sys

import trio
from asking import NoAnswer, asking
from checks import CHECKS, Broken, Skipped, Trial
from made import Maker

import swarmproto as wire

BETWEEN_SECONDS = 0.3
"""Between checks: a node may give a stranger five answers a second, and bounds what it takes."""


async def outcome(trial: Trial, name: str) -> str:
    """`ok`, `skipped: why` or `BROKEN: why`."""
    try:
        await CHECKS[name](trial)
    except Skipped as why:
        return f"skipped: {why}"
    except (Broken, NoAnswer, wire.WireError) as why:
        return f"BROKEN: {type(why).__name__}: {why}"
    return "ok"


async def run(address: str, rules_bytes: bytes, key: bytes) -> int:
    """The exit code."""
    secret = wire.SwarmSecret(key) if key else None
    rules = wire.decode_rules(rules_bytes)
    maker, own_key = Maker(wire.swarm_id(rules, secret), rules), os.urandom(32)
    broken = 0
    async with asking(address, own_key, secret) as connection:
        trial = Trial(connection, maker, rules_bytes, own_key)
        for name in CHECKS:
            found = await outcome(trial, name)
            broken += found.startswith("BROKEN")
            print(f"{name}: {found}", flush=True)
            await trio.sleep(BETWEEN_SECONDS)
    return 1 if broken else 0


def main() -> int:
    """See above."""
    parser = argparse.ArgumentParser(description="Whether a node keeps the protocol.")
    parser.add_argument("address")
    parser.add_argument("--rules", required=True, type=bytes.fromhex)
    parser.add_argument("--key", default=b"", type=bytes.fromhex)
    asked = parser.parse_args()
    logging.getLogger("libp2p").setLevel(logging.CRITICAL)
    try:
        return trio.run(run, asked.address, asked.rules, asked.key)
    except Exception as error:  # py-libp2p raises what it likes
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        print(f"it can't be asked: {type(error).__name__}: {error}")
        return 2


if __name__ == "__main__":
    sys.exit(main())
