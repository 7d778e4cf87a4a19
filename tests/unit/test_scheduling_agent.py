"""The agents' parts: density, sizes, losses against torchrl's, going on exactly after a kill."""

from __future__ import annotations

import io
import math
import random
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Dirichlet

from swarmnode.config.scheduling import Hds, Kind
from swarmnode.config.settings import load_settings
from swarmnode.observe.metrics import METRICS
from swarmnode.scheduling.agent.build import Scheduled, build
from swarmnode.scheduling.agent.chance import Chance
from swarmnode.scheduling.agent.losses import temperature_loss
from swarmnode.scheduling.agent.networks import Actor, Block, Critics, drawn, log_density
from swarmnode.scheduling.agent.replay import Replay, Transitions
from swarmnode.scheduling.agent.sac import SoftActorCritic, target_entropy
from swarmnode.scheduling.agent.sizes import PAPER, Size, size_for
from swarmnode.scheduling.agent.vector import Vector
from swarmnode.scheduling.observation import Layout, observation
from swarmnode.scheduling.scheduler import Outcome, State, advance, beginning

LAYOUT = Layout(domains=3, layers=2, absolute=True)
SMALL = Size(width=16, layers=1, feedforward=32, head=32)
SCHEDULED = Scheduled(domains=3, layers=2, model_parameters=800_000, total_steps=40, seed=5)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """As in the policy host: threads only wait for one another in networks this small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def made(settings: Hds | None = None) -> SoftActorCritic:
    with Chance(0).drawing():
        return SoftActorCritic(LAYOUT, SMALL, (0.5, 0.3, 0.2), settings or Hds())


def a_batch(count: int = 16) -> Transitions:
    with Chance(1).drawing():
        return Transitions(
            torch.randn(count, LAYOUT.length),
            Dirichlet(torch.ones(3)).sample((count,)),
            torch.randn(count),
            torch.randn(count, LAYOUT.length),
        )


def test_the_density_is_a_true_one_on_the_shares() -> None:
    concentrations = torch.tensor([2.5, 1.2, 4.0], dtype=torch.float64)
    steps = 400
    axis = (torch.arange(steps, dtype=torch.float64) + 0.5) / steps
    first, second = torch.meshgrid(axis, axis, indexing="ij")
    inside = first + second < 1.0
    points = torch.stack((first[inside], second[inside], 1.0 - first[inside] - second[inside]), -1)
    mass = log_density(concentrations.expand(len(points), 3), points).exp().sum() / steps**2
    assert float(mass) == pytest.approx(1.0, abs=5e-3)


def test_the_density_is_finite_and_has_a_gradient_where_a_share_is_nothing() -> None:
    concentrations = torch.tensor([[2.0, 1.0, 1.0001]], requires_grad=True)
    density = log_density(concentrations, torch.tensor([[1.0, 0.0, 0.0]]))
    density.sum().backward()  # type: ignore[no-untyped-call]
    assert math.isfinite(float(density.detach()))
    assert concentrations.grad is not None
    assert bool(concentrations.grad.isfinite().all())


def test_an_untrained_actor_tends_to_the_static_weights() -> None:
    concentrations = made().actor(torch.zeros(1, LAYOUT.length))[0].detach() - 1.0
    assert (concentrations / concentrations.sum()).tolist() == pytest.approx(
        [0.5, 0.3, 0.2], abs=0.02
    )


def test_actors_are_told_apart_domains_and_critics_see_shares() -> None:
    agent = made()
    seen = torch.zeros(2, LAYOUT.length)
    values = agent.critics(seen, torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
    assert values.shape == (2, 2)
    for of_one in values.detach():
        assert float((of_one[0] - of_one[1]).abs()) > 0.0
    assert not torch.equal(*values.detach())


def test_the_papers_networks_have_the_papers_size() -> None:
    layout = Layout(domains=22, layers=9, absolute=False)
    with torch.device("meta"):
        actor, critics = Actor(layout, PAPER, (1 / 22,) * 22), Critics(layout, PAPER)
    actor_size, of_both = (sum(p.numel() for p in n.parameters()) for n in (actor, critics))
    assert actor_size + 2 * of_both == pytest.approx(26.5e6, rel=0.02)


@pytest.mark.parametrize("model", [1_000_000, 135_000_000, 1_010_000_000])
def test_a_network_has_about_half_a_percent_of_the_models_parameters(model: int) -> None:
    size = size_for(model, 0.005)
    assert 0.003 <= size.parameters / model <= 0.015


def test_the_count_of_a_size_is_that_of_the_network_but_for_a_few() -> None:
    with torch.device("meta"):
        critic = Critics(LAYOUT, PAPER, members=1)
    count = sum(p.numel() for p in critic.parameters())
    assert count == pytest.approx(PAPER.parameters, rel=0.005)


@pytest.mark.parametrize("domains", [2, 3, 9, 22])
def test_the_target_entropy_can_be_reached_where_minus_k_cannot(domains: int) -> None:
    highest = -math.lgamma(domains)
    assert float(_entropy(torch.ones(domains))) == pytest.approx(highest)
    assert target_entropy(domains, Hds()) < highest
    paper = target_entropy(domains, Hds.model_validate({"variant": "paper"}))
    assert (paper > highest) is (domains >= 9)


class _Wrapped(nn.Module):
    """A network with torchrl's shapes: values as (batch, 1)."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *inputs: Tensor) -> Tensor:
        value: Tensor = self.inner(*inputs)
        return value[0].unsqueeze(-1)


