"""`python -m tests.real.container FOLDER`: docker/ proven in a fresh Debian, without an engine.

Needs root, debootstrap, buildah and systemd-nspawn (systemd-container), 10 GB in FOLDER, and about
ten minutes. debootstrap makes the base that docker/Dockerfile names; buildah builds the file as it
is; a node runs in the image as the image's user and passes the image's health check; then systemd
is booted in a namespace with docker/systemd/system/swarmnode.service, and the node has to become
ready, to be restarted when it hangs, to go on from its checkpoint, and to stop in order. What
differs from the files: a small policy, a watchdog of 20 seconds, and pip's configuration, taken
from this machine. What is in FOLDER is used again; a folder of its name makes a step anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.real.fresh_debian import make_debian, pip_paths, pip_settings, run, say

ROOT: Final = Path(__file__).parent.parent.parent
BASE: Final = "docker.io/library/debian:bookworm-slim"
SMALL: Final = (
    "--solo",
    *("--set", "policy.warm_start.base_steps=20", "--set", "policy.warm_start.steps=5"),
    *("--set", 'tasks.names=["basic_arithmetic"]'),
)
BUILDAH: Final = {"STORAGE_DRIVER": "overlay", "BUILDAH_ISOLATION": "chroot"}

PROVE: Final = r"""#!/bin/sh
# Runs in the booted system once the node has said that it is ready.
shown() { systemctl show swarmnode -p ActiveState,StatusText,NRestarts,Result | tr '\n' ';'; echo; }
value() { systemctl show swarmnode -p "$1" --value; }
node() { setpriv --reuid swarmnode --regid swarmnode --clear-groups \
  env SWARMNODE_HOME=/var/lib/swarmnode /opt/swarmnode/bin/swarmnode "$@"; }
