"""Pictures of the dashboard for the README: a small swarm of real nodes, seen by a real browser.

    python -m tests.real.picturing [--rounds 60] [--out docs/images]

Needs Debian's chromium and chromium-driver. Ends everything that it starts.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

from swarmnode.api.secret import address_of, read_secret
from tests.real.browser import Browser, browser, browser_there
from tests.real.real_support import Place, place, said

NODES = 3
ASSIGNMENTS = (
    'tasks.names=["basic_arithmetic", "binary_matrix", "decimal_arithmetic", '
    '"fraction_simplification"]',
    "policy.warm_start.base_steps=500",
    "policy.warm_start.steps=30",
    "policy.max_new_tokens=40",
    "evaluation.questions_per_task=25",
    "evaluation.every_rounds=10",
    "selection.filter=nonzero-advantage",
    "scheduling.kind=sec",
    "dashboard.enabled=true",
    "dashboard.port=0",
)
WIDE, TALL, PHONE = 1180, 1000, (390, 844)
SETTLE_SECONDS = 5.0


def main() -> int:
    """Start the swarm, wait for its rounds, and take the pictures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--minutes", type=float, default=20.0, help="the longest wait")
    options = parser.parse_args()
    if not browser_there():
        sys.stderr.write("apt-get install chromium chromium-driver\n")
        return 3
    with (
        tempfile.TemporaryDirectory(prefix="pictures") as folder,
        place(Path(folder), *ASSIGNMENTS) as here,
    ):
        address = page_of(here, options.rounds, time.monotonic() + 60.0 * options.minutes)
        options.out.mkdir(parents=True, exist_ok=True)
        with browser() as seen:
            for name, picture in pictures(seen, address).items():
                small = few_colours(picture)
                (options.out / name).write_bytes(small)
                print(f"{options.out / name}  {len(small) / 1024:.0f} KiB")
    return 0


def few_colours(picture: bytes) -> bytes:
    """The same PNG with a palette, at about a third of its size."""
    small = io.BytesIO()
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(128).save(small, "PNG", optimize=True)
    return small.getvalue()


def page_of(here: Place, rounds: int, deadline: float) -> str:
    """The first node's page, once it has gone through so many rounds or the time is over."""
    _, bootstrap = here.bootstrap()
    nodes = [here.run(f"node-{number}", bootstrap) for number in range(NODES)]
    while time.monotonic() < deadline:
        status = nodes[0].status()
        if status and status.dashboard and status.round and status.round.number > rounds:
            return address_of(status.dashboard, read_secret(nodes[0].home.dashboard_secret))
        if nodes[0].process.poll() is not None:
            break
        time.sleep(1.0)
    raise SystemExit(f"the node did not get through {rounds} rounds:\n{said(nodes[0])[-2000:]}")


def pictures(seen: Browser, address: str) -> dict[str, bytes]:
    """By file name."""
    seen.window(WIDE, TALL)
    seen.open(address)
    time.sleep(SETTLE_SECONDS)
    taken = {"dashboard.png": seen.picture()}
    for part in ("swarm", "answers"):
        seen.run(
            "document.getElementById(arguments[0]).scrollIntoView({behavior: 'instant'})", part
        )
        taken[f"dashboard-{part}.png"] = seen.picture()
    seen.window(*PHONE, dark=True, mobile=True)
    seen.run("scrollTo(0, 0)")
    time.sleep(SETTLE_SECONDS)
    taken["dashboard-phone.png"] = seen.picture()
    return taken


if __name__ == "__main__":
    sys.exit(main())
