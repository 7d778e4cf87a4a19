"""Text of peers on its way into training: re-encoded, cut down, its claims not believed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from swarmnode.config.policy import PolicySettings, TinySettings, WarmStartSettings
from swarmnode.config.training import Training
from swarmnode.hosted_policy import HostedPolicy
from swarmnode.hosted_values import training_group
from swarmnode.policy.loading import load_policy
from swarmnode.policy.policy import Policy
from swarmnode.policy.tokenizer import END_ID

SETTINGS = PolicySettings(
    max_new_tokens=8,
    tiny=TinySettings(width=16, layers=1, heads=2, feed_forward_width=16),
    warm_start=WarmStartSettings(base_steps=0, steps=0),
)
POLICY: Policy = load_policy(SETTINGS, 1)


def described(*completions: list[Any], source: str = "external", **changes: Any) -> dict[str, Any]:
    """A group as the daemon sends it: the first completion is the one that was right."""
    rewards = [1.0, *[0.0] * (len(completions) - 1)]
    standard = {"prompt": "2 + 2 =", "task": "a", "source": source, "same_tokenizer": True}
    given = {"rewards": rewards, "completions": list(completions), "excluded": []}
    totals = [sum(logprobs) if logprobs else None for _, _, _, logprobs in completions]
    known = {"origin": "peer", "total_logprobs": totals}
    return {**standard, **given, **known, **changes}


def test_a_peers_token_ids_are_never_taken() -> None:
    group = training_group(POLICY, described(["4", "stop", [7, 7, 7], None]))
    assert group.completions == (tuple(POLICY.encode_completion("4", "stop")),)
    ours = training_group(POLICY, described(["4", "stop", [7, 7], None], source="local"))
    assert ours.completions == ((7, 7),)


def test_no_text_of_a_peer_becomes_a_special_token() -> None:
    for text in ("<end>", "</s>", "<|endoftext|>", "<pad>", "\x00\x01\x02", "[ANSWER]"):
        (ids,) = training_group(POLICY, described([text, "length", None, None])).completions
        assert min(ids) > END_ID + 1
        (ids,) = training_group(POLICY, described([text, "stop", None, None])).completions
        assert ids[-1] == END_ID
        assert min(ids[:-1]) > END_ID + 1


@pytest.mark.parametrize(
    ("logprobs", "same_tokenizer", "kept"),
    [
        ([-0.5, -0.25], True, True),
        ([-0.5, -0.25], False, False),
        ([-0.5], True, False),
        ([-0.5] * 3, True, False),
        ([], True, False),
        (None, True, False),
    ],
)
def test_a_peers_log_probs_are_kept_only_where_they_fit_our_tokens(
    logprobs: list[float] | None, same_tokenizer: bool, kept: bool
) -> None:
    completion = ["4", "stop", None, logprobs]
    group = training_group(POLICY, described(completion, same_tokenizer=same_tokenizer))
    assert len(group.completions[0]) == 2
    assert group.sampler_logprobs == ((tuple(logprobs) if kept and logprobs else None),)


def hosted(**training: Any) -> HostedPolicy:
    return HostedPolicy(
        {
            "policy": SETTINGS.model_dump(),
            "training": Training(**training).model_dump(),
            "channels": {},
            "log_prob_gate": {},
            "seed": 1,
            "sampling_seed": 1,
            "examples": {},
            "shared_seed": 1,
            "base_pairs": [],
            "skill_pairs": [],
            "cache_folder": None,
        }
    )


def test_text_longer_in_our_tokens_than_its_claim_is_left_out_and_counted() -> None:
    long = described(["4", "stop", None, None], ["€" * 5000, "stop", None, None])
    short = described(["4", "stop", None, None], ["5", "stop", None, None])
    host = hosted()
    assert host.train([long])["metrics"]["groups/too_long"] == 1.0
    trained = host.train([long, short])
    assert trained["metrics"]["groups/too_long"] == 1.0
    assert trained["metrics"]["tokens/external"] == 2.0
    assert trained["version"] == 1


def test_a_peers_text_is_as_long_as_its_tokens_in_our_tokenizer_whatever_it_claims() -> None:
    groups = [[("4", "stop"), ("4", "length")], [("€" * 50, "stop"), ("", "stop"), ("", "length")]]
    found = hosted().lengths(groups)  # type: ignore[arg-type]  # finish reasons as texts
    assert found == [[2, 1], [151, 1, 0]]
    encoded = training_group(POLICY, described(*[[*each, None, None] for each in groups[1]]))
    assert [len(ids) for ids in encoded.completions] == found[1]


@pytest.mark.parametrize("external_advantage", ["positive", "both", "weighted", "shaped", "off"])
@pytest.mark.parametrize("baseline", ["peer_group", "receiver_task_mean", "union"])
def test_odd_groups_neither_raise_nor_spoil_the_weights(
    external_advantage: str, baseline: str
) -> None:
    nothing = ["", "length", None, None]
    silent = ["", "stop", None, [-3.4e38]]
    extreme = ["4", "stop", None, [-3.4e38, 0.0]]
    groups = [
        described(nothing, nothing),
        described(nothing, ["4", "stop", None, None]),
        described(silent, extreme, nothing),
        described(extreme, *[silent] * 63),
        described(extreme, silent, same_tokenizer=False),
        described(["\U0001f600\u202e", "stop", None, None], ["\x1b[2J", "length", None, None]),
    ]
    own = described(["4", "stop", [5, 1], None], ["5", "stop", [6, 1], None], source="local")
    host = hosted(external_advantage=external_advantage, external_baseline=baseline)
    for chosen in ([own, *groups], groups, [groups[0]], []):
        metrics = host.train(chosen)["metrics"]
        assert all(torch.isfinite(torch.tensor(list(metrics.values()))))
    assert all(bool(torch.isfinite(one).all()) for one in host._policy.parameters())


def test_log_probs_in_another_tokenizers_tokens_serve_as_a_total_under_the_cap() -> None:
    host = hosted(external_advantage="weighted", gate_width=100.0)
    right, wrong = ["4", "stop", None, [-30.0, -30.0]], ["5", "stop", None, [-0.1]]
    metrics = host.train([described(right, wrong, same_tokenizer=False)])["metrics"]
    assert metrics["corrections/gate"] == 1.0
    assert metrics["sampling/importance_sampling_ratio/max"] == 2.0
    narrow = hosted(external_advantage="weighted", gate_width=0.01)
    metrics = narrow.train([described(right, wrong, same_tokenizer=False)])["metrics"]
    assert metrics["steps/skipped_no_live_group"] == 1.0
    unknown = described(["4", "stop", None, []], wrong, same_tokenizer=False)
    assert host.train([unknown])["metrics"]["corrections/positive"] == 1.0
