"""`doctor --bundle`: what helps others to help, in one archive, with nothing private in it.

Findings, settings, status, versions and the ends of the logs, each through redaction.py. Keys,
checkpoints, the store and answers of models are not read into it.
"""

from __future__ import annotations

import io
import json
import os
import platform
import socket
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from swarmnode.config.settings import Settings
from swarmnode.doctor.checks import Check
from swarmnode.doctor.redaction import Redaction
from swarmnode.home import Home
from swarmnode.observe.log import LOG_SUFFIX

LOG_BYTES = 512 * 1024
"""Of each log, before its end."""
_TEXTS_OF_MODELS = ("answers", "trained")
"""Events of the log that hold answers, or nothing but peers."""
_SECRET_NAMES = ("TOKEN", "SECRET", "PASSWORD", "KEY", "CREDENTIAL")


def write_bundle(
    path: Path,
    home: Home,
    settings: Settings,
    found: Sequence[Check],
    status: Mapping[str, Any] | None,
    environment: Mapping[str, str],
) -> None:
    """Write the archive, for its owner alone. Raises OSError."""
    redaction = redaction_of(home, environment)
    parts = {
        "doctor.json": redaction.values([asdict(each) for each in found]),
        "settings.json": redaction.values(settings.model_dump(mode="json")),
        "status.json": redaction.values(status),
        "versions.json": versions(environment),
    }
    texts = {name: json.dumps(each, indent=2) + "\n" for name, each in parts.items()}
    for log in sorted(home.log.glob(f"*{LOG_SUFFIX}")):
        texts[f"log/{redaction.text(log.name)}"] = _log(log, redaction)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with (
        os.fdopen(descriptor, "wb") as file,
        tarfile.open(fileobj=file, mode="w:gz", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, text in texts.items():
            data = text.encode()
            # A fresh entry has no owner and no time of anything on this machine.
            entry = tarfile.TarInfo(f"swarmnode-doctor/{name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def redaction_of(home: Home, environment: Mapping[str, str]) -> Redaction:
    """What is secret or private here: of the home, the environment, the user and the machine."""
    secrets = [
        value
        for name, value in environment.items()
        if any(word in name.upper() for word in _SECRET_NAMES)
    ]
    for file in (home.key, home.dashboard_secret, home.metrics_secret, home.generators_key):
        secrets += [line for line in _read(file).splitlines() if line[:1] not in ("#", "-")]
    for file in home.swarms.glob("*.toml"):
        secrets += [line.partition("=")[2].strip(' "') for line in _read(file).splitlines()
                    if line.strip().startswith("key")]  # fmt: skip
    private = {str(home.path): "[home]", socket.gethostname(): "[machine]"}
    with suppress(RuntimeError):
        private[str(Path.home())] = "~"
    for name in ("USER", "LOGNAME", "SUDO_USER"):
        if len(user := environment.get(name, "")) > 2 and user != "root":
            private[user] = "[user]"
    return Redaction([each.strip() for each in secrets], {k: v for k, v in private.items() if k})


def versions(environment: Mapping[str, str]) -> dict[str, Any]:
    """Of the system, Python and every package; of the environment the names of our variables."""
    ours = ("SWARMNODE_", "OMP_", "MKL_", "CUDA_", "PYTORCH_", "HF_", "WANDB_", "TRACKIO_")
    packages = {each.name: each.version for each in metadata.distributions()}
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "variables": sorted(name for name in environment if name.startswith(ours)),
        "packages": dict(sorted(packages.items())),
    }


def _log(path: Path, redaction: Redaction) -> str:
    """The end of a log, line by line; what does not parse is left out, as is what models said."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - LOG_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()
    kept = []
    for line in lines:
        with suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict) and entry.get("event") not in _TEXTS_OF_MODELS:
                kept.append(json.dumps(redaction.values(entry), ensure_ascii=False))
    return "".join(f"{line}\n" for line in kept)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
