"""Settings of what is kept of the rounds for others to draw (docs/trackers.md)."""

from __future__ import annotations

import ipaddress
from typing import Literal

from pydantic import Field, field_validator

from swarmnode.config.base import Section

TrackerName = Literal["tensorboard", "trackio", "wandb"]


class Metrics(Section):
    """Where the figures of a running node's rounds go, beside its store."""

    trackers: tuple[TrackerName, ...] = ()
    """Also to `tensorboard`, `trackio` or `wandb`, each an extra of the same name. Whatever is
    chosen, `rounds.jsonl` is written. They write under `metrics/` in the home; W&B sends only where
    the environment says `WANDB_MODE=online`, trackio where it names a server or a Space."""

    project: str = Field(default="swarmnode", pattern=r"^[A-Za-z0-9_.-]{1,64}$")
    """Name of the project in trackio and W&B."""

    run: str = Field(default="", max_length=64, pattern=r"^[A-Za-z0-9_.-]*$")
    """Name of the run in all three; empty is the model's name and eight letters of this home."""

    lines_mib: int = Field(default=64, ge=1, le=65536)
    """Size of all `rounds.jsonl*` together, in MiB; the older half goes. The store keeps 100,000
    rounds all the same."""

    address: str = ""
    """IP address at which Prometheus may ask for `/metrics`, and nothing else; empty for none but
    the dashboard's. Whoever asks needs the secret, and the answer travels unencrypted."""

    port: int = Field(default=8471, ge=0, le=65535)
    """Port there; 0 is any that is free, which the log tells."""

    secret_file: str = ""
    """File with the secret, at least 16 characters, for nodes that share one; empty is
    `metrics-secret` in the home, which is drawn at the first start. The dashboard's `/metrics`
    takes it as well."""

    @field_validator("address")
    @classmethod
    def _must_be_an_ip_address(cls, value: str) -> str:
        try:
            return str(ipaddress.ip_address(value)) if value else ""
        except ValueError:
            raise ValueError("give an IP address, such as 127.0.0.1 or ::1") from None

    @property
    def open_addresses(self) -> tuple[str, ...]:
        """What it listens on beyond this machine, in words; empty by default."""
        if not self.address or ipaddress.ip_address(self.address).is_loopback:
            return ()
        return (f"{self.address} (metrics)",)

    @field_validator("trackers")
    @classmethod
    def _each_once(cls, value: tuple[TrackerName, ...]) -> tuple[TrackerName, ...]:
        return tuple(dict.fromkeys(value))
