"""docker/'s compose file, Prometheus and Grafana: every name in them is one that we serve.

What needs a container engine is not seen here; docs/install.md says what was. Skips what needs
Debian's `prometheus` and `docker-compose` where they are not installed.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from swarmnode.api.prometheus import exposition
from swarmnode.config.settings import load_settings
from swarmnode.observe.facts import Severity
from swarmnode.observe.machine import MachineStatus
from tests.unit.dashboard_support import moment
from tests.unit.test_documentation import commands, misnamed
from tests.unit.test_prometheus import everything

DOCKER = Path(__file__).parent.parent.parent / "docker"
DASHBOARD = DOCKER / "grafana" / "dashboards" / "swarmnode.json"
OURS = re.compile(r"\bswarmnode_\w+")
LABELS = re.compile(r"(?:by|on|without) \(([\w, ]*)\)|[{,](\w+)(?:=~|!~|!=|=)\"|\{\{ ?(\w+) ?\}\}")
FROM_PROMETHEUS = {"instance", "job"}


def read(name: str) -> Any:
    return yaml.safe_load((DOCKER / name).read_text("utf-8"))


def served() -> dict[str, set[str]]:
    """Every name that a node serves in the course of its life, with its labels."""
    machine = MachineStatus(
        processors=1, memory_available_bytes=1, memory_total_bytes=1, disk_free_bytes=1
    )
    later = moment().status.model_copy(update={"machine": machine})
    found: dict[str, set[str]] = {}
    for shown in (everything(), moment(later)):
        for family in text_string_to_metric_families(exposition(shown).decode()):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


def panels() -> Iterator[tuple[str, str, str]]:
    """Title, expression and legend of whatever the dashboard draws."""
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"], target["legendFormat"]


def rules() -> list[dict[str, Any]]:
    return [rule for group in read("alerts.yml")["groups"] for rule in group["rules"]]


def expressions() -> list[str]:
    return [*(expression for _, expression, _ in panels()), *(rule["expr"] for rule in rules())]


def test_every_metric_and_label_that_is_drawn_or_alerted_on_is_served() -> None:
    known = served()
    used = {name for each in expressions() for name in OURS.findall(each)}
    assert len(used) > 25
    assert used - set(known) == set()
    shown = [(expression, expression + legend) for _, expression, legend in panels()]
    shown += [(rule["expr"], rule["expr"] + str(rule["annotations"])) for rule in rules()]
    for expression, text in shown:
        allowed = {label for name in OURS.findall(expression) for label in known[name]}
        for groups in LABELS.findall(text.replace("$labels.", "").replace("$value", "")):
            named = {each.strip() for each in ",".join(groups).split(",") if each.strip()}
            assert named <= allowed | FROM_PROMETHEUS, expression


def test_what_counts_is_drawn_as_a_rate_and_what_does_not_is_not() -> None:
    for each in expressions():
        for name in OURS.findall(each):
            wrapped = re.search(rf"(?:rate|increase)\({name}", each) is not None
            assert name.endswith("_total") == wrapped, each


def test_a_name_that_nobody_serves_would_be_seen() -> None:
    assert "swarmnode_reward_locale" not in served()
    assert "severity" in served()["swarmnode_warning"]
    assert "task" in served()["swarmnode_held_out"]


def test_an_alert_says_what_is_wrong_where_and_what_to_do() -> None:
    severities = {each.value for each in Severity}
    for rule in rules():
        assert rule["labels"]["severity"] in severities
        assert "{{ $labels.instance }}" in rule["annotations"]["summary"]
        assert rule["annotations"]["fix"].endswith(".")
        for command in re.findall(r"`(swarmnode [^`]+)`", rule["annotations"]["fix"]):
            assert misnamed(command, commands()) == []


def test_prometheus_takes_its_files_and_every_expression(tmp_path: Path) -> None:
    if not (promtool := shutil.which("promtool")):
        pytest.skip("promtool is in Debian's prometheus")
    (tmp_path / "metrics-secret").write_text("x")
    text = (DOCKER / "prometheus.yml").read_text("utf-8").replace("/shared", str(tmp_path))
    (tmp_path / "prometheus.yml").write_text(text)
    shutil.copy(DOCKER / "alerts.yml", tmp_path)
    drawn = [
        {"record": f"drawn:{number}", "expr": each.replace("$node", ".*")}
        for number, each in enumerate(expressions())
    ]
    groups = {"groups": [{"name": "drawn", "rules": drawn}]}
    (tmp_path / "drawn.yml").write_text(yaml.safe_dump(groups))
    for what in (["config", "prometheus.yml"], ["rules", "drawn.yml"]):
        done = subprocess.run(
            [promtool, "check", *what], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr + done.stdout
    # A check that takes anything would be none.
    groups["groups"][0]["rules"][0]["expr"] = "rate(swarmnode_round["  # type: ignore[index]
    (tmp_path / "drawn.yml").write_text(yaml.safe_dump(groups))
    assert subprocess.run(
        [promtool, "check", "rules", "drawn.yml"], cwd=tmp_path, capture_output=True
    ).returncode


def services() -> dict[str, Any]:
    found: dict[str, Any] = read("compose.yaml")["services"]
    return found


def test_compose_takes_the_file(tmp_path: Path) -> None:
    if not (compose := shutil.which("docker-compose")):
        pytest.skip("Debian's docker-compose is not here")
    # Debian's is version 1, which knows no name for the whole; all else it judges.
    whole = (DOCKER / "compose.yaml").read_text("utf-8")
    (tmp_path / "compose.yaml").write_text(whole.replace("\nname: swarmnode\n", "\n"))
    done = subprocess.run(
        [compose, "-f", str(tmp_path / "compose.yaml"), "--profile", "metrics", "config"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    resolved = yaml.safe_load(done.stdout)["services"]
    assert set(resolved) == set(services())
    assert "$$" in str(resolved["node-1"]["entrypoint"]), "the container's shell expands it"


def test_nothing_is_published_beyond_the_host_s_loopback_and_all_files_are_there() -> None:
    volumes = read("compose.yaml")["volumes"]
    for name, service in services().items():
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), name
        for mount in service.get("volumes", ()):
            source = mount.split(":")[0]
            assert (DOCKER / source).exists() if source[0] == "." else source in volumes, mount
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
    assert read("compose.yaml")["networks"]["metrics"] == {"internal": True}


def test_the_homes_are_apart_and_only_prepare_writes_what_is_shared() -> None:
    homes = {
        name: [mount for mount in service["volumes"] if mount.endswith(":/data")]
        for name, service in services().items()
        if "profiles" not in service
    }
    assert homes.pop("prepare") == homes["bootstrap"]
    assert len({str(each) for each in homes.values()}) == 4
    for name, service in services().items():
        shared = [mount for mount in service["volumes"] if mount.startswith("shared:")]
        assert all(mount.endswith(":ro") for mount in shared) or name == "prepare"
        assert name not in ("prometheus", "grafana") or not any(
            mount.startswith(("node-", "bootstrap:")) for mount in service["volumes"]
        )


def test_settings_of_the_services_are_settings_and_prometheus_asks_where_they_listen() -> None:
    (job,) = read("prometheus.yml")["scrape_configs"]
    (targets,) = [each["targets"] for each in job["static_configs"]]
    nodes = {name: each for name, each in services().items() if name.startswith("node-")}
    assert len(nodes) == 3
    for name, node in nodes.items():
        environment = {key: str(value) for key, value in node["environment"].items()}
        settings = load_settings(environment=environment)
        assert f"{name}:{settings.metrics.port}" in targets
        assert settings.metrics.address == settings.dashboard.address == "0.0.0.0"
        assert settings.metrics.secret_file == job["authorization"]["credentials_file"]
        port = settings.dashboard.port
        assert node["ports"] == [f"127.0.0.1:{port}:{port}"], "its printed address holds outside"
        assert "metrics" in node["networks"]
    assert len(targets) == 3


def test_grafana_finds_its_source_and_its_dashboard() -> None:
    (source,) = read("grafana/provisioning/datasources/prometheus.yaml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    text = DASHBOARD.read_text("utf-8")
    assert set(re.findall(r'"uid": "([^"]+)"', text)) == {source["uid"], "swarmnode"}
    (provider,) = read("grafana/provisioning/dashboards/swarmnode.yaml")["providers"]
    mounts = services()["grafana"]["volumes"]
    assert f"./grafana/dashboards:{provider['options']['path']}:ro" in mounts
    ids = [panel["id"] for panel in json.loads(text)["panels"]]
    assert len(ids) == len(set(ids))
