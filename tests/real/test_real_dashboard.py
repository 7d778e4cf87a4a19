"""The dashboard of a real node in a real browser: headless Chromium, as a person would use it."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarmnode.api.secret import address_of, read_secret
from swarmnode.sim.real import RealNode
from tests.real.browser import Browser, browser, browser_there
from tests.real.real_support import Place, patience, place, until, wait_for_rounds
from tests.unit.cli_support import HOSTILE

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not browser_there(), reason="needs Debian's chromium and chromium-driver on the path"
    ),
]
MARKUP = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
SETTINGS = ("dashboard.enabled=true", "evaluation.every_rounds=4")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with place(tmp_path_factory.mktemp("dashboard"), *SETTINGS) as made:
        yield made


@pytest.fixture(scope="module")
def node(here: Place) -> RealNode:
    started = here.run("shown", "--solo")
    wait_for_rounds(started, 2)
    return started


@pytest.fixture
def seen() -> Iterator[Browser]:
    with browser() as window:
        yield window


def page_of(node: RealNode) -> str:
    """The whole address."""
    status = until(node.status, patience(20), "the status")
    assert status.dashboard
    return address_of(status.dashboard, read_secret(node.home.dashboard_secret))


def sentence(seen: Browser) -> str:
    return seen.text('[data-part="state"] h1')


def opened(seen: Browser, node: RealNode) -> None:
    """Show the page, and wait until it is live."""
    seen.open(page_of(node))
    seen.until(lambda: seen.text("#live") == "live", patience(30), "the page is live")


def test_it_loads_is_drawn_and_asks_for_nothing_elsewhere(seen: Browser, node: RealNode) -> None:
    seen.requests()
    opened(seen, node)
    assert "Training alone, round" in sentence(seen)
    until(lambda: seen.run("return !!document.querySelector('.uplot canvas')"), patience(20),
          "the curves are drawn")  # fmt: skip
    base = page_of(node)
    asked = [each for each in seen.requests() if not each.startswith(("data:", "chrome", "about:"))]
    assert base in asked
    assert [each for each in asked if not each.startswith(base)] == []
    assert seen.complaints() == []
    parts = json.loads(
        seen.run("return JSON.stringify([...document.querySelectorAll('section')].map(s => s.id))")
    )
    assert parts == ["rewards", "tasks", "last-round", "swarm", "answers", "guard-rails",
                     "resources", "log"]  # fmt: skip


def test_it_follows_the_node_without_being_loaded_again(seen: Browser, node: RealNode) -> None:
    opened(seen, node)
    seen.run("window.sameness = 1")
    first = sentence(seen)
    seen.until(lambda: sentence(seen) != first, patience(30), "the next round is shown")
    before = len(seen.text('[data-part="answers"]'))
    assert before > 100
    assert seen.run("return window.sameness") == 1
    assert seen.complaints() == []


def test_it_survives_a_restart_of_the_node_with_all_that_was_drawn(
    seen: Browser, here: Place
) -> None:
    node = here.run("restarted", "--solo", "--set", "dashboard.port=0")
    wait_for_rounds(node, 6)
    port = page_of(node).split(":")[2].split("/")[0]
    node.process.send_signal(signal.SIGTERM)
    node.process.wait(patience(60))
    again = here.run("restarted", "--solo", "--set", f"dashboard.port={port}")
    wait_for_rounds(again, 2)
    opened(seen, again)
    seen.run("window.sameness = 1")
    ended = again.reports()[-1].round
    again.process.send_signal(signal.SIGTERM)
    seen.until(lambda: "does not answer" in seen.text("#live"), patience(60), "the node is missed")
    again.process.wait(patience(60))
    third = here.run("restarted", "--solo", "--set", f"dashboard.port={port}")
    wait_for_rounds(third, 2)
    seen.until(lambda: seen.text("#live") == "live", patience(60), "the page is live again")
    assert seen.run("return window.sameness") == 1
    drawn = seen.run(
        "return fetch('events').then(async (answer) => {"
        "  const reader = answer.body.getReader(); let text = '';"
        "  while (!text.includes('event: part')) {"
        "    text += new TextDecoder().decode((await reader.read()).value);"
        "  }"
        "  reader.cancel(); return text;"
        "})"
    )
    rounds = json.loads(drawn.split("event: history\ndata: ")[1].split("\n")[0])["round"]
    assert rounds[0] == 0
    assert rounds[-1] > ended
    assert rounds == sorted(set(rounds))


def test_hostile_text_is_shown_as_text(seen: Browser, node: RealNode) -> None:
    entry = {"time": "2026-01-01T00:00:00Z", "level": "error", "process": "daemon",
             "event": f"{MARKUP}{HOSTILE}"}  # fmt: skip
    (node.home.log / "hostile.jsonl").write_text(json.dumps(entry) + "\n", encoding="utf-8")
    opened(seen, node)
    seen.until(lambda: MARKUP in seen.text("ol.log"), patience(20), "the entry is shown")
    log = seen.text("ol.log")
    assert "\\u202e" in log
    assert "\u202e" not in log
    assert "\x1b" not in log
    assert seen.run("return document.title").startswith("Training")
    assert seen.run("return document.querySelectorAll('main script, main img').length") == 0
    # The page's policy forbids what its script does not do.
    refused = seen.run(
        "try { document.body.innerHTML = '<b>x</b>'; return 'parsed' } catch (e) { return e.name }"
    )
    assert refused == "TypeError"


def test_every_part_can_be_reached_by_keyboard_and_the_focus_stays(
    seen: Browser, node: RealNode
) -> None:
    opened(seen, node)
    order = []
    for _ in range(9):
        seen.press("\ue004")
        order.append(seen.run("return document.activeElement.textContent"))
    assert order == ["To the state", "Rewards", "Tasks", "The last round", "Peers", "Answers",
                     "Guard-rails", "Resources", "Log"]  # fmt: skip
    seen.press("\ue004")
    focused = "return document.activeElement.getAttribute('aria-label')"
    named = seen.run(focused)
    assert named
    first = sentence(seen)
    seen.until(lambda: sentence(seen) != first, patience(30), "the next round is shown")
    assert seen.run(focused) == named
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert seen.run(outline) != "none"


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone_in_light_and_dark(seen: Browser, node: RealNode, dark: bool) -> None:
    seen.window(360, 740, dark=dark, mobile=True)
    opened(seen, node)
    time.sleep(1.0)
    wide, sight = seen.run("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide <= sight == 360
    ground, ink = seen.run(
        "const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]"
    )
    assert contrast(ground, ink) > 7.0
    assert (luminance(ground) < 0.1) is dark
    muted = seen.run("return getComputedStyle(document.querySelector('.note')).color")
    assert contrast(ground, muted) > 4.5


def test_without_script_the_page_shows_the_present_state(seen: Browser, node: RealNode) -> None:
    seen.command("Emulation.setScriptExecutionDisabled", value=True)
    seen.open(page_of(node))
    found = seen.command("DOM.getDocument", depth=1)["root"]["nodeId"]
    chosen = seen.command("DOM.querySelector", nodeId=found, selector="h1")["nodeId"]
    assert "Training alone" in seen.command("DOM.getOuterHTML", nodeId=chosen)["outerHTML"]
    drawn = seen.command("DOM.querySelector", nodeId=found, selector="svg.curves")["nodeId"]
    assert drawn
    assert seen.picture(whole=True)[:4] == b"\x89PNG"


def test_another_page_can_neither_read_nor_frame_it(seen: Browser, node: RealNode) -> None:
    seen.open("data:text/html,<title>evil</title>")
    read = seen.run(
        "return fetch(arguments[0]).then(a => a.text(), () => 'refused')", page_of(node)
    )
    assert read == "refused"


def luminance(colour: str) -> float:
    """Relative luminance of `rgb(…)` (WCAG 2.2)."""
    values = [float(each) / 255 for each in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]
    return sum(w * v for w, v in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    """WCAG 2.2's ratio, 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_address_is_said_at_the_start_and_a_taken_port_is_one_line(
    here: Place, node: RealNode
) -> None:
    second = here.run("second", "--solo", "--set", f"dashboard.port={page_port(node)}")
    wait_for_rounds(second, 1)
    output = (second.home.path / "output").read_text(encoding="utf-8")
    assert page_of(second) in output
    told = [line for line in output.splitlines() if "dashboard.port is taken" in line]
    assert len(told) == 1
    quiet = here.run("quiet", "--solo", "--no-dashboard")
    wait_for_rounds(quiet, 1)
    status = quiet.status()
    assert status
    assert status.dashboard == ""
    assert not Path(quiet.home.dashboard_secret).exists()


def page_port(node: RealNode) -> int:
    return int(page_of(node).split(":")[2].split("/")[0])
