"""Schedulers without torch: what they prefer, their guard, and going on exactly."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence

import pytest

from swarmnode.scheduling.alignment import Products, alignments
from swarmnode.scheduling.bandits import Dump, Sec
from swarmnode.scheduling.doge import Doge
from swarmnode.scheduling.fixed import Drawn, Static
from swarmnode.scheduling.guarded import Guarded
from swarmnode.scheduling.odm import Odm, exploration
from swarmnode.scheduling.scheduler import (
    Outcome,
    Scheduler,
    State,
    advance,
    beginning,
    finite,
)
from swarmnode.scheduling.simplex import is_simplex, mixed_with_equal, softmax

START = beginning(3)


def outcome(
    rewards: Sequence[float | None],
    weights: Sequence[float] = (1 / 3, 1 / 3, 1 / 3),
    products: Sequence[Sequence[float | None]] = (),
) -> Outcome:
    return Outcome(
        weights=tuple(weights),
        samples=tuple(0.0 if reward is None else 8.0 for reward in rewards),
        losses=tuple(rewards),
        learnability=tuple(rewards),
        gradient_products=tuple(tuple(row) for row in products),
    )


def odm_paper() -> Odm:
    return Odm((1, 1, 1), form="paper", smoothing=0.5, warmup_steps=0, signal="loss")


def odm_code() -> Odm:
    return Odm((1, 1, 1), form="code", smoothing=0.5, warmup_steps=0, signal="loss")


def sec() -> Sec:
    return Sec(3, rate=0.5, temperature=0.4, signal="learnability")


def dump() -> Dump:
    return Dump(3, window=20, temperature=0.1, signal="learnability")


def doge() -> Doge:
    return Doge((1, 1, 1), step_size=0.1, memory=0.5)


def drawn() -> Drawn:
    return Drawn(3, random.Random(4))


ALL: Sequence[Callable[[], Scheduler]] = (odm_paper, odm_code, sec, dump, doge, drawn)


def random_outcome(rng: random.Random, weights: Sequence[float]) -> Outcome:
    seen = [rng.random() < 0.7 for _ in range(3)]
    vectors = [[rng.gauss(0.3, 1) for _ in range(4)] for _ in range(3)]
    products = [
        [sum(map(math.prod, zip(a, b, strict=True))) if s and t else None
         for b, t in zip(vectors, seen, strict=True)]
        for a, s in zip(vectors, seen, strict=True)
    ]  # fmt: skip
    return outcome([rng.uniform(0.5, 3) if s else None for s in seen], weights, products)


@pytest.mark.parametrize("make", ALL)
def test_every_scheduler_gives_shares_and_goes_on_exactly_from_what_json_kept(
    make: Callable[[], Scheduler],
) -> None:
    whole, rng = Guarded(make(), 3, 0.05), random.Random(1)
    state, told, cut = START, [], 12
    saved, saved_state = "", ""
    for step in range(24):
        if step == cut:
            saved, saved_state = json.dumps(whole.state_dict()), json.dumps(state.to_values())
            rng_then = rng.getstate()
        told.append(whole.weights(state))
        given = random_outcome(rng, told[-1])
        whole.update(given)
        state = advance(state, given)
    assert all(is_simplex(shares, 3) and min(shares) >= 0.05 - 1e-12 for shares in told)
    again = Guarded(make(), 3, 0.05)
    again.load_state_dict(json.loads(saved))
    state = State.from_values(json.loads(saved_state))
    rng.setstate(rng_then)
    for expected in told[cut:]:
        assert again.weights(state) == expected
        given = random_outcome(rng, expected)
        again.update(given)
        state = advance(state, given)


@pytest.mark.parametrize("make", [odm_paper, odm_code, sec, dump])
def test_a_bandit_comes_to_prefer_what_pays_most(make: Callable[[], Scheduler]) -> None:
    scheduler, state = make(), START
    for _ in range(40):
        given = outcome((0.2, 0.9, 0.5), scheduler.weights(state))
        scheduler.update(given)
        state = advance(state, given)
    low, high, middle = scheduler.weights(state)
    assert low < middle < high


def test_odm_of_the_paper_weighs_by_importance_and_its_code_is_linear_in_perplexity() -> None:
    given = outcome((1.0, 1.0, None), (0.25, 0.5, 0.25))
    paper, code = odm_paper(), odm_code()
    for _ in range(8):
        paper.update(given)
    code_given = outcome((1.0, 2.0, None), (0.25, 0.5, 0.25))
    for _ in range(8):
        code.update(code_given)
    after, following = exploration(8, 3), exploration(9, 3)
    assert following < 1 / 3
    # R = (1 - 0.5 ** 8) * L / π, the third never seen
    smoothed = 1 - 0.5**8
    exploited = softmax([after * smoothed * 4.0, after * smoothed * 2.0, 0.0])
    assert paper.weights(START) == pytest.approx(
        [(1 - 3 * following) * share + following for share in exploited]
    )
    total = math.e + math.e**2
    expected = [math.e / total, math.e**2 / total, 0.0]
    assert code.weights(START) == pytest.approx(
        [(1 - 3 * following) * share + following for share in expected]
    )


def test_odm_has_the_given_weights_during_its_warm_up() -> None:
    scheduler = Odm((2, 1, 1), form="code", smoothing=0.5, warmup_steps=2, signal="loss")
    for _ in range(2):
        assert scheduler.weights(START) == (0.5, 0.25, 0.25)
        scheduler.update(outcome((1.0, 3.0, 1.0)))
    assert scheduler.weights(START) != (0.5, 0.25, 0.25)


def test_sec_moves_half_way_to_what_a_task_pays_and_leaves_unseen_ones() -> None:
    scheduler = sec()
    scheduler.update(outcome((1.0, None, 0.0)))
    scheduler.update(outcome((1.0, 0.4, None)))
    assert scheduler.weights(START) == pytest.approx(softmax((0.75, 0.2, 0.0), 0.4))


def test_dump_adds_a_bonus_for_what_was_seldom_asked_and_forgets_beyond_its_window() -> None:
    scheduler = dump()
    scheduler.update(outcome((1.0, 0.0, None)))
    for _ in range(3):
        scheduler.update(outcome((0.0, 0.0, None)))
    # 20 of the 32 samples of the first are in its window: none of those that paid.
    bonus = math.sqrt(2 * math.log(65) / 33)
    scores = (bonus, bonus, math.sqrt(2 * math.log(65)))
    assert scheduler.weights(START) == pytest.approx(softmax(scores, 0.1))


def test_doge_climbs_what_agrees_with_the_others() -> None:
    products = ((1.0, 0.5, -0.5), (0.5, 1.0, -0.5), (-0.5, -0.5, 1.0))
    scheduler = doge()
    for _ in range(20):
        scheduler.update(outcome((1.0, 1.0, 1.0), products=products))
    # The scores are the row sums, all norms being 1: 1, 1 and 0.
    assert scheduler.weights(START) == pytest.approx(softmax((2.0, 2.0, 0.0)))
    with pytest.raises(ValueError, match="never leaves 0"):
        Doge((1, 0, 1), step_size=0.1, memory=0.0)


def test_alignments_have_the_forms_that_they_are_called_by() -> None:
    gradients = ((3.0, 0.0), (1.0, 1.0), (0.0, -2.0))
    products = [
        [sum(a * b for a, b in zip(g, h, strict=True)) for h in gradients] for g in gradients
    ]
    raw = [3.0, 1.0, -2.0]  # ⟨g, the others' sum⟩
    assert alignments(products, "raw") == pytest.approx(raw)
    mean = (3 + math.sqrt(2) + 2) / 3
    assert alignments(products, "norm") == pytest.approx([value / mean for value in raw])
    others = (math.hypot(1, -1), math.hypot(3, -2), math.hypot(4, 1))
    own = (3.0, math.sqrt(2), 2.0)
    assert alignments(products, "cosine") == pytest.approx(
        [r / (a * b) for r, a, b in zip(raw, own, others, strict=True)]
    )
    assert sum(alignments(products, "zscore")) == pytest.approx(0.0, abs=1e-12)


def test_products_that_a_step_did_not_show_stay_as_they_were() -> None:
    products = Products(2, 0.5)
    assert products.table is None
    products.take(((4.0, None), (None, None)))
    products.take(())
    products.take(((2.0, 1.0), (1.0, 3.0)))
    products.take(((None, None), (None, 5.0)))
    assert products.table == [[3.0, 1.0], [1.0, 4.0]]


class Broken:
    """A scheduler whose weights can't be used."""

    def __init__(self, shares: Sequence[float]) -> None:
        self.shares = shares
        self.heard: list[Outcome] = []

    def weights(self, state: State) -> Sequence[float]:
        return self.shares

    def update(self, given: Outcome) -> dict[str, float]:
        self.heard.append(given)
        return {}

    def state_dict(self) -> dict[str, object]:
        return {}

    def load_state_dict(self, saved: object) -> None: ...


