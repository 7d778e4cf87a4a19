"""A node's home: its folder on disk, what lies where in it, and that one process works in it.

Knows no key's form and no database. Invariants: a lock is the kernel's (flock), so that it ends
with its holder, however that ends, and lock files are never deleted: a deleted one would let two
processes hold "the" lock. What the file says is for people: the process id and the home.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from swarmnode.paths import HOME_VARIABLE, home_folder

INSTANCE_BYTES = 16
MACHINE_ID = Path("/etc/machine-id")


class HomeError(Exception):
    """The home cannot be used; the text is one line that names the remedy."""


class HomeInUse(HomeError):
    """Another process works in the home, or with the same identity; `pid` is "" when unknown."""

    def __init__(self, message: str, pid: str) -> None:
        super().__init__(message)
        self.pid = pid


class Lock:
    """A held lock; it ends with `release`, with its block, or with the process."""

    def __init__(self, *descriptors: int) -> None:
        self._descriptors = descriptors

    def release(self) -> None:
        """Let others in; doing it twice does nothing."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = ()

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


@dataclass(frozen=True, slots=True)
class Home:
    """The places in a node's folder."""

    path: Path

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Home:
        """The one that SWARMNODE_HOME names, or the user's."""
        return cls(home_folder(environment))

    @property
    def lock_file(self) -> Path:
        """Held by the process that works here."""
        return self.path / "lock"

    @property
    def key(self) -> Path:
        """The private key; 0600."""
        return self.path / "key"

    @property
    def generators_key(self) -> Path:
        """What generators on other machines come in with; 0600."""
        return self.path / "generators.pem"

    @property
    def instance_file(self) -> Path:
        """Random bytes that tell this home from another with the same key."""
        return self.path / "instance"

    @property
    def swarms(self) -> Path:
        """Swarm files, one a swarm."""
        return self.path / "swarms"

    @property
    def checkpoints(self) -> Path:
        """Checkpoints, a folder each."""
        return self.path / "checkpoints"

    @property
    def log(self) -> Path:
        """Log files."""
        return self.path / "log"

    @property
    def metrics(self) -> Path:
        """rounds.jsonl, and what trackers keep."""
        return self.path / "metrics"

    @property
    def database(self) -> Path:
        """Rounds, own bundles, peers, events."""
        return self.path / "store.sqlite"

    @property
    def reserved(self) -> Path:
        """Numbers that must never be used twice."""
        return self.path / "reserved.json"

    @property
    def status_socket(self) -> Path:
        """Where a running node answers `swarmnode status`."""
        return self.path / "status.sock"

    @property
    def dashboard_secret(self) -> Path:
        """What the address of the dashboard must hold; 0600."""
        return self.path / "dashboard-secret"

    @property
    def metrics_secret(self) -> Path:
        """What Prometheus must know; 0600."""
        return self.path / "metrics-secret"

    def make(self) -> None:
        """Make the folders, for this user alone; those that are there stay as they are.

        Raises HomeError.
        """
        try:
            for folder in (self.path, self.swarms, self.checkpoints, self.log, self.metrics):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise self._unusable(error) from error

    def lock(self) -> Lock:
        """Claim the home, which must have been made, for this process. Raises HomeError."""
        try:
            return _claimed(self.lock_file, self.path)
        except _Held as held:
            raise HomeInUse(
                f"{self.path} is in use by process {held.pid or '(unknown)'}: end that one, or "
                f"give this node a home of its own with the environment variable {HOME_VARIABLE}",
                held.pid,
            ) from None
        except OSError as error:
            raise self._unusable(error) from error

    def instance(self, machine: Path = MACHINE_ID) -> bytes:
        """16 bytes that stay the same for this home on this machine.

        Drawn once, and mixed with the machine's own id, so that a home that was copied to another
        machine with its key is told from the first. Raises HomeError.
        """
        try:
            drawn = self._drawn_instance()
        except OSError as error:
            raise self._unusable(error) from error
        try:
            machine_id = machine.read_bytes().strip()
        except OSError:
            machine_id = b""
        return hashlib.sha256(drawn + machine_id).digest()[:INSTANCE_BYTES]

    def _drawn_instance(self) -> bytes:
        """The bytes in the file; whoever draws first has drawn for all. Raises OSError."""
        try:
            if len(drawn := self._read_instance()) == INSTANCE_BYTES:
                return drawn
            self.instance_file.unlink()
        except FileNotFoundError:
            pass
        temporary = self.instance_file.with_name(f".instance.{os.getpid()}")
        temporary.write_text(os.urandom(INSTANCE_BYTES).hex(), encoding="ascii")
        with contextlib.suppress(FileExistsError):
            os.link(temporary, self.instance_file)
        temporary.unlink()
        return self._read_instance()

    def _read_instance(self) -> bytes:
        """Empty where the file holds no bytes in hexadecimal. Raises OSError."""
        try:
            return bytes.fromhex(self.instance_file.read_text(encoding="ascii"))
        except ValueError:
            return b""

    def _unusable(self, error: OSError) -> HomeError:
        return HomeError(
            f"{error.filename or self.path} cannot be used: {error.strerror}; choose another home "
            f"with the environment variable {HOME_VARIABLE}"
        )


def lock_identity(public_key: bytes, home: Path, folder: Path) -> Lock:
    """Claim a key for this process, among all homes of this user on this machine.

    `folder` is paths.locks_folder; it is made when missing. Raises HomeError.
    """
    name = hashlib.sha256(public_key).hexdigest()[:32]
    try:
        _make_private(folder)
        return _claimed(folder / f"{name}.lock", home)
    except _Held as held:
        raise HomeInUse(
            f"this identity already runs on this machine as process {held.pid or '(unknown)'} "
            f"with the home {held.home or '(unknown)'}: end that one, or give this home an "
            "identity of its own with `swarmnode key rotate`",
            held.pid,
        ) from None
    except OSError as error:
        raise HomeError(
            f"{error.filename or folder} cannot be used to tell whether this identity already "
            f"runs: {error.strerror}; remove it, or make it yours alone (mode 700)"
        ) from error


class _Held(Exception):
    """Somebody else has the lock."""

    def __init__(self, pid: str, home: str) -> None:
        super().__init__(pid)
        self.pid = pid
        self.home = home


def _claimed(path: Path, home: Path) -> Lock:
    """Raises _Held and OSError."""
    # A lock on the folder keeps cleaners of temporary files (systemd-tmpfiles) away from it.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        os.close(folder)
        raise
    lock = Lock(file, folder)
    try:
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(file, 0)
        os.write(file, f"{os.getpid()}\n{home}\n".encode())
    except BlockingIOError:
        pid, _, other = os.pread(file, 4096, 0).decode(errors="replace").partition("\n")
        lock.release()
        raise _Held(pid if pid.isdecimal() else "", other.strip()) from None
    except OSError:
        lock.release()
        raise
    return lock


def _make_private(folder: Path) -> None:
    """The folder is in a place where others may write: it must be ours and no link to elsewhere."""
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    loose = stat.S_IMODE(status.st_mode) & 0o077
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or loose:
        raise PermissionError(1, "it is not a folder of this user alone", str(folder))
