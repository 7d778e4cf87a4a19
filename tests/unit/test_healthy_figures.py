"""Every figure of a round says what is healthy in it and what to do; no text is for nothing."""

from __future__ import annotations

from swarmnode.observe.healthy_figures import HEALTHY, healthy_figure
from swarmnode.observe.metrics import METRICS
from swarmnode.observe.training_metrics import CHANNEL_METRICS, TRAINING_METRICS

CATALOGUE = {**METRICS, **TRAINING_METRICS, **CHANNEL_METRICS}


def test_every_metric_says_what_is_healthy_and_every_text_is_some_metric_s() -> None:
    assert [name for name in CATALOGUE if not healthy_figure(name)] == []
    used = {healthy_figure(name) for name in CATALOGUE}
    assert [name for name, text in HEALTHY.items() if text not in used] == []
    assert all(text.endswith(".") and "|" not in text for text in HEALTHY.values())


def test_the_longest_name_that_fits_is_taken_and_a_foreign_one_has_none() -> None:
    assert healthy_figure("scheduler/weight") != healthy_figure("scheduler/entropy")
    assert healthy_figure("made/up") == ""
