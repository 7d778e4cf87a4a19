"""The tables of docs/results/data-mixing.md. Pure text, over rows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from tests.benchmarks.mixing_corpora import DOMAINS
from tests.benchmarks.mixing_protocol import (
    BY_STAGE,
    PRIMARY,
    REFERENCES,
    Stage,
)
from tests.benchmarks.mixing_rows import Row, mean_of, overhead, reached
from tests.benchmarks.sharing_markdown import MINUS, UNKNOWN, table
from tests.benchmarks.sharing_statistics import Estimate, estimate, holm
from tests.benchmarks.study_arms import StudyArm
from tests.benchmarks.study_rows import by_arm_and_seed

Runs = Mapping[str, Mapping[int, Row]]
"""By arm, by seed."""

Figure = Callable[[Row], float]


def final_macro(row: Row) -> float:
    """The primary figure."""
    return row["macro"][-1]


def final_mixture(row: Row) -> float:
    """Beside it."""
    return row["mixture"][-1]


def render(rows: Sequence[Row]) -> dict[str, str]:
    """Every block by its name; a study that is not whole renders too."""
    main = runs_by_arm(rows, "main", "controls")
    ablations = runs_by_arm(rows, "ablations")
    return {
        "arms": arms_table(),
        "answer": answer(main),
        "losses": losses(main),
        "speed": speed(main),
        "checkpoints": checkpoints(main),
        "shares": shares(main),
        "costs": costs(main),
        "idle": costs(runs_by_arm(rows, "cost")),
        "rewards": rewards(main),
        "ablations": losses(ablations, reference=PRIMARY),
        "slopes": slopes_table(rows),
        "headroom": losses(runs_by_arm(rows, "headroom"), reference=PRIMARY),
        "development": development(rows),
    }


def runs_by_arm(rows: Sequence[Row], *stages: str) -> Runs:
    """The runs of some stages. Raises ValueError where a seed of an arm comes twice."""
    return by_arm_and_seed((row for row in rows if row["stage"] in stages), lambda row: row["arm"])


def compared(runs: Runs, arm: str, reference: str, figure: Figure) -> Estimate:
    """Mean paired difference over the seeds that both arms have."""
    of_arm, of_reference = runs.get(arm, {}), runs.get(reference, {})
    seeds = sorted({*of_arm} & {*of_reference})
    return estimate([figure(of_arm[seed]) - figure(of_reference[seed]) for seed in seeds])


def arms_table() -> str:
    """All arms with what was tried for them."""
    stages: tuple[Stage, ...] = ("main", "controls", "ablations")
    lines = [
        [stage, arm.name, arm.description, _tried(arm)]
        for stage in stages
        for arm in BY_STAGE[stage].values()
    ]
    return table(("stage", "arm", "what it is", "tried on the development seed"), lines)


def _tried(arm: StudyArm) -> str:
    if arm.like:
        return f"that of {arm.like}"
    return ", ".join(f"`{option}`" for option in arm.options) or "nothing"


def answer(runs: Runs) -> str:
    """The two primary comparisons."""
    found = [compared(runs, PRIMARY, reference, final_macro) for reference in REFERENCES]
    adjusted = holm([each.p for each in found])
    lines = [
        [f"{PRIMARY} against {reference}", str(each.count), _shown(each), _ratio(each), _p(p)]
        for reference, each, p in zip(REFERENCES, found, adjusted, strict=True)
    ]
    head = ("comparison", "seeds", "macro loss, difference", "perplexity", "p, Holm")
    return table(head, lines)


def losses(runs: Runs, reference: str = "") -> str:
    """Final losses of every arm, and paired differences."""
    others = (*REFERENCES, reference) if reference else REFERENCES
    lines = []
    for arm, of_arm in runs.items():
        macro = estimate([final_macro(row) for row in of_arm.values()])
        mixture = estimate([final_mixture(row) for row in of_arm.values()])
        differences = [
            UNKNOWN if other == arm else _shown(compared(runs, arm, other, final_macro))
            for other in others
        ]
        weighted = [
            UNKNOWN if other == arm else _shown(compared(runs, arm, other, final_mixture))
            for other in REFERENCES
        ]
        figures = [_plain(macro.mean), *differences, _plain(mixture.mean), *weighted]
        lines.append([arm, str(len(of_arm)), *figures])
    head = (
        *("arm", "seeds", "macro loss"),
        *(f"against {other}" for other in others),
        "mixture loss",
        *(f"mixture, against {other}" for other in REFERENCES),
    )
    return table(head, lines)


def slopes(rows: Sequence[Row]) -> Mapping[str, Estimate]:
    """By domain, what twice its share changes of the macro loss, against equal shares.

    Both at the size of the ablations, over the seeds that both have.
    """
    runs = _probes_beside_equal(rows)
    return {name: compared(runs, f"more {name}", "uniform", final_macro) for name in DOMAINS}


def slopes_table(rows: Sequence[Row]) -> str:
    """What twice a domain's share does to its own loss and to the mean of all."""
    runs = _probes_beside_equal(rows)
    lines = []
    for name, found in slopes(rows).items():
        own = compared(runs, f"more {name}", "uniform", _final_of(name))
        lines.append([name, str(found.count), _shown(own), _shown(found)])
    return table(("twice the share of", "seeds", "its own loss", "macro loss"), lines)


