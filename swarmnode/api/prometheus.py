"""The metrics for Prometheus: those of docs/metrics.md of the last round, and what the status says.

A metric's name is ours with `swarmnode_` before it and `_` for `/`; what grows since the start is a
counter and ends in `_total`. Label values are tasks, guard-rails, channels and reasons of this
node's own settings and code, at most MOST_VALUES of each: nothing that a peer says makes a series.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from swarmnode.api.moment import Moment
from swarmnode.observe.facts import Severity
from swarmnode.observe.health import WARNABLES
from swarmnode.observe.metrics import DROPPED, METRICS
from swarmnode.observe.status import StatusDocument
from swarmnode.observe.training_metrics import CHANNEL_METRICS, TRAINING_METRICS
from swarmnode.observe.words import plain

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
MOST_VALUES = 64
"""Values of a label in one metric; what is beyond is left out."""
PREFIX = "swarmnode_"
NOT_EXPORTED: Mapping[str, str] = {
    "sources": "a series for each peer; mix/external_peers counts them",
    "trained": "a line for each group; corrections/ counts them",
}
"""Names of the catalogue without a metric, and why."""
LABELS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "reward/local",
            "reward/training_set",
            "held_out",
            "held_out_greedy",
            "answers/common_share",
            "answers/common_excess",
            "answers/above_constant",
            "scheduler/weight",
            "steering/wanted",
            "steering/taken",
        ),
        "task",
    ),
    **dict.fromkeys(("guard/value", "guard/recent", "guard/start", "guard/alarm"), "rail"),
    **dict.fromkeys(("scheduler/share", "scheduler/saturated"), "reward"),
    **dict.fromkeys(CHANNEL_METRICS, "channel"),
    "split/dropped": "reason",
    "attack/said": "phrase",
}
"""By name: what stands behind it in a report, as in guard/value/length."""
_GROWING = (
    "collected/",
    "published/",
    "unscored/",
    "split/dropped",
    "split/generated_groups",
    "fallback/falls",
    "guard/rolled_back",
    "scheduler/non_finite",
    "scheduler/overruled",
)
_STATES = ("off", "starting", "alone", "connected", "down")


def exposition(moment: Moment) -> bytes:
    """All metrics, in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(moment))
    text: bytes = generate_latest(registry)
    return text


class _Collected(Collector):  # type: ignore[misc]  # the library is not typed for us
    def __init__(self, moment: Moment) -> None:
        self._moment = moment

    def collect(self) -> Iterator[Metric]:
        """As the registry asks for it."""
        yield from of_rounds(self._moment)
        yield from of_status(self._moment.status)


def metric_name(name: str) -> str:
    """What a name of docs/metrics.md is called here, without the `_total` of a counter."""
    kind, _, unit = name.partition("/")
    return PREFIX + (f"{unit}_seconds" if kind == "seconds" else name.replace("/", "_"))


def of_rounds(moment: Moment) -> Iterator[Metric]:
    """Those of the last round's report, under every name of the catalogue that it holds."""
    values = _values(moment)
    for name, text in {**METRICS, **TRAINING_METRICS, **CHANNEL_METRICS}.items():
        if name not in NOT_EXPORTED and (found := values.get(name)):
            yield _family(name, text, found)
    for name, text in (("reward/local", "Mean over tasks."), ("held_out", "Mean over tasks.")):
        if found := values.get(name):
            mean = sum(found.values()) / len(found)
            yield GaugeMetricFamily(f"{metric_name(name)}_mean", text, value=mean)


def _values(moment: Moment) -> dict[str, dict[str, float]]:
    """By name of the catalogue: figures by label value, "" where it has none."""
    report, evaluation = moment.history.report, moment.history.evaluation
    values: dict[str, dict[str, float]] = {
        "reward/local": dict(report.get("reward/local", {})),
        "reward/training_set": dict(report.get("reward/training_set", {})),
    }
    for name in ("held_out", "held_out_greedy"):
        marks: Mapping[str, str] = evaluation.get(name, {})
        values[name] = {task: each.count("1") / max(1, len(each)) for task, each in marks.items()}
    labelled = sorted((name for name in LABELS), key=len, reverse=True)
    for name, value in moment.metrics.items():
        base = next((each for each in labelled if name.startswith(f"{each}/")), name)
        values.setdefault(base, {})[name[len(base) + 1 :]] = float(value)
    for rail in values.get("guard/value", {}):
        values.setdefault("guard/alarm", {}).setdefault(rail, 0.0)
    return values