class _Shares(Dirichlet):
    """Our density under torchrl, which hands the parameters over by name."""

    def __init__(self, concentration: Tensor) -> None:
        super().__init__(concentration, validate_args=False)


@pytest.mark.filterwarnings("ignore")
def test_the_losses_are_those_of_torchrl_on_the_same_batch() -> None:
    from tensordict import TensorDict
    from tensordict.nn import ProbabilisticTensorDictModule, TensorDictModule
    from tensordict.nn import ProbabilisticTensorDictSequential as Sequential
    from torchrl.objectives import SACLoss

    agent, batch = made(), a_batch()
    with Chance(9).drawing(), torch.no_grad():
        # Targets that differ from their critics, as after many updates.
        for parameter in agent.targets.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    actor = Sequential(
        TensorDictModule(agent.actor, ["observation"], ["concentration"]),
        ProbabilisticTensorDictModule(
            ["concentration"], ["action"], distribution_class=_Shares, return_log_prob=True
        ),
    )
    critics = [
        TensorDictModule(_Wrapped(one), ["observation", "action"], ["state_action_value"])
        for one in (_member(agent.critics, 0), _member(agent.critics, 1))
    ]
    theirs = SACLoss(
        actor_network=actor,
        qvalue_network=critics,
        num_qvalue_nets=2,
        loss_function="l2",
        alpha_init=0.1,
        target_entropy=target_entropy(3, Hds()),
        delay_qvalue=True,
    )
    theirs.make_value_estimator(gamma=0.95)
    _copy_targets(theirs, agent)
    count = len(batch.rewards)
    nothing = torch.zeros(count, 1, dtype=torch.bool)
    data = TensorDict(
        {
            "observation": batch.observations,
            "action": batch.shares,
            "next": TensorDict(
                {
                    "observation": batch.next_observations,
                    "reward": batch.rewards.unsqueeze(-1),
                    "done": nothing,
                    "terminated": nothing,
                },
                batch_size=[count],
            ),
        },
        batch_size=[count],
    )
    with Chance(3).drawing():
        of_critics, _ = theirs.qvalue_v2_loss(data.clone())
    with Chance(3).drawing():
        our_critics = agent.critic_loss(batch)
    with Chance(4).drawing():
        of_actor, told = theirs.actor_loss(data.clone())
    with Chance(4).drawing():
        our_actor, log_densities = agent.actor_loss(batch.observations)
    of_temperature = theirs.alpha_loss(told["log_prob"])
    our_temperature = temperature_loss(
        agent.log_temperature, log_densities, target_entropy(3, Hds())
    )
    # Theirs keeps the critics' losses apart.
    assert float(our_critics.detach()) == pytest.approx(
        float(of_critics.detach().mean(-1).sum()), abs=1e-5
    )
    assert float(our_actor.detach()) == pytest.approx(float(of_actor.detach().mean()), abs=1e-5)
    assert float(our_temperature.detach()) == pytest.approx(
        float(of_temperature.detach().mean()), abs=1e-5
    )


