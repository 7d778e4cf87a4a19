"""`swarmnode generate`: a generator on this machine for a node on another one."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from swarmnode.cli.clusters import check_cluster
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
    cluster: Annotated[
        str | None,
        typer.Option(
            help="ray:HOST:PORT: on the machines of that Ray cluster, all of which have the key "
            "file at the same path."
        ),
    ] = None,
    places: Annotated[int, typer.Option(help="Generators on the cluster.", min=1, max=64)] = 1,
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
    if cluster is not None:
        order = {
            "host": host.strip("[]"),
            "port": int(port),
            "key": str(key.absolute()),
            "model": model,
            "device": device,
            "weights_folder": folder,
            "threads": threads,
        }
        place(order, cluster, places)
        return
    if places != 1:
        raise Mistake("--places needs --cluster ray:HOST:PORT")
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


def place(order: Mapping[str, Any], where: str, count: int) -> None:
    """Have Ray keep so many generators, until Ctrl-C or SIGTERM."""
    from swarmnode.cluster.cluster import Cluster, address_of
    from swarmnode.config.simulation import cluster_text
    from swarmnode.placing import keep_placed
    from swarmnode.process import ChildError

    try:
        cluster_text(where)
    except ValueError as error:
        raise Mistake(f"--cluster {where}: {error}") from error
    check_cluster(where, os.environ)

    def say(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    descriptor, log = tempfile.mkstemp(prefix="swarmnode-cluster-", suffix=".log")
    os.close(descriptor)
    cluster = Cluster(address_of(where), os.environ, Path(log), say)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        say(f"placing generators for {order['host']}:{order['port']}; Ctrl-C ends them ({log})")
        keep_placed(cluster, count, order, gpus=1 if order["device"] == "cuda" else 0)
    except KeyboardInterrupt:
        say("stopping: batches under way are lost to the node")
    except ChildError as error:
        raise Mistake(str(error), Exit.FAILURE) from error
    finally:
        cluster.close_now()
