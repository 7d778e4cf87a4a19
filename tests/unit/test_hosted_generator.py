"""A generator's policy: it is the trainer's, as of the weights that it took last."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch

from swarmnode.config.policy import LoraSettings, PolicySettings
from swarmnode.hosted_generator import HostedGenerator
from swarmnode.hosted_policy import HostedPolicy
from swarmnode.weights.channel import WeightsDamaged, WeightsError, WeightsTorn
from swarmnode.weights.copying import put
from swarmnode.weights.places import place_of
from tests.unit.judge_support import write_classifier
from tests.unit.model_support import disturb, write_model
from tests.unit.resume_support import PROMPTS, order, recorded


def ordered(home: Path, **changes: Any) -> dict[str, Any]:
    return order(**changes) | {"weights_home": str(home)}


Closing = Callable[[Any], Any]


@pytest.fixture
def closed(home: Path) -> Iterator[Closing]:
    """What is passed through it ends with the test."""
    with ExitStack() as stack:

        def remembered(hosted: Any) -> Any:
            stack.callback(hosted.close)
            return hosted

        yield remembered


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    assert not place_of(tmp_path, os.getuid()).exists(), "the test left shared memory behind"


def weights_of(policy: HostedPolicy | HostedGenerator) -> dict[str, torch.Tensor]:
    return {name: one.clone() for name, one in policy._policy.saved_tensors().items()}


def test_it_has_the_trainers_weights_and_answers_as_the_trainer_would(
    home: Path, closed: Closing
) -> None:
    trainer = closed(HostedPolicy(ordered(home)))
    trainer.train([recorded(1)])
    trainer.publish_weights(1)
    # Another seed of the start: nothing of that is left.
    generator = closed(HostedGenerator(ordered(home) | {"shared_seed": 2}))
    assert generator.take_weights() == {"version": 1, "taken": True}
    assert generator.take_weights() == {"version": 1, "taken": False}
    for name, one in weights_of(trainer).items():
        assert torch.equal(one, weights_of(generator)[name]), name
    assert generator.sample(PROMPTS, 4) == trainer.generate(PROMPTS, 4)
    trainer.train([recorded(2)])
    assert generator.sample(PROMPTS, 4) != trainer.generate(PROMPTS, 4)
    trainer.publish_weights(2)
    assert generator.take_weights()["version"] == 2
    assert (
        generator.figures()["tokenizer_fingerprint"] == trainer.figures()["tokenizer_fingerprint"]
    )


def test_weights_go_through_the_folder_where_that_is_set(home: Path, closed: Closing) -> None:
    made = ordered(home)
    made["policy"] = made["policy"] | {"weights": {"channel": "folder"}}
    trainer, generator = closed(HostedPolicy(made)), closed(HostedGenerator(made))
    trainer.publish_weights(3)
    assert len(list((home / "weights").iterdir())) == 1
    assert generator.take_weights() == {"version": 3, "taken": True}


def test_reward_models_beside_it_judge_what_it_samples_as_the_trainers_would(
    home: Path, tmp_path: Path, closed: Closing
) -> None:
    judge = write_classifier(tmp_path / "judge", "bert")
    channels = {"models": [{"name": "judge", "model": str(judge)}]}
    trainer = closed(HostedPolicy(ordered(home) | {"channels": channels}))
    trainer.publish_weights(1)
    generator = closed(HostedGenerator(ordered(home) | {"channels": channels}))
    generator.take_weights()
    (fields,) = generator.sample(PROMPTS[:1], 4)
    said = [told["judge"] for *_, told in fields]
    group = recorded(1) | {
        "prompt": PROMPTS[0],
        "source": "local",
        "completions": [each[:4] for each in fields],
    }
    (paid,) = trainer._paying.paid([group], trainer._encoded([group])[0])
    assert list(paid.further_channels["judge"]) == pytest.approx(said, abs=2e-5)
    (taken,) = trainer._paying.paid(
        [group | {"judged": {"judge": [1.0, 2.0, 3.0, 4.0]}}], trainer._encoded([group])[0]
    )
    assert taken.further_channels["judge"] == (1.0, 2.0, 3.0, 4.0)


def test_it_trains_nothing_and_samples_nothing_before_it_has_weights(
    home: Path, closed: Closing
) -> None:
    generator = closed(HostedGenerator(ordered(home)))
    assert not any(one.requires_grad for one in generator._policy.parameters())
    with pytest.raises(ValueError, match="must be taken"):
        generator.sample(PROMPTS, 4)
    with pytest.raises(WeightsError, match="published no weights"):
        generator.take_weights()


def test_weights_that_are_half_new_are_never_sampled_from(
    home: Path, closed: Closing, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ordered(home)
    made["policy"] = made["policy"] | {"weights": {"channel": "folder"}}
    trainer, generator = closed(HostedPolicy(made)), closed(HostedGenerator(made))
    trainer.publish_weights(1)
    generator.take_weights()
    trainer.train([recorded(1)])
    trainer.publish_weights(2)
    filled = iter(range(100))

    def torn(*piece: Any) -> None:
        if next(filled) == 2:
            raise WeightsDamaged("the file ends early")
        put(*piece)

    monkeypatch.setattr("swarmnode.weights.folder.put", torn)
    with pytest.raises(WeightsTorn):
        generator.take_weights()
    # The folder is out of reach: nothing is there to be taken, and what it has is of no use.
    (home / "weights").rename(home / "away")
    with pytest.raises(WeightsError, match="published no weights"):
        generator.take_weights()
    with pytest.raises(ValueError, match="must be taken"):
        generator.sample(PROMPTS, 4)
    (home / "away").rename(home / "weights")
    assert generator.take_weights() == {"version": 2, "taken": True}
    assert generator.sample(PROMPTS, 4) == trainer.generate(PROMPTS, 4)


def test_a_policy_that_went_back_hands_over_the_weights_that_it_went_back_to(
    home: Path, closed: Closing
) -> None:
    trainer, generator = closed(HostedPolicy(ordered(home))), closed(HostedGenerator(ordered(home)))
    trainer.publish_weights(1)
    generator.take_weights()
    before = weights_of(generator)
    trainer.save(str(home / "checkpoints"), {})
    trainer.train([recorded(1)])
    trainer.publish_weights(2)
    generator.take_weights()
    assert any(not torch.equal(one, before[name]) for name, one in weights_of(generator).items())
    trainer.restore(str(home / "checkpoints"))
    trainer.publish_weights(3)
    assert generator.take_weights() == {"version": 3, "taken": True}
    assert all(torch.equal(one, before[name]) for name, one in weights_of(generator).items())


def half_as_likely(trainer: HostedPolicy) -> dict[str, Any]:
    """A group of its own, as if its sampler had found each token half as likely as it was."""
    groups = trainer.generate(PROMPTS[:1], 8)
    return {
        **recorded(1),
        "prompt": PROMPTS[0],
        "source": "local",
        "rewards": [1.0, 0.0] * 4,
        "total_logprobs": [None] * 8,
        "completions": [
            [text, "stop", ids, [one - 0.6931 for one in logprobs]]
            for text, _, ids, logprobs in groups[0]
        ],
    }


def test_own_samples_of_a_policy_that_moved_on_are_weighed_by_what_sampled_them(
    home: Path, closed: Closing
) -> None:
    trainer = closed(HostedPolicy(ordered(home)))
    told = half_as_likely(trainer)
    figures = trainer.train([told])
    assert figures["treatments"][0][0] == "full"
    assert figures["metrics"]["sampling/importance_sampling_ratio/mean"] == pytest.approx(2.0, 0.01)
    alone = HostedPolicy(order())
    assert alone.train([told])["treatments"][0][0] == "none"
    # What the ratio is taken against isn't weighed a second time.
    made = ordered(home)
    made["training"] = made["training"] | {"ratio_denominator": "sampler"}
    assert closed(HostedPolicy(made)).train([told])["treatments"][0][0] == "none"


def test_a_checkpoint_goes_on_in_either_mode(home: Path, closed: Closing) -> None:
    together = HostedPolicy(order())
    together.train([recorded(1)])
    together.save(str(home / "checkpoints"), {"round": 1})
    split = ordered(home)
    split["policy"] = {**split["policy"], "mode": "split", "generators": 3, "max_policy_lag": 1}
    split["policy"]["weights"] = {"channel": "folder"}
    apart = closed(HostedPolicy(split))
    found = apart.restore(str(home / "checkpoints"))["restored"]
    assert found["version"] == 2
    assert all(
        torch.equal(one, weights_of(apart)[name]) for name, one in weights_of(together).items()
    )


def test_with_adapters_these_alone_are_handed_over_on_the_same_base(
    home: Path, closed: Closing
) -> None:
    pytest.importorskip("peft")
    small = write_model(home / "small")
    policy = PolicySettings(model=str(small), max_new_tokens=4, lora=LoraSettings(rank=2))
    asked = ordered(home) | {"policy": policy.model_dump()}
    trainer = closed(HostedPolicy(asked))
    disturb(trainer._policy)
    sent = trainer.publish_weights(5)
    generator = closed(HostedGenerator(asked))
    assert generator.take_weights()["version"] == 5
    assert sent["bytes"] == sum(one.nbytes for one in trainer._policy.saved_tensors().values())
    assert generator.sample(PROMPTS, 4) == trainer.generate(PROMPTS, 4)