def _probes_beside_equal(rows: Sequence[Row]) -> Runs:
    equal = runs_by_arm(rows, "ablations").get("uniform", {})
    return {**runs_by_arm(rows, "probes"), "uniform": equal}


def _final_of(domain: str) -> Figure:
    return lambda row: row["by_domain"][domain]


def speed(runs: Runs) -> str:
    """Steps and seconds to the final macro loss of the references, over theirs."""
    lines = []
    for arm, of_arm in runs.items():
        cells = []
        for reference in (*REFERENCES, "ac-odm"):
            other = runs.get(reference, {})
            cells += [_reach(of_arm, other, along) for along in ("steps", "seconds")]
        lines.append([arm, *cells])
    head = ["arm"]
    for reference in (*REFERENCES, "ac-odm"):
        head += [f"steps to {reference}", f"seconds to {reference}"]
    return table(head, lines)


def _reach(of_arm: Mapping[int, Row], reference: Mapping[int, Row], along: str) -> str:
    """The mean share of the reference's whole, and how many seeds got there."""
    seeds = sorted({*of_arm} & {*reference})
    found = []
    for seed in seeds:
        other = reference[seed]
        whole: Sequence[float] = other[along]  # type: ignore[literal-required]
        own: Sequence[float] = of_arm[seed][along]  # type: ignore[literal-required]
        at = reached(of_arm[seed], final_macro(other), own)
        if at is not None:
            found.append(at / whole[-1])
    if not seeds:
        return UNKNOWN
    shown = f"{100 * statistics.fmean(found):.0f} %" if found else "not reached"
    return shown if len(found) == len(seeds) else f"{shown} ({len(found)} of {len(seeds)})"


def checkpoints(runs: Runs) -> str:
    """Mean macro loss of every arm at every fourth validation."""
    steps = next((row["steps"] for each in runs.values() for row in each.values()), [])
    places = [at for at in range(len(steps)) if at % 4 == 0 or at == len(steps) - 1]
    lines = [
        [
            arm,
            *(_plain(statistics.fmean(row["macro"][at] for row in each.values())) for at in places),
        ]
        for arm, each in runs.items()
    ]
    return table(("arm", *(str(steps[at]) for at in places)), lines)


def shares(runs: Runs) -> str:
    """Mean shares over the last tenth of the steps, and epochs of the most read domain."""
    names = next((list(row["by_domain"]) for each in runs.values() for row in each.values()), [])
    lines = []
    for arm, each in runs.items():
        found = mean_of(list(each.values()), "last_shares")
        most = max(mean_of(list(each.values()), "epochs").values())
        lines.append([arm, *(f"{found[name]:.2f}" for name in names), f"{most:.1f}"])
    return table(("arm", *names, "most epochs"), lines)


def costs(runs: Runs) -> str:
    """Median milliseconds of a step by part, and the overhead."""
    lines = []
    for arm, each in runs.items():
        spent = mean_of(list(each.values()), "milliseconds")
        added = statistics.fmean(map(overhead, each.values()))
        cells = [f"{spent[part]:.1f}" for part in ("model", "data", "gradients", "scheduler")]
        lines.append([arm, *cells, f"{100 * added:.1f} %"])
    return table(("arm", "model", "data", "gradients", "scheduler", "added"), lines)


def rewards(runs: Runs) -> str:
    """Of arms that are paid by three rewards: each one's part, and how often it said nothing."""
    names = [
        f"scheduler/{kind}/{reward}"
        for kind in ("share", "saturated")
        for reward in ("alignment", "diversity", "stability")
    ]
    lines = []
    for arm, each in runs.items():
        found = mean_of(list(each.values()), "metrics")
        if names[0] in found:
            lines.append([arm, *(f"{found[name]:.2f}" for name in names)])
    head = [f"{name.split('/')[2]}, {name.split('/')[1]}" for name in names]
    return table(("arm", *head), lines)


def development(rows: Sequence[Row]) -> str:
    """What was tried, with the macro loss at its end."""
    lines = [
        [
            row["arm"],
            f"`{row['option']}`" if row["option"] else UNKNOWN,
            f"{row['learning_rate']:g}",
            _plain(final_macro(row)),
        ]
        for row in rows
        if row["stage"] == "development"
    ]
    return table(("arm", "option", "learning rate", "macro loss"), lines)


def _plain(value: float) -> str:
    return UNKNOWN if math.isnan(value) else f"{value:.4f}"


def _signed(value: float) -> str:
    return f"{value:+.4f}".replace("-", MINUS)


def _shown(found: Estimate) -> str:
    if math.isnan(found.mean):
        return UNKNOWN
    if math.isnan(found.low):
        return _signed(found.mean)
    return f"{_signed(found.mean)} ({_signed(found.low)} to {_signed(found.high)})"


def _ratio(found: Estimate) -> str:
    """What a difference of losses is as a change of the perplexity."""
    if math.isnan(found.mean):
        return UNKNOWN
    return f"{100 * math.expm1(found.mean):+.1f} %".replace("-", MINUS)


def _p(value: float) -> str:
    return UNKNOWN if math.isnan(value) else f"{value:.3f}"
