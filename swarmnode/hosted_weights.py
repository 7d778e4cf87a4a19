"""A trainer's weights on their way out of its host, to the generators of one home."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from swarmnode.config.policy import PolicySettings
from swarmnode.policy.policy import Policy
from swarmnode.policy.spreading import whole
from swarmnode.weights.broadcast_out import BroadcastOut
from swarmnode.weights.channel import WeightsOut
from swarmnode.weights.opening import open_out
from swarmnode.weights.selected import Selected, selected


class PublishedWeights:
    """The weights of one policy, for the generators of the node at `home`; None for no node's."""

    def __init__(self, policy: Policy, settings: PolicySettings, home: str | None) -> None:
        self._policy = policy
        self._settings = settings
        self._home = home
        self._door: tuple[WeightsOut, Selected] | None = None

    def publish(self, version: int, generators: Sequence[int] = ()) -> dict[str, Any]:
        """Hand the weights over as they are, under that number; a broadcast goes to the generators
        of those numbers alone. WeightsError.

        ValueError for a policy without generators, or a number that isn't above the last one. Of a
        policy that is spread over processes all gather, one parameter at a time, and the first one
        hands over.
        """
        source = self._source()
        try:
            return self._publish(version, generators, source) if self._policy.leads else {}
        finally:
            # Whatever became of it here, the others gather to the end.
            for _ in source:
                pass

    def _source(self) -> Iterator[tuple[str, Tensor]]:
        if not self._policy.spread:
            return iter(())
        return ((name, whole(one)) for name, one in self._policy.saved_tensors().items())

    def _publish(
        self, version: int, generators: Sequence[int], source: Iterator[tuple[str, Tensor]]
    ) -> dict[str, Any]:
        if self._door is None:
            if self._home is None:
                raise ValueError("this policy was made without generators")
            sent = (
                Selected(self._policy.saved_tensors(), "")
                if self._policy.spread
                else selected(self._policy.model)
            )
            made = open_out(
                self._settings.weights,
                Path(self._home),
                os.getuid(),
                sent.plan,
                self._settings.generators + self._settings.remote_generators,
                self._policy.device,
                gathered=self._policy.spread,
            )
            self._door = made, sent
        out, sent = self._door
        tensors = source if self._policy.spread else sent.tensors.items()
        done = (
            out.publish_to(generators, version, tensors)
            if isinstance(out, BroadcastOut)
            else out.publish(version, tensors)
        )
        return {"bytes": done.bytes, "seconds": done.seconds, "checksum": done.checksum}

    def close(self) -> None:
        """Take back what is shared: nobody can have it after."""
        if self._door is not None:
            self._door[0].close()
            self._door = None
