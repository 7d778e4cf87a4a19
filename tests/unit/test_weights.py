"""Weights through shared memory and through a folder, by real processes where they matter."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from safetensors import safe_open
from torch import Tensor, nn

from swarmnode.config.policy import PolicySettings
from swarmnode.config.weights import WeightSync
from swarmnode.paths import shared_memory_folder
from swarmnode.weights import places
from swarmnode.weights.broadcast_out import BroadcastOut
from swarmnode.weights.channel import (
    WeightsDamaged,
    WeightsError,
    WeightsIn,
    WeightsMismatch,
    WeightsTorn,
)
from swarmnode.weights.folder import FolderIn, FolderOut
from swarmnode.weights.locks import LockedFile
from swarmnode.weights.opening import open_in, open_out
from swarmnode.weights.plan import Plan
from swarmnode.weights.selected import selected
from swarmnode.weights.shared_memory import SharedMemoryIn, SharedMemoryOut
from tests.unit.weights_children import COUNT, WRITERS, uniform, writer
from tests.unit.weights_support import blank, child, gathering, mixed, values

KINDS = ("shared-memory", "folder")
READERS: dict[str, Callable[[Path, str], WeightsIn]] = {
    "shared-memory": SharedMemoryIn,
    "folder": FolderIn,
}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """In memory, where shared memory is; the test's own, not the user's."""
    parent = shared_memory_folder(0).parent / f"swarmnode-test-{tmp_path.name}"
    yield parent / "place"
    shutil.rmtree(parent, ignore_errors=True)


def reader(kind: str, place: Path, base: str = "") -> WeightsIn:
    return READERS[kind](place, base)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_published_is_taken_bit_by_bit_whatever_its_type(kind: str, place: Path) -> None:
    sent, taking = mixed(), reader(kind, place)
    assert taking.newest() is None
    assert taking.take({}, -1) is None
    out = WRITERS[kind](place, Plan.of(sent))
    published = out.publish(3, sent.items())
    into = blank(sent)
    taken = taking.take(into, 2)
    assert taking.newest() == 3
    assert taken is not None
    assert (taken.version, taken.checksum, taken.bytes) == (3, published.checksum, published.bytes)
    assert published.bytes == sum(one.numel() * one.element_size() for one in sent.values())
    assert all(torch.equal(into[name], sent[name]) for name in sent)
    assert taking.take(into, 3) is None
    taking.close()
    out.close()


def test_the_checksum_is_the_same_whatever_carries_the_weights(place: Path) -> None:
    sent, sums = mixed(), set()
    for kind in KINDS:
        out = WRITERS[kind](place / kind, Plan.of(sent))
        sums.add(out.publish(1, sent.items()).checksum)
        out.close()
    assert len(sums) == 1


@pytest.mark.parametrize(("kind", "versions"), [("shared-memory", 300), ("folder", 60)])
def test_a_reader_that_hammers_never_sees_two_versions_mixed(
    kind: str, versions: int, place: Path
) -> None:
    taking, into, have, seen = reader(kind, place), uniform(-1), -1, 0
    with child("publish", kind, place, versions) as process:
        while have < versions - 1:
            taken = taking.take(into, have)
            if taken is not None:
                assert values(into) == {float(taken.version)}
                assert taken.version > have
                have, seen = taken.version, seen + 1
        process.communicate("done\n")
    taking.close()
    assert seen > 3


class Interrupted(dict[str, Tensor]):
    """Tensors to be filled; something happens just before the second of them is."""

    def __init__(self, tensors: dict[str, Tensor], happens: Callable[[], None]) -> None:
        super().__init__(tensors)
        self._happens, self._left = happens, len(tensors) + 2  # all are looked at before

    def __getitem__(self, name: str) -> Tensor:
        self._left -= 1
        if self._left == 0:
            self._happens()
        return super().__getitem__(name)


@pytest.mark.parametrize("kind", KINDS)
def test_two_publications_in_the_middle_of_a_take_leave_it_whole(kind: str, place: Path) -> None:
    out, taking = writer(kind, place), reader(kind, place)
    out.publish(0, uniform(0).items())

    def publish_twice() -> None:
        for version in (1, 2, 3):
            out.publish(version, uniform(version).items())

    into = Interrupted(uniform(-1), publish_twice)
    taken = taking.take(into, -1)
    assert taken is not None
    assert taken.version == 0
    assert values(into) == {0.0}
    assert taking.take(into, 0) is not None
    assert values(into) == {3.0}
    taking.close()
    out.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_writer_killed_in_the_middle_leaves_the_version_before(kind: str, place: Path) -> None:
    taking, into = reader(kind, place), uniform(-1)
    with child("stop", kind, place) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
        assert taking.newest() == 1
        process.send_signal(signal.SIGKILL)
    taken = taking.take(into, -1)
    assert taken is not None
    assert taken.version == 1
    assert values(into) == {1.0}
    # Its successor went on from an earlier checkpoint: a lower version is newer all the same.
    out = writer(kind, place)
    out.publish(0, uniform(7).items())
    taken = taking.take(into, 1)
    assert taken is not None
    assert taken.version == 0
    assert values(into) == {7.0}
    assert taking.take(into, 0) is None
    assert not list(place.glob(".weights-*"))
    taking.close()
    out.close()


def test_what_a_killed_writer_left_in_memory_is_removed_by_whoever_comes_next(place: Path) -> None:
    with child("stop", "shared-memory", place) as process:
        assert process.stdout is not None
        process.stdout.readline()
        held = writer("shared-memory", place.with_name("other"))
        assert (place / "buffer-0").exists(), "a living writer's place was swept"
        process.send_signal(signal.SIGKILL)
    third = writer("shared-memory", place.with_name("third"))
    assert not place.exists()
    third.close()
    held.close()
    assert [one.name for one in place.parent.iterdir()] == ["door"]


def test_a_reader_that_comes_too_late_takes_what_is_newer_by_then(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, taking, lock = writer("shared-memory", place), SharedMemoryIn(place), LockedFile.lock
    out.publish(0, uniform(0).items())

    def late(file: LockedFile, *, shared: bool) -> bool:
        if shared and taking.newest() == 0:  # between the look at what is current and its lock
            out.publish(1, uniform(1).items())
            out.publish(2, uniform(2).items())
        return lock(file, shared=shared)

    monkeypatch.setattr(LockedFile, "lock", late)
    into = uniform(-1)
    taken = taking.take(into, -1)
    assert taken is not None
    assert taken.version == 2
    assert values(into) == {2.0}
    taking.close()
    out.close()


def test_those_who_come_and_go_at_once_leave_each_other_alone(place: Path) -> None:
    def comes_and_goes(name: str) -> None:
        for turn in range(150):
            lock = places.enter(place.with_name(name), as_writer=turn % 2 == 0)
            assert lock.is_there, "swept by another one while it came"
            places.leave(place.with_name(name), lock)

    with ThreadPoolExecutor(6) as several:
        list(several.map(comes_and_goes, ["a", "b", "c", "d", "e", "f"]))


def test_where_others_remove_what_lies_in_memory_the_next_version_is_taken_all_the_same(
    place: Path,
) -> None:
    # What systemd-logind does when the user logs out, or a cleaner of /tmp.
    out, taking, into = writer("shared-memory", place), SharedMemoryIn(place), uniform(-1)
    out.publish(0, uniform(0).items())
    assert taking.take(into, -1) is not None
    for version in (1, 2):
        shutil.rmtree(place.parent) if version == 1 else (place / "writer").unlink()
        assert taking.take(into, version - 1) is None
        assert values(into) == {version - 1.0}, "what it had is what it has"
        out.publish(version, uniform(version).items())
        taken = taking.take(into, version - 1)
        assert taken is not None
        assert taken.version == version
        assert values(into) == {float(version)}
    for number in (3, 4, 5):  # each buffer is missed in its turn
        for buffer in place.glob("buffer-*"):
            buffer.unlink()
        out.publish(number, uniform(number).items())
        assert taking.take(into, number - 1) is not None
        assert values(into) == {float(number)}
    taking.close()
    out.close()
    assert not place.exists()


def test_files_of_others_in_the_folder_are_neither_taken_nor_removed(place: Path) -> None:
    place.mkdir(parents=True)
    others = [
        "weights-00001-of-00002.safetensors",
        "weights-1-2-3.safetensors",
        "weights-9-final.safetensors",
    ]
    for name in others:
        (place / name).write_bytes(b"")
    out, taking, into = writer("folder", place), FolderIn(place), uniform(-1)
    assert taking.newest() is None
    for version in range(4):
        out.publish(version, uniform(version).items())
    assert taking.take(into, -1) is not None
    assert values(into) == {3.0}
    assert sorted(path.name for path in place.iterdir() if path.name in others) == others
    newer = f"weights-{9:020d}-{'a' * 16}.safetensors"
    (place / newer).symlink_to("nowhere")
    with pytest.raises(WeightsError, match="a link to nothing"):
        taking.take(into, 3)


def flip(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("offset", [-1, -(1 << 20), 3, 20, 200])
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_bytes_are_found_before_anything_is_filled(
    kind: str, offset: int, place: Path
) -> None:
    out, taking, into = writer(kind, place), reader(kind, place), uniform(-1)
    out.publish(5, uniform(5).items())
    (path,) = [*place.glob("buffer-*"), *place.glob("*.safetensors")]
    flip(path, offset if offset >= 0 else path.stat().st_size + offset)
    with pytest.raises((WeightsDamaged, WeightsMismatch)):
        taking.take(into, -1)
    assert values(into) == {-1.0}
    out.publish(6, uniform(6).items())
    assert taking.take(into, -1) is not None
    assert values(into) == {6.0}
    taking.close()
    out.close()


@pytest.mark.parametrize("kind", KINDS)
def test_two_sides_that_differ_are_told_so_in_one_line(kind: str, place: Path) -> None:
    out = writer(kind, place)
    out.publish(0, uniform(0).items())
    others = {
        "was sent for": uniform(0) | {"weight-3": torch.zeros(3)},
        "has no place here": dict(list(uniform(0).items())[1:]),
        "is missing": uniform(0) | {"more": torch.zeros(1)},
        "they belong on": uniform(0),
    }
    for words, into in others.items():
        taking = reader(kind, place, "another base" if words == "they belong on" else "")
        with pytest.raises(WeightsMismatch, match=words) as error:
            taking.take(into, -1)
        assert "\n" not in str(error.value)
        taking.close()
    with pytest.raises(WeightsMismatch, match="weight-1"):
        out.publish(1, [("weight-1", torch.zeros(1)), *uniform(0).items()])
    with pytest.raises(WeightsMismatch, match=f"weight-{COUNT - 1}"):
        out.publish(1, list(uniform(0).items())[:-1])
    with pytest.raises(ValueError, match="version 0 after 0"):
        out.publish(0, uniform(0).items())
    taking = reader(kind, place)
    assert taking.newest() == 0, "what was refused has replaced what was whole"
    taking.close()
    out.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_parameter_is_let_go_of_before_the_next_is_gathered(kind: str, place: Path) -> None:
    out = writer(kind, place)
    out.publish(0, gathering(uniform(0)))
    out.close()


def test_a_second_writer_and_a_place_open_to_others_are_refused(place: Path) -> None:
    out = writer("shared-memory", place)
    with pytest.raises(WeightsError, match="another process publishes"):
        writer("shared-memory", place)
    out.close()
    place.parent.chmod(0o755)
    with pytest.raises(WeightsError, match="mode 700"):
        writer("shared-memory", place)


def test_no_room_in_memory_is_an_error_and_no_signal(place: Path) -> None:
    huge = {"huge": torch.empty(1 << 38, device="meta")}
    out = SharedMemoryOut(place, Plan.of(huge))
    with pytest.raises(WeightsError, match=r"has no room .* policy.weights.channel=folder"):
        out.publish(0, huge.items())
    out.close()


def test_a_version_in_the_folder_is_a_file_that_safetensors_reads(place: Path) -> None:
    sent = mixed()
    out = FolderOut(place, Plan.of(sent))
    for version in range(4):
        published = out.publish(version, sent.items())
    paths = sorted(place.iterdir())
    assert len(paths) == 2, "the last two stay"
    with safe_open(paths[-1], framework="pt") as file:
        assert file.metadata()["checksum"] == published.checksum
        assert int(file.metadata()["version"]) == 3
        assert all(torch.equal(file.get_tensor(name), sent[name]) for name in sent)


class Small(nn.Module):
    """Two layers whose weights are one."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(8, 4, dtype=torch.bfloat16)
        self.head = nn.Linear(4, 8, bias=False, dtype=torch.bfloat16)
        self.head.weight = self.embedding.weight
        self.adapter = nn.Linear(4, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_tied_weights_in_bfloat16_go_once_and_stay_tied(kind: str, place: Path) -> None:
    torch.manual_seed(1)
    sent, filled = Small(), Small()
    choice = selected(sent)
    assert list(choice.tensors) == ["embedding.weight", "adapter.weight", "adapter.bias"]
    out, taking = WRITERS[kind](place, choice.plan), reader(kind, place)
    out.publish(0, choice.tensors.items())
    assert taking.take(selected(filled).tensors, -1) is not None
    assert filled.head.weight is filled.embedding.weight
    assert torch.equal(filled.head.weight, sent.head.weight)
    untied = Small()
    untied.head.weight = nn.Parameter(untied.head.weight.detach().clone())
    with pytest.raises(WeightsMismatch, match=r"head.weight .* is missing"):
        reader(kind, place).take(selected(untied).tensors, -1)
    taking.close()
    out.close()


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_is_trained_is_sent_and_only_to_the_same_base(kind: str, place: Path) -> None:
    torch.manual_seed(2)
    trained, same, other = Small(), Small(), Small()
    same.load_state_dict(trained.state_dict())
    for model in (trained, same, other):
        model.embedding.weight.requires_grad_(False)
    trained.adapter.weight.data.add_(1)
    choice = selected(trained)
    assert list(choice.tensors) == ["adapter.weight", "adapter.bias"]
    out = WRITERS[kind](place, choice.plan)
    assert out.publish(0, choice.tensors.items()).bytes == 4 * 10
    ours = selected(same)
    taking = reader(kind, place, ours.base)
    assert taking.take(ours.tensors, -1) is not None
    assert torch.equal(same.adapter.weight, trained.adapter.weight)
    theirs = selected(other)
    with pytest.raises(WeightsMismatch, match="they belong on the base"):
        reader(kind, place, theirs.base).take(theirs.tensors, -1)
    taking.close()
    out.close()


def test_what_current_says_must_be_what_the_buffer_holds(place: Path) -> None:
    out, taking = writer("shared-memory", place), reader("shared-memory", place)
    out.publish(0, uniform(0).items())
    said = json.loads((place / "current").read_text())
    (place / "current").write_text(json.dumps(said | {"version": 1}))
    with pytest.raises(WeightsDamaged, match="holds other weights than said"):
        taking.take(uniform(0), -1)
    (place / "buffer-0").unlink()
    with pytest.raises(WeightsDamaged, match="was removed"):
        taking.take(uniform(0), -1)
    (place / "current").write_text("{")
    with pytest.raises(WeightsDamaged, match="current is damaged"):
        taking.newest()
    taking.close()
    out.close()


@pytest.mark.parametrize(
    ("settings", "out", "into"),
    [
        (WeightSync(), SharedMemoryOut, SharedMemoryIn),
        (WeightSync(channel="folder"), FolderOut, FolderIn),
        (WeightSync(channel="broadcast", address="127.0.0.1:0"), BroadcastOut, None),
    ],
)
def test_the_settings_name_the_channel(
    settings: WeightSync,
    out: type,
    into: type | None,
    tmp_path: Path,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(places, "shared_memory_folder", lambda _user: place.parent)
    user = os.getuid()
    opened = open_out(settings, tmp_path, user, Plan.of(uniform(0)), generators=2)
    assert type(opened) is out
    if into is not None:
        taking = open_in(settings, tmp_path, user, base="", number=1)
        assert type(taking) is into
        opened.publish(0, uniform(0).items())
        assert taking.newest() == 0, "both ends are in the same place"
        taking.close()
    opened.close()


def test_buffers_and_waits_are_as_set() -> None:
    settings = WeightSync(
        channel="broadcast", address="127.0.0.1:0", buffer_mib=1, timeout_seconds=0.25
    )
    huge = Plan.of({"huge": torch.empty(1 << 28, device="meta")})
    opened = open_out(settings, Path("unused"), 0, huge, generators=1)
    assert isinstance(opened, BroadcastOut)
    assert opened.address.timeout_seconds == 0.25
    assert opened.buffer_bytes == 1 << 20
    opened.close()
    with pytest.raises(ValidationError, match="address"):
        WeightSync(address="no port")
    elsewhere = {"mode": "split", "remote_generators": 1}
    with pytest.raises(ValidationError, match=r"needs policy\.generators_address"):
        PolicySettings.model_validate(elsewhere)
    with pytest.raises(ValidationError, match=r"policy.weights.channel to folder or broadcast"):
        PolicySettings.model_validate(elsewhere | {"generators_address": "127.0.0.1:1"})
    with pytest.raises(ValidationError, match="needs a generator"):
        PolicySettings(mode="split", generators=0)


def test_places_that_cannot_be_used_are_one_line(place: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    inside = tmp_path / "file" / "place"
    with pytest.raises(WeightsError, match=r"can't hold weights .*channel=folder"):
        writer("shared-memory", inside)
    with pytest.raises(WeightsError, match=r"can't carry weights .*policy\.weights\.folder"):
        writer("folder", inside)
    out = writer("shared-memory", place)
    (place / "current").mkdir()
    with pytest.raises(WeightsError, match=r"current can't be written \(Is a directory\)"):
        out.publish(0, uniform(0).items())
    (place / "current").rmdir()
    out.close()


def test_weights_under_another_versions_name_are_refused(place: Path) -> None:
    out, taking = writer("folder", place), FolderIn(place)
    out.publish(3, uniform(3).items())
    (path,) = place.iterdir()
    path.rename(path.with_name(path.name.replace("0003-", "0004-")))
    with pytest.raises(WeightsDamaged, match="holds other weights than it says"):
        taking.take(uniform(-1), -1)


def test_a_file_that_ends_while_it_is_read_leaves_tensors_that_are_known_to_be_torn(
    place: Path,
) -> None:
    out, taking = writer("folder", place), FolderIn(place)
    out.publish(3, uniform(3).items())
    (path,) = place.iterdir()
    into = Interrupted(uniform(-1), lambda: os.truncate(path, 10_000))
    with pytest.raises(WeightsTorn, match="could not be read to its end"):
        taking.take(into, -1)