def _entropy(concentrations: Tensor) -> Tensor:
    entropy: Tensor = Dirichlet(concentrations).entropy()  # type: ignore[no-untyped-call]
    return entropy


def _copy_targets(theirs: Any, agent: SoftActorCritic) -> None:
    """Into torchrl's stacked target parameters."""
    stacked = theirs.target_qvalue_network_params
    for key, value in stacked.items(include_nested=True, leaves_only=True):
        name = ".".join(key if isinstance(key, tuple) else (key,))
        name = name.removeprefix("module.").removeprefix("inner.")
        ours = dict(agent.targets.named_parameters())[name].detach()
        value.data.copy_(ours.unsqueeze(1))


def _member(critics: Critics, number: int) -> Critics:
    """One of them as a network of its own."""
    alone = Critics(LAYOUT, SMALL, members=1)
    alone.load_state_dict(
        {name: value[number : number + 1] for name, value in critics.state_dict().items()}
    )
    return alone


def test_twin_critics_are_two_networks_that_know_nothing_of_one_another() -> None:
    agent, batch = made(), a_batch()
    together = agent.critics(batch.observations, batch.shares)
    alone = [_member(agent.critics, n)(batch.observations, batch.shares)[0] for n in (0, 1)]
    assert torch.allclose(together, torch.stack(alone), atol=1e-6)
    together[0].sum().backward()
    for parameter in agent.critics.parameters():
        assert parameter.grad is not None
        assert not parameter.grad[1].any()


def test_a_block_is_torchs_own() -> None:
    with Chance(5).drawing():
        block = Block(1, SMALL)
        hidden = torch.randn(4, 6, SMALL.width)
    theirs = nn.TransformerEncoderLayer(
        SMALL.width,
        SMALL.attention_heads,
        SMALL.feedforward,
        dropout=0.0,
        batch_first=True,
        norm_first=True,
    )
    ours = dict(block.named_parameters())
    names = {
        "self_attn.in_proj": "query_key_value",
        "self_attn.out_proj.": "attention_output.",
        "linear1.": "up.",
        "linear2.": "down.",
        "norm1.": "attention_norm.",
        "norm2.": "feed_forward_norm.",
    }
    with torch.no_grad():
        for name, value in theirs.named_parameters():
            start = next(each for each in names if name.startswith(each))
            rest = name.removeprefix(start).removeprefix("_")
            wanted = ours[f"{names[start].rstrip('.')}.{rest}"][0]
            value.copy_(wanted.T if wanted.shape[0] > 1 else wanted.view(value.shape))
        expected = theirs(hidden)
        found = block(hidden.flatten(0, 1).unsqueeze(0), 6).view(expected.shape)
    assert torch.allclose(found, expected, atol=1e-5)


def test_parameters_in_a_vector_learn_as_on_their_own() -> None:
    together, alone = nn.Linear(3, 2), nn.Linear(3, 2)
    alone.load_state_dict(together.state_dict())
    vector = Vector(list(together.parameters()))
    optimizers = [torch.optim.Adam([vector.whole], fused=True)]
    optimizers.append(torch.optim.Adam(alone.parameters(), fused=True))
    inputs = torch.randn(5, 3)
    for _ in range(3):
        vector.clear()
        alone.zero_grad()
        for each in (together, alone):
            each(inputs).square().sum().backward()
        for optimizer in optimizers:
            optimizer.step()
    pairs = zip(together.parameters(), alone.parameters(), strict=True)
    assert all(torch.equal(one, two) for one, two in pairs)
    together.load_state_dict({name: value * 2 for name, value in alone.state_dict().items()})
    assert torch.equal(vector.whole[:6].view(2, 3), alone.weight * 2)


