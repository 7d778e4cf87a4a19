"""A private swarm and somebody without its key: two nodes, a bootstrap peer, and an outsider."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from swarmnode.cli.choosing import swarm_of
from swarmnode.observe.status import StatusDocument
from swarmproto import generate_swarm_key
from tests.real.real_support import (
    assert_no_round_lost,
    exceptions,
    external,
    patience,
    place,
    rounds_after,
    said,
    until,
    wait_connected,
    wait_for_others,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


def test_two_members_train_on_each_others_groups_and_an_outsider_hears_of_nobody(
    tmp_path: Path,
) -> None:
    with place(tmp_path) as here:
        private = swarm_of(here.settings, "friends", (), generate_swarm_key())
        file, rules = tmp_path / "friends.toml", tmp_path / "rules.toml"
        file.write_text(private.text)
        bootstrap, address = here.bootstrap("bootstrap", str(file))
        file.write_text(replace(private, bootstrap=(address,)).text)
        # The same rules and the same way in, without the key.
        rules.write_text(replace(private, bootstrap=(address,), key=b"").text)
        members = [here.run(name, str(file)) for name in ("0", "1")]
        outsider = here.run("outsider", str(rules))
        nodes = [*members, outsider]
        statuses = [wait_connected(node) for node in nodes]
        begun = time.monotonic()
        for member in members:
            wait_for_others(member)
        print(f"members trained on each other {time.monotonic() - begun:.1f} s after they joined")
        moment = time.time()
        until(lambda: len(rounds_after(outsider, moment)) >= 4, patience(40), "the outsider trains")

        swarms = [status.swarm for status in statuses]
        assert [each.private for each in swarms if each] == [True, True, False]
        assert len({each.id for each in swarms if each}) == 2

        def knows_the_stranger() -> StatusDocument | None:
            found = bootstrap.status()
            return found if found and found.network.strangers == 1 else None

        told = until(knows_the_stranger, patience(20), "the bootstrap peer knows the stranger")
        assert told.swarm
        assert told.swarm.private
        assert told.network.peers == 3
        names = [status.node.public_key[:16] for status in statuses]
        for member, other in zip(members, names[1::-1], strict=True):
            assert {peer for report in member.reports() for peer in report.sources} == {other}
        assert not any(map(external, outsider.reports()))
        seen = outsider.status()
        assert seen
        assert seen.network.state == "connected"
        assert not seen.dropped
        for node in (*nodes, bootstrap):
            assert node.process.poll() is None
            assert private.key.hex() not in said(node)
            assert private.key.hex() not in "".join(
                path.read_text("utf-8", "replace") for path in node.home.log.iterdir()
            )
        for node in nodes:
            assert exceptions(node) == []
            assert_no_round_lost(node)
