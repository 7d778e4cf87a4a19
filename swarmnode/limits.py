"""What the operating system allows this process."""

from __future__ import annotations

import resource
from contextlib import suppress


def raise_open_files() -> None:
    """Allow as many open files as the system lets: a node in a swarm has hundreds of sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # macOS names a limit that it doesn't grant.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