@pytest.mark.parametrize(
    "shares",
    [(math.nan, 0.5, 0.5), (0.5, 0.5), (2.0, -1.0, 0.0), (0.5, 0.5, 0.5), (math.inf, 0, 0)],
)
def test_unusable_weights_are_overruled_by_the_last_good_ones_and_counted(
    shares: Sequence[float],
) -> None:
    broken = Broken((0.5, 0.3, 0.2))
    guarded = Guarded(broken, 3, 0.0)
    guarded.weights(START)
    broken.shares = shares
    assert guarded.weights(START) == (0.5, 0.3, 0.2)
    assert guarded.update(outcome((1.0, 1.0, 1.0)))["scheduler/overruled"] == 1


def test_what_is_no_finite_number_is_kept_from_a_scheduler_and_counted() -> None:
    broken = Broken((0.5, 0.3, 0.2))
    guarded = Guarded(broken, 3, 0.0)
    given = Outcome(
        weights=(0.5, 0.3, 0.2),
        samples=(1.0, 1.0, 1.0),
        losses=(math.nan, 1.0, None),
        gradient_products=((math.inf, 1.0, None),) * 3,
        layer_norms=(1.0, math.nan),
        layer_changes=(1.0, 2.0),
    )
    assert guarded.update(given)["scheduler/non_finite"] == 5
    (heard,) = broken.heard
    assert heard.losses == (None, 1.0, None)
    assert heard.gradient_products[0] == (None, 1.0, None)
    assert (heard.layer_norms, heard.layer_changes) == ((), (1.0, 2.0))
    clean, gone = finite(heard)
    assert clean is heard
    assert gone == 0


def test_the_least_share_holds_for_every_domain_up_to_equal_ones() -> None:
    assert mixed_with_equal((1.0, 0.0, 0.0), 0.1) == pytest.approx((0.8, 0.1, 0.1))
    assert mixed_with_equal((1.0, 0.0, 0.0), 0.9) == pytest.approx((1 / 3,) * 3)
    with pytest.raises(ValueError, match="one of them above 0"):
        Static((0.0, 0.0))


def test_a_state_counts_smooths_and_tells_what_changed() -> None:
    state = beginning(2, total_steps=4, smoothing=0.5)
    first = Outcome((0.5, 0.5), (3.0, 0.0), (4.0, None), layer_norms=(1.0,), layer_changes=(0.1,))
    state = advance(state, first)
    assert (state.losses, state.loss_changes) == ((4.0, None), (None, None))
    state = advance(state, Outcome((0.5, 0.5), (1.0, 1.0), (2.0, 5.0)))
    assert (state.step, state.progress, state.samples) == (2, 0.5, (4.0, 1.0))
    assert (state.losses, state.loss_changes) == ((3.0, 5.0), (-1.0, None))
    assert state.layer_norms == (1.0,)
