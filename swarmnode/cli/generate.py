"""`swarmnode generate`: a generator on this machine for a node on another one."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from swarmnode.cli.exits import Exit, Mistake


def generate(
    of: Annotated[
        str,
        typer.Option("--of", metavar="HOST:PORT", help="The node's policy.generators_address."),
    ],
    key: Annotated[Path, typer.Option(help="The node's generators.pem, copied to this machine.")],
    model: Annotated[
        str | None, typer.Option(help="A folder here that holds the node's model.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="auto, cpu, cuda or mps; without it as the node's.")
    ] = None,
    weights_folder: Annotated[
        Path | None,
        typer.Option(help="Where the folder that carries the weights is on this machine."),
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads to compute with.", min=1, max=256)] = 1,
) -> None:
    """Generate for a node that trains elsewhere, until Ctrl-C (docs/scaling.md).

    The node must want it: policy.mode=split, policy.remote_generators and
    policy.generators_address.
    """
    from swarmnode.generating import Here, run
    from swarmnode.generator_key import GeneratorKeyError, tls_by
    from swarmnode.observe.log import start_logging

    host, _, port = of.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise Mistake(f"--of {of}: write it as HOST:PORT, as the node's policy.generators_address")
    if device not in (None, "auto", "cpu", "cuda", "mps"):
        raise Mistake(f"--device {device}: choose one of auto, cpu, cuda, mps")
    folder = None if weights_folder is None else str(weights_folder.absolute())
    try:
        tls = tls_by(key, serves=False)
    except GeneratorKeyError as error:
        raise Mistake(str(error), Exit.CONFIG) from error
    here = Here(model, device, folder, threads)
    sys.stdout.write(f"generating for {of}; Ctrl-C ends it\n")
    sys.stdout.flush()
    logging = start_logging(None, "generator", terminal=sys.stderr)
    try:
        run((host.strip("[]"), int(port)), tls, here, dict(os.environ))
    finally:
        logging.close()
