"""A generator that Ray placed: `swarmnode generate` without a terminal, as the child of an actor.

Started as `python -m swarmnode.placed_generator FD` on the machine that was chosen. It has one
request, which lasts as long as the generator: when whoever placed it goes, so does this process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swarmnode.generating import Here, run
from swarmnode.generator_key import GeneratorKeyError, tls_by
from swarmnode.observe.log import start_logging
from swarmnode.process import Refusal, inherited_socket, serve


def generate(order: Mapping[str, Any]) -> None:
    """Generate for the node at an address, to the end. Raises Refusal: no key here, or no such."""
    try:
        tls = tls_by(Path(order["key"]), serves=False)
    except GeneratorKeyError as error:
        raise Refusal(f"{os.uname().nodename}: {error}") from error
    here = Here(order["model"], order["device"], order["weights_folder"], order["threads"])
    logging = start_logging(None, "generator", terminal=sys.stderr)
    try:
        run((order["host"], order["port"]), tls, here, dict(os.environ))
    finally:
        logging.close()


if __name__ == "__main__":
    serve({"generate": generate}, inherited_socket(sys.argv[1:]))