def test_an_update_leaves_the_critics_to_their_own_loss_and_moves_everything() -> None:
    agent = made()
    before = {name: value.clone() for name, value in _flat(agent.state_dict()).items()}
    told = agent.update(a_batch())
    after = _flat(agent.state_dict())
    moved = {
        name.split(".")[0]
        for name, value in after.items()
        if name in before and not torch.equal(before[name], value)
    }
    assert {"actor", "critics", "targets", "log_temperature"} <= moved
    assert told["scheduler/skipped_updates"] == 0


def test_a_gradient_that_is_not_finite_changes_no_network() -> None:
    agent, batch = made(), a_batch()
    before = _flat({"critics": agent.state_dict()["critics"]})
    broken = Transitions(
        batch.observations, batch.shares, batch.rewards * math.inf, batch.next_observations
    )
    assert agent.update(broken)["scheduler/skipped_updates"] >= 1
    after = _flat({"critics": agent.state_dict()["critics"]})
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_memory_forgets_the_oldest() -> None:
    replay = Replay(3, 1, 2)
    with pytest.raises(IndexError):
        replay.drawn(1)
    for number in range(5):
        seen = torch.tensor([float(number)])
        replay.add(seen, torch.tensor([0.5, 0.5]), float(number), seen + 1)
    assert sorted(replay.rewards.tolist()) == [2.0, 3.0, 4.0]
    assert len(replay) == 3


def test_an_observation_has_its_length_and_is_of_about_one_in_size() -> None:
    state = beginning(3, total_steps=40)
    assert observation(state, LAYOUT, None) == [0.0] * (LAYOUT.length - 2) + [-1.0, 0.0]
    for step in range(3):
        state = advance(state, outcome(random.Random(step), (0.2, 0.3, 0.5)))
    seen = observation(state, LAYOUT, 2.0)
    assert len(seen) == LAYOUT.length
    assert max(map(abs, seen)) <= 3.0


def test_chance_of_an_agent_is_its_own() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2).tolist()
    torch.manual_seed(3)
    got = [float(torch.rand(1))]
    with Chance(0).drawing():
        first = torch.rand(3)
    got.append(float(torch.rand(1)))
    assert got == expected
    with Chance(0).drawing():
        assert torch.equal(torch.rand(3), first)


def outcome(rng: random.Random, shares: tuple[float, ...]) -> Outcome:
    vectors = torch.tensor([[rng.gauss(0.2, 1) for _ in range(5)] for _ in range(3)])
    return Outcome(
        weights=shares,
        samples=tuple(32 * share for share in shares),
        losses=tuple(rng.uniform(1, 3) for _ in range(3)),
        diversity=(40.0, 60.0, None),
        gradient_products=tuple(tuple(row) for row in (vectors @ vectors.T).tolist()),
        layer_norms=(rng.uniform(1, 2), 1.5),
        layer_changes=(0.1, rng.uniform(0, 1)),
    )


@pytest.mark.parametrize("kind", ["hds", "ac-odm", "reward-softmax", "random"])
@pytest.mark.parametrize("between", [False, True])
def test_a_killed_agent_goes_on_as_if_it_had_not_been(kind: str, between: bool) -> None:
    settings = load_settings(
        assignments=[
            f"scheduling.kind={kind}",
            "scheduling.hds.batch=4",
            "scheduling.hds.replay=12",
            "scheduling.ac_odm.batch=4",
            "scheduling.ac_odm.warmup_share=0.6",  # ends between the kill and the end
        ]
    ).scheduling
    cut, end = 20, 28
    scheduler, state, rng = (
        build(settings, SCHEDULED),
        beginning(3, total_steps=40),
        random.Random(0),
    )
    whole, kept = [], b""
    for step in range(end):
        if step == cut and not between:
            kept, then, at_cut = _kept(scheduler.state_dict()), rng.getstate(), state
        whole.append(tuple(scheduler.weights(state)))
        if step == cut and between:
            kept, then, at_cut = _kept(scheduler.state_dict()), rng.getstate(), state
        given = outcome(rng, whole[-1])
        scheduler.update(given)
        state = advance(state, given)
    torch.manual_seed(99)  # another process has another generator
    again, state = build(settings, SCHEDULED), State.from_values(at_cut.to_values())
    again.load_state_dict(torch.load(io.BytesIO(kept), weights_only=True))
    rng.setstate(then)
    went_on = []
    for step in range(cut, end):
        resumed = between and step == cut
        went_on.append(whole[cut] if resumed else tuple(again.weights(state)))
        given = outcome(rng, went_on[-1])
        again.update(given)
        state = advance(state, given)
    assert went_on == whole[cut:]


