"""`--cluster`: whether a Ray cluster can be asked for at all."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from swarmnode.cli.exits import Exit, Mistake


def check_cluster(cluster: str, environment: Mapping[str, str]) -> None:
    """Raise Mistake without the package, or where it isn't clear which cluster is meant."""
    if importlib.util.find_spec("ray") is None:
        raise Mistake(
            f"--cluster {cluster} needs the package ray: pip install 'swarmnode-rl[cluster]'",
            Exit.CONFIG,
        )
    if cluster == "ray" and (running := environment.get("RAY_ADDRESS")):
        raise Mistake(
            f"--cluster ray begins a Ray of its own, but RAY_ADDRESS names one: give --cluster "
            f"ray:HOST:PORT with the address of that ({running}), or unset RAY_ADDRESS"
        )
