"""Gradients by domain out of one accumulated gradient, against those computed one by one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import nn

from swarmnode.scheduling.agent.gradients import DomainGradients, LayerChanges, late_layers


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 1))


def micro_batches() -> list[tuple[int, torch.Tensor]]:
    torch.manual_seed(1)
    return [(domain, torch.randn(4, 6) + domain) for domain in (0, 2, 0, 2, 2, 0)]


def direct(network: nn.Sequential, selected: Sequence[torch.Tensor]) -> torch.Tensor:
    """Mean gradients of domains 0 and 2, each by a backward of its own: (2, parameters)."""
    rows = []
    for domain in (0, 2):
        own = [network(x).square().mean() for d, x in micro_batches() if d == domain]
        gradients = torch.autograd.grad(torch.stack(own).mean(), selected)
        rows.append(torch.cat([each.flatten() for each in gradients]))
    return torch.stack(rows)


@pytest.mark.parametrize("left_over", [False, True])
@pytest.mark.parametrize("loss_scale", [1.0, 1024.0])
def test_products_are_those_of_gradients_computed_one_by_one(
    left_over: bool, loss_scale: float
) -> None:
    network = model()
    selected = [network.get_parameter("2.weight"), network.get_parameter("4.weight")]
    expected = direct(network, selected)
    if left_over:
        network(torch.ones(1, 6)).sum().backward()
    gradients, batches = DomainGradients(selected, 3), micro_batches()
    for domain, x in batches:
        scale = loss_scale / len(batches)
        (network(x).square().mean() * scale).backward()
        gradients.took(domain, scale=scale)
    table = gradients.products()
    products = (expected @ expected.T).tolist()
    assert [table[0][0], table[0][2]] == pytest.approx(products[0], rel=1e-4)
    assert [table[2][0], table[2][2]] == pytest.approx(products[1], rel=1e-4)
    assert table[1] == (None, None, None)
    assert table[0][1] is table[2][1] is None


def test_the_step_itself_is_not_changed() -> None:
    plain, watched = model(), model()
    gradients = DomainGradients([watched.get_parameter("2.weight")], 3)
    for domain, x in micro_batches():
        plain(x).square().mean().backward()
        watched(x).square().mean().backward()
        gradients.took(domain)
    for one, other in zip(plain.parameters(), watched.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert torch.equal(one.grad, other.grad)


def test_without_a_micro_batch_nothing_is_known() -> None:
    assert DomainGradients([model().get_parameter("2.weight")], 2).products() == (
        (None, None),
        (None, None),
    )


def test_layers_tell_their_norm_and_what_they_moved_by() -> None:
    weight = torch.tensor([[3.0, 4.0]])
    changes = LayerChanges([weight])
    weight.copy_(torch.tensor([[0.0, 4.0]]))
    assert changes.taken() == ((4.0,), (3.0,))
    assert changes.taken() == ((4.0,), (0.0,))


def test_late_layers_are_every_second_from_the_last() -> None:
    assert late_layers(16) == (15, 13, 11)
    assert late_layers(24) == (23, 21, 19)
    assert late_layers(2) == (1,)