def _kept(saved: Mapping[str, Any]) -> bytes:
    file = io.BytesIO()
    torch.save(saved, file)
    return file.getvalue()


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Tensor]:
    flat: dict[str, Tensor] = {}
    for name, value in tree.items():
        if isinstance(value, Tensor):
            flat[f"{prefix}{name}"] = value
        elif isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
    return flat


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_kind_can_be_built_for_pre_training(kind: str) -> None:
    settings = load_settings(
        assignments=[f"scheduling.kind={kind}", "scheduling.static_weights=[3,2,1]"]
    ).scheduling
    scheduler, state = build(settings, SCHEDULED), beginning(3)
    shares = tuple(scheduler.weights(state))
    assert math.fsum(shares) == pytest.approx(1.0)
    scheduler.update(outcome(random.Random(0), shares))
    with pytest.raises(ValueError, match="3 shares for 4 domains"):
        build(settings, Scheduled(4, 2, 800_000, 40, 0))


def test_the_softmax_of_the_rewards_raises_the_domain_that_helps_the_others() -> None:
    settings = load_settings(
        assignments=[
            "scheduling.kind=reward-softmax",
            "scheduling.static_weights=[2,1,1]",
            "scheduling.minimum_share=0",
        ]
    ).scheduling
    scheduler, state = build(settings, SCHEDULED), beginning(3, total_steps=40)
    first = tuple(scheduler.weights(state))
    assert first == pytest.approx((0.5, 0.25, 0.25), abs=0.01)
    # The gradients of 0 and 1 agree, that of 2 is against both.
    products = ((1.0, 0.5, -0.5), (0.5, 1.0, -0.5), (-0.5, -0.5, 1.0))
    given = Outcome(first, (4.0, 2.0, 2.0), (2.0, 2.0, 2.0), gradient_products=products)
    metrics = scheduler.update(given)
    following = scheduler.weights(advance(state, given))
    assert following[2] < 0.25 * 0.5
    assert following[0] / following[1] == pytest.approx(2.0, rel=0.02)
    assert metrics["scheduler/share/alignment"] > 0.5


def test_the_warm_up_is_the_static_weights_with_noise_and_then_the_agent_decides() -> None:
    settings = load_settings(
        assignments=[
            "scheduling.kind=hds",
            "scheduling.static_weights=[6,3,1]",
            "scheduling.minimum_share=0",
            "scheduling.hds.batch=8",
        ]
    ).scheduling
    scheduler, state, rng = (
        build(settings, SCHEDULED),
        beginning(3, total_steps=40),
        random.Random(0),
    )
    told: list[tuple[float, ...]] = []
    for _ in range(20):
        told.append(tuple(scheduler.weights(state)))
        metrics = scheduler.update(outcome(rng, told[-1]))
        assert ("scheduler/temperature" in metrics) is (state.step >= 16)
        assert all(name in METRICS or name.rpartition("/")[0] in METRICS for name in metrics)
        state = advance(state, outcome(rng, told[-1]))
    noise = torch.tensor(told[:16]) - torch.tensor([0.6, 0.3, 0.1])
    assert 0.008 < float(noise.std()) < 0.03
    assert float(noise.abs().max()) < 0.1


def test_a_drawn_share_has_a_pathwise_gradient() -> None:
    concentrations = torch.tensor([[3.0, 2.0, 1.5]], requires_grad=True)
    with Chance(2).drawing():
        shares, _ = drawn(concentrations)
    shares[0, 0].backward()  # type: ignore[no-untyped-call]
    assert concentrations.grad is not None
    assert float(concentrations.grad[0, 0]) > 0.0
