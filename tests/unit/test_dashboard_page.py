"""The dashboard's pure middle: from a moment of the node to the trees and the HTML of its page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from swarmnode.api.documents import PeerStatus
from swarmnode.api.live import columns
from swarmnode.api.page import PARTS, PICTURE, made, page_of
from swarmnode.api.parts_learning import picture
from swarmnode.api.tree import Element, Tree, element, html
from swarmnode.config.guard_rails import GuardRails
from swarmnode.observe.facts import Facts, HealthWarning, Severity
from swarmnode.observe.health import warnings
from swarmnode.observe.history import History
from swarmnode.observe.machine import ProcessStatus
from swarmnode.observe.network_status import NetworkStatus
from swarmnode.observe.shown_groups import shown_groups
from tests.unit.cli_support import DOCUMENT
from tests.unit.dashboard_support import (
    KEY,
    MARKUP,
    PEER,
    evil_moment,
    history,
    learned,
    moment,
    report,
    without,
)

STATIC = files("swarmnode.api") / "static"
SCRIPT = (STATIC / "dashboard.js").read_text(encoding="utf-8")


def texts(tree: Tree | None) -> str:
    """All that a tree says."""
    if tree is None or isinstance(tree, str):
        return tree or ""
    return " ".join(texts(child) for child in tree.children)


def nodes(tree: Tree | None) -> Iterator[Element]:
    if isinstance(tree, Element):
        yield tree
        for child in tree.children:
            yield from nodes(child)


class Seen(HTMLParser):
    """What a browser would make of the page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.words += data


def test_every_text_of_a_stranger_is_shown_as_text() -> None:
    page = page_of(evil_moment())
    seen = Seen(page)
    assert [attributes["src"] for tag, attributes in seen.tags if tag == "script"] == [
        "uplot.js",
        "dashboard.js",
    ]
    assert not [tag for tag, _ in seen.tags if tag in ("img", "iframe", "object", "form", "style")]
    assert not [name for _, each in seen.tags for name in each if name.startswith("on")]
    assert not [each for _, each in seen.tags if "style" in each]
    assert seen.words.count(MARKUP) > 20
    assert all(each.isprintable() or each == "\n" for each in page)
    assert "\\u202e" in seen.words


def test_the_script_is_sent_the_same_texts_made_safe() -> None:
    sent = json.dumps(made(evil_moment()), ensure_ascii=False)
    assert sent.isprintable()
    assert MARKUP in sent


def test_the_script_knows_every_element_and_attribute_that_it_is_sent() -> None:
    def known(name: str) -> set[str]:
        found = re.search(rf"const {name} = new Set\(\[(.*?)\]\)", SCRIPT, re.DOTALL)
        assert found
        return set(re.findall(r'"([^"]+)"', found[1]))

    # The one that doesn't run, and so lets through whatever is in it, is put beside the rest.
    drawn = known("DRAWN")
    groups, trained = learned()
    every = [evil_moment(), moment(), moment(groups=shown_groups(1, groups, trained))]
    sent = [each for one in every for tree in made(one).values() for each in nodes(tree)]
    assert {each.name for each in sent} <= known("NAMES") | drawn
    assert {name for each in sent for name in each.attributes} <= known("ATTRIBUTES")
    assert not {"script", "iframe", "style", "a", "img", "link"} & (known("NAMES") | drawn)
    assert not [each for each in known("ATTRIBUTES") if each.startswith(("on", "href", "src"))]


def test_the_script_never_parses_html() -> None:
    ours = re.sub(r"/\*.*?\*/", "", SCRIPT, flags=re.DOTALL)
    vendored = (STATIC / "uplot.js").read_text(encoding="utf-8")
    for text in (ours, vendored):
        for sink in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                     "DOMParser", "Function("):  # fmt: skip
            assert sink not in text
    assert "http" not in re.sub(r'const SVG = "[^"]*"', "", ours)


def test_the_vendored_script_comes_with_its_licence() -> None:
    assert "1.6.32" in (STATIC / "uplot.js").read_text(encoding="utf-8")[:100]
    assert "The MIT License" in (STATIC / "uplot.LICENSE").read_text(encoding="utf-8")


def test_the_page_asks_for_nothing_elsewhere_and_has_each_id_once() -> None:
    seen = Seen(page_of(moment()))
    addresses = [each[name] for _, each in seen.tags for name in ("href", "src") if name in each]
    assert addresses
    assert all(re.fullmatch(r"#[\w-]+|[\w.]+", each) for each in addresses)
    ids = [each["id"] for _, each in seen.tags if "id" in each]
    assert len(ids) == len(set(ids))
    targets = [each[1:] for each in addresses if each.startswith("#")]
    assert set(targets) <= set(ids)
    labels = [each["aria-labelledby"] for _, each in seen.tags if "aria-labelledby" in each]
    assert set(labels) <= set(ids)
    held = [each["data-part"] for _, each in seen.tags if "data-part" in each]
    assert sorted(held) == sorted((set(PARTS) | {PICTURE}) - {"split"})


