"""Settings of the page that shows a running node in a browser (docs/dashboard.md)."""

from __future__ import annotations

import ipaddress

from pydantic import Field, field_validator

from swarmnode.config.base import Section


class Dashboard(Section):
    """The page of a running node."""

    enabled: bool = True
    """Whether `swarmnode run` serves the page, and the metrics for Prometheus beside it."""

    address: str = "127.0.0.1"
    """IP address to listen on; the default is this machine alone. Beyond it the page travels
    unencrypted, and whoever reads its address off the wire can read the page."""

    port: int = Field(default=8470, ge=0, le=65535)
    """Port to listen on; 0 is any that is free. Where it is taken, any that is free is used and
    told."""

    hosts: tuple[str, ...] = ()
    """Names under which a browser may ask for it, beside localhost and IP addresses: those of a
    proxy in front of it."""

    @field_validator("address")
    @classmethod
    def _must_be_an_ip_address(cls, value: str) -> str:
        try:
            return str(ipaddress.ip_address(value))
        except ValueError:
            raise ValueError("give an IP address, such as 127.0.0.1 or ::1") from None

    @property
    def open_addresses(self) -> tuple[str, ...]:
        """What it listens on beyond this machine, in words; empty by default."""
        if not self.enabled or ipaddress.ip_address(self.address).is_loopback:
            return ()
        return (f"{self.address} (dashboard)",)
