"""Keeping generators placed, with Ray left out: see test_cluster.py."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from swarmnode.cluster.cluster import ClusterError
from swarmnode.cluster.places import MachineOfCluster, Wanted
from swarmnode.placing import keep_placed
from swarmnode.process import ChildRefused
from tests.unit.test_cluster import CHILDREN, LARGE, WithoutRay


class Generators(WithoutRay):
    """A cluster whose generators are the children of the tests, and end in some way."""

    def connect(self, cores: int) -> Sequence[MachineOfCluster]:
        return [LARGE]

    async def placed(self, wanted: Wanted, seconds: float) -> tuple[MachineOfCluster, int]:
        if len(self.told) > 5:
            raise ClusterError("the Ray cluster was lost")
        return await super().placed(Wanted(wanted.name, CHILDREN, {}), seconds)

    @property
    def lost(self) -> bool:
        return len(self.told) > 5


def test_a_generator_that_is_lost_is_placed_anew_until_the_cluster_is_lost() -> None:
    generators = Generators()
    order = {"threads": 1, "key": "a machine that dies"}
    with pytest.raises(ClusterError, match="was lost"):
        keep_placed(generators, 1, order, gpus=0, pause=0.01)
    begun = [line for line in generators.told if line == "generator 1 begins on large (bbbbbbbb)"]
    again = [line for line in generators.told if "it is placed anew" in line]
    assert len(begun) == len(again) == 3
    generators.close_now()


def test_a_reason_that_lasts_ends_them_all() -> None:
    generators = Generators()
    order = {"threads": 1, "key": "there is no key here"}
    with pytest.raises(ChildRefused, match="there is no key here"):
        keep_placed(generators, 2, order, gpus=0)
    generators.close_now()