@pytest.mark.parametrize(
    ("fields", "sentence", "tone"),
    [
        ({"phase": "starting"}, "Starting.", "begin"),
        ({"warnings": ()}, "Training in a swarm of 7, round 41.", "fine"),
        (
            {"network": NetworkStatus(state="starting", state_seconds=3.0), "warnings": ()},
            "Training alone, round 41: the network is starting (3 s).",
            "fine",
        ),
        (
            {"network": NetworkStatus(state="off"), "warnings": ()},
            "Training alone, round 41: no swarm is wanted (--solo).",
            "fine",
        ),
        (
            {"warnings": tuple(warnings(Facts(training_failures=3, training_error="no memory")))},
            "Not training, round 41: The last 3 training steps failed: no memory.",
            "bad",
        ),
        ({"phase": "stopping"}, "Stopping, round 41: finishing, and writing a checkpoint.", "end"),
    ],
)
def test_the_state_is_one_sentence_and_a_word_not_a_colour_alone(
    fields: dict[str, object], sentence: str, tone: str
) -> None:
    tree = made(moment(without(DOCUMENT, **fields)))["state"]
    assert tree
    heads = [each for each in nodes(tree) if each.name == "h1"]
    assert sentence in texts(heads[0])
    (marked,) = [each for each in nodes(tree) if "tone" in each.attributes.get("class", "")]
    assert tone in marked.attributes["class"]
    assert len(texts(marked)) > 5


def test_a_warning_comes_with_what_to_do() -> None:
    warned = HealthWarning("disk-full", Severity.ERROR, "Disk full", "1 MiB free.", "Free space.")
    words = texts(made(moment(without(DOCUMENT, warnings=(warned,))))["warnings"])
    assert "error: Disk full." in words
    assert "1 MiB free." in words
    assert "Free space." in words


def test_the_three_rewards_are_shown_with_their_spread() -> None:
    parts = made(moment())
    words = texts(parts["rewards"])
    for told in ("Held out", "0.375", "Local", "Training set", "0.750"):
        assert told in words
    assert re.search(r"0\.\d\d to 0\.\d\d", words)
    lines = [
        each.attributes["class"] for each in nodes(picture(moment())) if each.name == "polyline"
    ]
    assert lines == ["line held_out", "line local", "line training_set"]
    bands = [each for each in nodes(picture(moment())) if each.name == "polygon"]
    assert len(bands) == 3


def test_tasks_show_what_they_give_and_a_learning_scheduler_how_often_they_are_asked() -> None:
    tree = made(moment())["tasks"]
    words = texts(tree)
    for told in ("gcd", "0.50", "60%", "Asked over time"):
        assert told in words
    assert len([each for each in nodes(tree) if each.name == "polyline"]) == 4
    unweighted = History()
    for number in range(3):
        unweighted.add(report(number, metrics={}), 1.0)
    assert "Asked" not in texts(made(moment(history=unweighted))["tasks"])


def test_the_last_round_says_whose_groups_and_what_became_of_them() -> None:
    words = texts(made(moment())["last-round"])
    for told in ("4 own groups and 2 of 2 peers (wanted 4 + 4)", "this node", PEER[-8:],
                 "uncorrected (own samples)", "successes alone (another tokenizer)"):  # fmt: skip
        assert told in words
    dead = report(1, trained=[["own", "gcd", "out", "all rewards equal"]])
    rounds = History()
    rounds.add(dead, 1.0)
    assert "not trained on (all rewards equal)" in texts(made(moment(history=rounds))["last-round"])


def test_peers_are_drawn_and_listed_with_what_they_gave_and_what_was_dropped_and_why() -> None:
    muted = PeerStatus(peer="12D3KooWMuted", muted_seconds=3600.0, dropped={"hash": 3})
    near = PeerStatus(
        peer=PEER, connected=True, admitted=3, dropped={"expired": 2}, fetched_bytes=2048
    )
    tree = made(moment(peers=(muted, near)))["swarm"]
    words = texts(tree)
    for told in ("● connected", "✕ muted for 60 min", "hash 3", "expired 2", "2.0 KiB from it",
                 "The announcement had expired when it was seen."):  # fmt: skip
        assert told in words
    rows = [texts(each) for each in nodes(tree) if each.name == "tr"]
    assert PEER[-8:] in rows[1]
    assert " 24 " in rows[1]  # groups of it in twelve rounds
    drawn = [each.attributes["class"] for each in nodes(tree) if each.name == "circle"]
    assert drawn == ["peer near", "peer muted", "self"]