def _family(name: str, text: str, found: Mapping[str, float]) -> Metric:
    made = CounterMetricFamily if name.startswith(_GROWING) else GaugeMetricFamily
    label = LABELS.get(name)
    family = made(metric_name(name), text, labels=[label] if label else [])
    for value, number in list(found.items())[:MOST_VALUES]:
        family.add_metric([plain(value, 64)] if label else [], number)
    return family


def of_status(status: StatusDocument) -> Iterator[Metric]:
    """What the status says beside the rounds."""
    info = GaugeMetricFamily("swarmnode_info", "The program.", labels=["version", "model"])
    info.add_metric([status.version, plain(status.node.model, 128)], 1.0)
    yield info
    for name, text, value in _figures(status):
        if value is not None:
            yield GaugeMetricFamily(PREFIX + name, text, value=float(value))
    yield _labelled(
        "network_state",
        "1 for the state of the network process.",
        "state",
        {state: float(status.network.state == state) for state in _STATES},
    )
    yield _warnings(status)
    yield _labelled(
        "warnings",
        "Health warnings that apply.",
        "severity",
        {
            each.value: float(sum(one.severity is each for one in status.warnings))
            for each in Severity
        },
    )
    yield _counted(
        "dropped",
        "Dropped of peers' since the start, by reason.",
        "reason",
        {reason: float(status.dropped.get(reason, 0)) for reason in DROPPED},
    )
    yield _counted(
        "network_bytes",
        "Bytes moved since the start.",
        "direction",
        {"in": float(status.network.bytes_in), "out": float(status.network.bytes_out)},
    )
    by_process = {each.name: each for each in status.processes}
    yield _labelled(
        "process_memory_bytes",
        "Resident memory.",
        "process",
        {name: float(each.memory_bytes) for name, each in by_process.items()},
    )
    yield _counted(
        "process_processor_seconds",
        "Processor time of a process.",
        "process",
        {name: each.processor_seconds for name, each in by_process.items()},
    )
    yield _counted(
        "process_restarts",
        "Restarts since the start.",
        "process",
        {name: float(each.restarts) for name, each in by_process.items()},
    )


def _warnings(status: StatusDocument) -> Metric:
    """A series for each that there is, so that one which ends goes to 0 and does not vanish."""
    applying = {each.code for each in status.warnings}
    text = "1 for every health warning that applies (docs/health.md has text and fix)."
    family = GaugeMetricFamily(f"{PREFIX}warning", text, labels=["code", "severity"])
    for each in WARNABLES:
        family.add_metric([each.code, each.severity.value], float(each.code in applying))
    return family


def _figures(status: StatusDocument) -> Iterator[tuple[str, str, float | None]]:
    yield "uptime_seconds", "Since the start.", status.uptime_seconds
    yield "training", "1 while rounds are gone through.", float(status.phase == "running")
    if rounds := status.round:
        yield "round", "Number of the round that is going on.", rounds.number
        yield "round_seconds", "What the last round took.", rounds.seconds
    yield "policy_version", "Optimizer steps taken.", status.policy_version
    yield "peers_connected", "Peers that are connected.", status.network.peers
    yield "swarm_size", "Estimated nodes that publish.", status.network.swarm_size
    if status.checkpoint is not None:
        age = max(0.0, status.now - status.checkpoint.written)
        yield "checkpoint_age_seconds", "Since the newest checkpoint.", age
    if machine := status.machine:
        available = machine.memory_available_bytes
        yield "machine_memory_available_bytes", "Memory that is available.", available
        yield "machine_disk_free_bytes", "Free on the home's disk.", machine.disk_free_bytes


def _labelled(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(PREFIX + name, text, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family


def _counted(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(PREFIX + name, text, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family