echo "ready $(shown)"
node doctor --quick > /dev/null; echo "health $?"
kill -STOP "$(value MainPID)"
for i in $(seq 60); do [ "$(value NRestarts)" = 1 ] && break; sleep 2; done
for i in $(seq 120); do [ "$(value ActiveState)" = active ] && break; sleep 2; done
echo "again $(shown)"
systemctl stop swarmnode
echo "stopped $(shown)"
echo "checkpoints $(ls /var/lib/swarmnode/checkpoints | wc -l)"
"""


class Place:
    """A folder with what the steps leave."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.base = self.folder / "base"
        self.boot = self.folder / "boot"

    def buildah(self, *arguments: str | Path) -> str:
        """With storage of its own under the folder."""
        own = ("--root", self.folder / "storage", "--runroot", self.folder / "run")
        return run("buildah", *own, *arguments, environment=BUILDAH).strip()

    def make_base(self) -> None:
        """The Debian that the Dockerfile begins with."""
        make_debian(self.base)
        archive = self.folder / "base.tar"
        run("tar", "-C", self.base, "-cf", archive, ".")
        container = self.buildah("from", "scratch")
        self.buildah("add", "-q", container, archive, "/")
        self.buildah("config", "--cmd", "/bin/bash", container)
        self.buildah("commit", "-q", "--disable-compression", "--rm", container, BASE)

    def build(self) -> None:
        """docker/Dockerfile as it is."""
        say("docker/Dockerfile")
        pip = self.folder / "pip.conf"
        pip.write_text(pip_settings())
        mounts = [f"--volume={pip}:/etc/pip.conf:ro"]
        mounts += [f"--volume={here}:{there}:ro" for there, here in pip_paths().items()]
        arguments: list[str | Path] = ["bud", "--format", "docker", "--network", "host"]
        arguments += ["--pull=never", "--no-cache", "-f", ROOT / "docker" / "Dockerfile"]
        arguments += ["--ignorefile", ROOT / "docker" / "Dockerfile.dockerignore"]
        self.buildah(*arguments, "-t", "swarmnode", *mounts, ROOT)

    def prove_image(self) -> str:
        """A node in the image is well, by the image's own health check; returns the container."""
        container = self.buildah("from", "--pull=never", "localhost/swarmnode")
        config = json.loads(self.buildah("inspect", container))["Docker"]["config"]
        assert config["User"] == "swarmnode", config
        check = config["Healthcheck"]["Test"][1:]
        command = [*config["Entrypoint"], *config["Cmd"], *SMALL, "--rounds", "100000"]
        say(f"{' '.join(command[:2])} in the image; health check: {' '.join(check)}")
        own = ("--root", str(self.folder / "storage"), "--runroot", str(self.folder / "run"))
        running = subprocess.Popen(
            ["buildah", *own, "run", container, "--", *command],
            env={**os.environ, **BUILDAH},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            self._wait_until_well(container, check)
        finally:
            running.terminate()
            running.wait(120)
        return container

    def _wait_until_well(self, container: str, check: Sequence[str]) -> None:
        until = time.monotonic() + 300
        while True:
            try:
                say(self.buildah("run", container, "--", *check).splitlines()[0])
                return
            except subprocess.CalledProcessError:
                if time.monotonic() > until:
                    raise
                time.sleep(5)

    def prove_unit(self, container: str) -> dict[str, str]:
        """The unit under systemd; what was seen, by step."""
        say("systemd in a namespace")
        self._furnish(container)
        command = ["systemd-nspawn", "-q", "--register=no", "--keep-unit", "--boot"]
        subprocess.run(
            [*command, "-D", str(self.boot)], stdout=subprocess.DEVNULL, timeout=900, check=False
        )
        lines = (self.boot / "proof.txt").read_text("utf-8").splitlines()
        return dict(line.split(" ", 1) for line in lines)

    def _furnish(self, container: str) -> None:
        if self.boot.exists():
            run("rm", "-rf", self.boot)
        run("cp", "-a", self.base, self.boot)
        run("cp", "-a", f"{self.buildah('mount', container)}/opt/swarmnode", self.boot / "opt")
        run("cp", "/etc/resolv.conf", self.boot / "etc" / "resolv.conf")
        packages = "apt-get install -y -q --no-install-recommends systemd-sysv dbus python3.11"
        run("chroot", self.boot, "sh", "-c", f"apt-get update -q && {packages}")
        run("chroot", self.boot, "useradd", "--system", "swarmnode")
        units = self.boot / "etc" / "systemd" / "system"
        run("cp", ROOT / "docker" / "systemd" / "system" / "swarmnode.service", units)
        (units / "swarmnode.service.d").mkdir()
        arguments = " ".join(f"'{each}'" for each in SMALL)
        (units / "swarmnode.service.d" / "small.conf").write_text(
            "[Service]\nWatchdogSec=20\nExecStart=\n"
            f"ExecStart=/opt/swarmnode/bin/swarmnode run {arguments}\n"
        )
        (self.boot / "prove.sh").write_text(PROVE)
        (units / "prove.service").write_text(
            "[Unit]\nWants=swarmnode.service\nAfter=swarmnode.service\n[Service]\nType=oneshot\n"
            "ExecStart=/bin/sh -c '/bin/sh /prove.sh > /proof.txt; systemctl poweroff'\n"
            "[Install]\nWantedBy=multi-user.target\n"
        )
        run("chroot", self.boot, "systemctl", "enable", "prove.service")


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit code."""
    if len(arguments) != 1:
        print("python -m tests.real.container takes a folder with 10 GB of room")
        return 2
    place = Place(Path(arguments[0]))
    place.make_base()
    place.build()
    seen = place.prove_unit(place.prove_image())
    for step, what in seen.items():
        say(f"{step}: {what}")
    wanted = {
        "ready": "ActiveState=active",
        "health": "0",
        "again": "NRestarts=1",
        "stopped": "Result=success",
        "checkpoints": "1",
    }
    missing = [step for step, what in wanted.items() if what not in seen.get(step, "")]
    say(f"NOT SHOWN: {', '.join(missing)}" if missing else "all of it was seen")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