def test_a_crowd_of_peers_is_cut_and_counted() -> None:
    crowd = tuple(PeerStatus(peer=f"peer-{n:04}", connected=True) for n in range(1000))
    tree = made(moment(peers=crowd))["swarm"]
    assert "And 960 more" in texts(tree)
    assert len(html(tree or "")) < 60_000


def test_answers_show_question_answers_scores_advantages_and_whose_they_are() -> None:
    groups, trained = learned()
    parts = made(moment(groups=shown_groups(7, groups, trained)))
    words = texts(parts["answers"])
    for told in ("2 + 2 =", "round 7", "✓ right", "✗ wrong", "advantage +0.70", "advantage −0.70",
                 "this node", PEER[-8:], "1 of 2 right"):  # fmt: skip
        assert told in words
    assert words.index("2 + 2 =") < words.index("2 + 3 =") < words.index("2 + 1 =")


def test_guard_rails_say_what_they_mean_and_how_they_stand() -> None:
    metrics = {
        "guard/value/length": 9.0, "guard/recent/length": 9.0, "guard/start/length": 3.0,
        "guard/alarm/length": 2.0, "guard/value/whitespace/latin": 0.2,
    }  # fmt: skip
    told = History()
    told.add(report(1, metrics=metrics), 1.0)
    rails = GuardRails(off=("entropy",), action="skip")
    words = texts(made(moment(history=told, guard_rails=rails))["guard-rails"])
    for each in ("✕ critical", "9.000", "factor 2, 4", "whitespace (latin)", "… not judged yet",
                 "– off", "0.7, 0.4 of the start", "Mean length of an answer in tokens",
                 "takes no step"):  # fmt: skip
        assert each in words


def test_processor_time_is_counted_between_two_looks() -> None:
    def at(now: float, seconds: float) -> object:
        policy = ProcessStatus(name="policy", process_id=7, processor_seconds=seconds)
        return without(DOCUMENT, now=now, processes=(policy,))

    shown = moment(at(4004.0, 12.0), earlier=at(4000.0, 10.0))  # type: ignore[arg-type]
    assert "50%" in texts(made(shown)["resources"])


def test_both_sides_of_a_split_are_shown_and_of_no_other_node() -> None:
    words = texts(made(evil_moment())["split"])
    assert "0 of 4 groups" in words
    assert made(moment())["split"] is None
    assert "Generation and training" not in page_of(moment())
    assert "Generation and training" in page_of(evil_moment())


def test_a_page_of_a_node_that_has_done_nothing_yet_is_whole() -> None:
    empty = moment(
        without(DOCUMENT, phase="starting", round=None, policy_version=None, mix=None, pool=None,
                checkpoint=None, processes=()),
        peers=(), history=History(),
    )  # fmt: skip
    words = Seen(page_of(empty)).words
    for told in (
        "Starting.",
        "No round has ended yet.",
        "No peer is known yet.",
        "The log is empty.",
    ):
        assert told in words


def test_line_breaks_of_an_answer_are_kept_and_a_text_is_cut() -> None:
    assert html(element("pre", "\na\nb\x1b")) == "<pre>\n\na\nb\\x1b</pre>"
    long = html(element("p", "x" * 10_000))
    assert len(long) < 5000
    assert element("p", None, "a", title=None, hidden=False, defer=True).attributes == {"defer": ""}


def test_names_in_backticks_are_shown_as_code() -> None:
    warned = HealthWarning("x", Severity.INFO, "t", "see", "Use `--level easy`, or nothing")
    tree = made(moment(without(DOCUMENT, warnings=(warned,))))["warnings"]
    assert [texts(each) for each in nodes(tree) if each.name == "code"] == ["--level easy"]


def test_points_are_columns_of_equal_length_with_gaps_between_evaluations() -> None:
    told = columns(history(6).points)
    assert {len(column) for column in told.values()} == {6}
    assert told["round"] == [0, 1, 2, 3, 4, 5]
    assert [value is None for value in told["held_out/mean"]] == [
        False,
        True,
        True,
        True,
        False,
        True,
    ]
    assert json.loads(json.dumps(told)) == told


def test_a_known_peer_is_called_by_its_id() -> None:
    assert KEY[:8].hex() not in texts(made(moment())["last-round"])
