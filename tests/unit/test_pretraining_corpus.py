"""Texts become a corpus: split, rid of repetitions, cut, sharded."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from swarmnode.pretraining import prepare
from swarmnode.pretraining.corpus import MANIFEST, open_corpus, text_of
from swarmnode.pretraining.order import counts, drawn_by, place
from swarmnode.pretraining.overlap import WINDOW, copied, sorted_set, windows
from swarmnode.pretraining.prepare import Cut, prepared, set_apart
from swarmnode.pretraining.sources import PIECE, CorpusError, Source, pieces, texts_of
from swarmnode.progress import Step, listening
from swarmnode.scheduling.mtld import mtld, words_of

CUT = Cut(context=31, validation_rows=8, most_bytes=0)


def domain_of(folder: Path, name: str, texts: list[str]) -> Source:
    path = folder / name
    path.mkdir(parents=True)
    for number, text in enumerate(texts):
        (path / f"{number:04}.txt").write_text(text, encoding="utf-8")
    return Source(name, path, "text")


def random_texts(seed: int, count: int = 200, length: int = 200) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choices("abcdefghij ", k=length)) for _ in range(count)]


def test_window_hashes_are_those_of_a_plain_loop() -> None:
    rng = random.Random(1)
    data = rng.randbytes(300)
    found = windows(data + data)
    assert len(found) == 600 - WINDOW + 1
    assert list(found[:237]) == list(found[300 : 300 + 237])
    assert len(set(found.tolist())) == 300
    assert len(windows(data[: WINDOW - 1])) == 0
    assert windows(data[:WINDOW])[0] == found[0]
    assert windows(data[5 : 5 + WINDOW])[0] == found[5]


def test_what_was_copied_is_marked_to_the_byte() -> None:
    rng = random.Random(2)
    held, others = rng.randbytes(200), rng.randbytes(500)
    known = sorted_set([windows(held)])
    text = others[:100] + held[50:150] + others[100:]
    marks = copied(text, known)
    assert list(np.flatnonzero(marks)) == list(range(100, 200))
    short = others[:100] + held[50 : 50 + WINDOW - 1] + others[100:]
    assert not copied(short, known).any()
    assert not copied(text, sorted_set([])).any()


def test_no_text_that_is_set_apart_is_trained_on(tmp_path: Path) -> None:
    texts = random_texts(3)
    source = domain_of(tmp_path, "one", texts)
    folder = prepared([source], CUT, tmp_path / "cache")
    (domain,) = open_corpus(folder, CUT.context)
    apart = [text for text in texts if set_apart(text.encode())]
    assert 4 <= len(apart) <= 20
    assert len(domain.validation) == min(8, len(apart))
    assert all(any(text_of(row) in text for text in apart) for row in domain.validation)
    trained = text_of(domain.take(range(domain.facts.rows))[0])
    assert not any(text[:60] in trained for text in apart)
    assert sum(text[:60] in trained for text in texts) == len(texts) - len(apart)


@pytest.mark.parametrize("most_bytes", [0, 3000])
def test_whoever_listens_hears_how_far_the_two_passes_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_bytes: int
) -> None:
    monkeypatch.setattr("swarmnode.progress.LEAST_SECONDS", 0.0)
    sources = [domain_of(tmp_path, name, random_texts(number)) for number, name in enumerate("ab")]
    steps: list[Step] = []
    with listening(steps.append):
        folder = prepared(sources, Cut(31, 8, most_bytes), tmp_path / "cache")
    passes = {each.what: [step for step in steps if step.what == each.what] for each in steps}
    assert list(passes) == ["setting texts apart for validation", "preparing texts"]
    for told in passes.values():
        done = [step.done for step in told]
        assert done == sorted(done)
        assert 0 < done[0] < done[-1] == told[-1].total
    assert passes["preparing texts"][-1].total == 2 * (most_bytes or 200 * 200)
    steps.clear()
    with listening(steps.append):
        assert prepared(sources, Cut(31, 8, most_bytes), tmp_path / "cache") == folder
    assert not steps, "it is there"


def test_rows_that_copy_what_is_validated_on_are_left_out(tmp_path: Path) -> None:
    texts = random_texts(5, count=400, length=64)
    folder = prepared([domain_of(tmp_path, "one", texts)], Cut(79, 4, 0), tmp_path / "a")
    (before,) = open_corpus(folder, 79)
    assert before.facts.copied == 0
    held = text_of(before.validation)
    plagiarised = [*texts, *(f"{number} {held} {number}" for number in range(7, 27))]
    folder = prepared([domain_of(tmp_path, "two", plagiarised)], Cut(79, 4, 0), tmp_path / "b")
    (after,) = open_corpus(folder, 79)
    assert after.facts.copied > 20
    rows, _ = after.take(range(after.facts.rows))
    known = sorted_set([windows(text.encode()) for text in [text_of(after.validation)]])
    assert not any(copied(text_of(row).encode(), known).any() for row in rows)


def test_a_text_that_comes_twice_is_trained_on_once_whatever_domain_it_is_in(
    tmp_path: Path,
) -> None:
    one, two = random_texts(6), random_texts(7)
    sources = [
        domain_of(tmp_path, "one", [*one, *one[:20]]),
        domain_of(tmp_path, "two", [*two, *one[:50]]),
    ]
    folder = prepared(sources, CUT, tmp_path / "cache")
    first, second = open_corpus(folder, CUT.context)
    repeated = [sum(not set_apart(text.encode()) for text in one[:end]) for end in (20, 50)]
    assert [first.facts.repeated, second.facts.repeated] == repeated
    assert first.facts.texts == 220


def test_validation_is_from_all_over_the_domain_and_does_not_depend_on_order(
    tmp_path: Path,
) -> None:
    texts = random_texts(8, count=2000)
    forward = domain_of(tmp_path, "a", texts)
    backward = domain_of(tmp_path, "b", texts[::-1])
    (one,) = open_corpus(prepared([forward], CUT, tmp_path / "cache"), CUT.context)
    (two,) = open_corpus(prepared([backward], CUT, tmp_path / "cache"), CUT.context)
    assert np.array_equal(one.validation, two.validation)
    whole = "\n".join(texts)
    places = [whole.index(text_of(row)) / len(whole) for row in one.validation]
    assert max(places) - min(places) > 0.5


def test_a_corpus_is_made_once_and_anew_when_its_files_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = domain_of(tmp_path, "one", random_texts(9))
    folder = prepared([source], CUT, tmp_path / "cache")
    monkeypatch.setattr(prepare, "_make", lambda *_: pytest.fail("made again"))
    assert prepared([source], CUT, tmp_path / "cache") == folder
    monkeypatch.undo()
    (source.path / "0003.txt").write_text("something else", encoding="utf-8")
    assert prepared([source], CUT, tmp_path / "cache") != folder
    assert sorted(path.name for path in (tmp_path / "cache").iterdir() if path.name[0] == ".") == []


def test_shards_are_read_as_one_and_say_the_mtld_of_their_surroundings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = domain_of(tmp_path, "one", random_texts(10))
    (whole,) = open_corpus(prepared([source], CUT, tmp_path / "a"), CUT.context)
    monkeypatch.setattr(prepare, "_SHARD_ROWS", 100)
    (sharded,) = open_corpus(prepared([source], CUT, tmp_path / "b"), CUT.context)
    assert len(whole.facts.shards) == 1
    assert len(sharded.facts.shards) > 5
    places = [0, 1, 127, 128, 500, sharded.facts.rows - 1]
    assert np.array_equal(whole.take(places)[0], sharded.take(places)[0])
    rows, diversity = whole.take(range(32))
    assert diversity == pytest.approx(mtld(words_of(text_of(rows))), rel=1e-6)


def test_texts_are_pieces_of_files_and_of_json_lines(tmp_path: Path) -> None:
    lines = tmp_path / "some.jsonl"
    lines.write_text('{"body": "one"}\n\n{"body": "zwei ü"}\n', encoding="utf-8")
    assert list(texts_of(Source("lines", lines, "body"))) == ["one", "zwei ü"]
    (tmp_path / "folder" / ".hidden").mkdir(parents=True)
    (tmp_path / "folder" / "b.txt").write_text("b", encoding="utf-8")
    (tmp_path / "folder" / "a").write_text("a", encoding="utf-8")
    (tmp_path / "folder" / "latin").write_bytes(b"\xff\xfe")
    (tmp_path / "folder" / ".hidden" / "c").write_text("c", encoding="utf-8")
    assert list(texts_of(Source("files", tmp_path / "folder", "text"))) == ["a", "b"]
    long = "".join(f"line {number}\n" for number in range(5000))
    cut = list(pieces(long))
    assert "".join(cut) == long
    assert all(len(piece) <= PIECE and piece.endswith("\n") for piece in cut)
    assert list(pieces(" \n\n")) == []


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('{"text": "one"}\n{"text": 2}\n', "line 2 of .* no JSON object .* 'text'"),
        ("no json\n", "line 1 of .* no JSON object"),
        ('{"text": "only a few words"}\n', "too little text"),
    ],
)
def test_unusable_texts_are_one_line(tmp_path: Path, content: str, line: str) -> None:
    file = tmp_path / "texts.jsonl"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(CorpusError, match=line):
        prepared([Source("one", file, "text")], CUT, tmp_path / "cache")


def test_a_path_that_is_not_there_and_a_damaged_corpus_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="is not there"):
        prepared([Source("one", tmp_path / "nowhere", "text")], CUT, tmp_path / "cache")
    folder = prepared([domain_of(tmp_path, "one", random_texts(11))], CUT, tmp_path / "cache")
    (folder / MANIFEST).write_text("{}", encoding="utf-8")
    with pytest.raises(CorpusError, match="is damaged; delete that folder"):
        open_corpus(folder, CUT.context)


@pytest.mark.parametrize("count", [1, 2, 7, 64, 1000])
def test_every_sequence_comes_once_in_an_epoch_and_epochs_differ(count: int) -> None:
    epochs = [[place(epoch * count + i, count, 5, 1) for i in range(count)] for epoch in (0, 1)]
    assert all(sorted(epoch) == list(range(count)) for epoch in epochs)
    if count >= 64:
        assert epochs[0] != epochs[1]
        moved = [abs(after - before) for before, after in enumerate(epochs[0])]
        assert np.mean(moved) > count / 5


def test_draws_follow_the_shares_above_the_floor_and_are_paired() -> None:
    shares = (0.7, 0.2, 0.1)
    found = np.sum([counts(shares, 32, 2, 0, 2, step) for step in range(400)], axis=0) / 400
    assert np.allclose(found, [2 + 26 * share for share in shares], atol=0.6)
    assert np.allclose(found / 32, drawn_by(shares, 32, 2), atol=0.02)
    other = (0.69, 0.2, 0.11)
    moved = [
        sum(
            (
                Counter(dict(enumerate(counts(shares, 32, 2, 0, 2, step))))
                - Counter(dict(enumerate(counts(other, 32, 2, 0, 2, step))))
            ).values()
        )
        for step in range(100)
    ]
    assert np.mean(moved) < 0.6
    assert counts((0.0, 1.0), 8, 4, 0) == [4, 4]
    assert counts((0.0, 1.0), 8, 0, 0) == [0, 8]


def test_files_that_hold_nothing_to_train_on_are_one_line(tmp_path: Path) -> None:
    empty, cache = tmp_path / "empty", tmp_path / "cache"
    empty.mkdir()
    with pytest.raises(CorpusError, match="holds no files; put texts there"):
        prepared([Source("one", empty, "text")], CUT, cache)
    (empty / "a.txt").symlink_to("nowhere")
    with pytest.raises(CorpusError, match=r"a\.txt cannot be read: No such file"):
        prepared([Source("one", empty, "text")], CUT, cache)
    validated = [text for text in random_texts(3) if set_apart(text.encode())]
    source = domain_of(tmp_path, "same", [*validated, *validated])
    with pytest.raises(CorpusError, match="nothing is left to train on"):
        prepared([source], CUT, cache)
