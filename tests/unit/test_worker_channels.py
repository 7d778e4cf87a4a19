"""Reward channels in the policy host: lengths are those of its own tokenizer."""

from __future__ import annotations

from typing import Any

import pytest

from swarmnode.hosted_policy import HostedPolicy
from swarmnode.hosted_values import training_group
from swarmnode.policy.saved_state import CheckpointRefused
from tests.unit.resume_support import order, recorded


def hosted(**channels: Any) -> HostedPolicy:
    return HostedPolicy({**order(), "channels": channels})


def test_with_accuracy_alone_no_channel_is_told_of() -> None:
    metrics = hosted().train([recorded(1)])["metrics"]
    assert not [name for name in metrics if name.startswith("channels/")]


def test_a_local_groups_lengths_are_those_of_its_token_ids_and_a_peers_those_of_its_text() -> None:
    host = hosted(length={"weight": 1.0, "form": "step", "target_tokens": 3})
    completions = [["7", "stop", [5, 6, 7, 8], None], ["8", "stop", [5, 1], None]]
    known = {"rewards": [1.0, 0.0], "completions": completions, "total_logprobs": [None, None]}
    peers = recorded(2) | known
    local = peers | {"source": "local"}
    # From a peer the same texts have two tokens each, whatever it says they have.
    for group, paid in ((local, (0.0, 1.0)), (peers, (1.0, 1.0))):
        (encoded,) = host._paying.paid([group], [training_group(host._policy, group)])
        assert encoded.further_channels == {"length": paid}
    assert host.train([local])["metrics"]["channels/mean/length"] == 0.5


def test_an_excluded_completion_is_not_trained_on() -> None:
    metrics = hosted().train([recorded(3) | {"excluded": [0]}])["metrics"]
    assert metrics["completions/excluded_external"] == 1.0


def test_a_policy_with_channels_is_restored_with_their_running_deviation(tmp_path: Any) -> None:
    channels = {"length": {"weight": 1.0, "target_tokens": 3}}
    first, again = hosted(**channels), hosted(**channels)
    first.train([recorded(4) | {"source": "local"}])
    first.save(str(tmp_path), None)
    again.restore(str(tmp_path))
    spread = first._trainer.state_dict()["channel_spread"]
    assert set(spread) == {"accuracy", "length"}
    assert again._trainer.state_dict()["channel_spread"] == spread
    other = {"length": {"weight": 2.0, "target_tokens": 3}}
    with pytest.raises(CheckpointRefused, match=r"rewards.channels.length.weight = 1.0, now it is"):
        hosted(**other).restore(str(tmp_path))
