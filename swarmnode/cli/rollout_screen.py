"""Kept rollouts as lines for a terminal. Every text goes through `plain`: some are a stranger's."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from time import localtime, strftime
from typing import TYPE_CHECKING, Any

from swarmnode.observe.words import counted, plain, plain_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from swarmnode.store.records import StoredRollout

_MOMENT = "%m-%d %H:%M:%S"
_NAME_CHARACTERS = 8
"""The end of a peer id, which tells peers apart: all ids begin alike."""
_LEAST_QUESTION = 20
_PIPED_COLUMNS = 200
_HEADINGS = ("id", "time", "from", "task", "right", "trained", "question")


def list_lines(found: Sequence[StoredRollout]) -> Iterator[str]:
    """A line for each, under headings; as wide as the terminal."""
    rows = [_HEADINGS[:-1], *map(_cells, found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPED_COLUMNS
    left = max(_LEAST_QUESTION, columns - sum(widths) - 2 * len(widths))
    questions = [_HEADINGS[-1], *(_one_line(each.rollout.content["question"]) for each in found)]
    for row, question in zip(rows, questions, strict=True):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield "  ".join((*cells, _cut(question, left))).rstrip()


def _cells(stored: StoredRollout) -> tuple[str, ...]:
    from swarmnode.keys import peer_id_of

    rollout = stored.rollout
    return (
        str(stored.number),
        strftime(_MOMENT, localtime(rollout.at)),
        "own" if rollout.own else f"…{peer_id_of(rollout.publisher)[-_NAME_CHARACTERS:]}",
        plain(f"{rollout.task}:{rollout.level}"),
        f"{rollout.successes}/{rollout.completions}",
        "-" if stored.trained_in is None else f"round {stored.trained_in}",
    )


def _one_line(text: str) -> str:
    """The last line that says something: what is asked mostly stands at the end."""
    lines = [line for line in text.splitlines() if line.strip()]
    return plain(lines[-1].strip()) if lines else ""


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def whole_lines(values: Mapping[str, Any]) -> Iterator[str]:
    """One rollout in full, out of `values_of`."""
    for name, value in _facts(values):
        yield f"{name:<10}  {plain(value)}"
    yield from _block("question", values["question"])
    whose = "" if values["own"] else " (the peer's word; scored with our own)"
    yield from _block(f"answer{whose}", values["answer"])
    for number, each in enumerate(values["completions"], 1):
        yield from _block(f"completion {number}: {_judged(each)}", each["text"])


def _facts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    own, policy = values["own"], values["policy"]
    yield "rollout", str(values["id"])
    yield "from", f"{'this node' if own else 'peer'} {values['peer_id']}"
    served = f", served by {values['served_by']}" if values["served_by"] else ""
    yield (
        "scored",
        strftime("%Y-%m-%d %H:%M:%S", localtime(values["time"]))
        + f", in round {values['round']}{served}",
    )
    yield "task", f"{values['task']}:{values['level']}, question {values['index']}"
    yield "policy", f"{policy['name']}, version {policy['version']}"
    right = sum(each["success"] for each in values["completions"])
    yield "right", f"{right} of {counted(len(values['completions']), 'completion')}"
    yield "training", _training(values)
    yield "signature", _signature(values)


def _training(values: Mapping[str, Any]) -> str:
    if values["correction"] is None:
        return "not chosen for a step"
    why = f" ({values['why']})" if values["why"] else ""
    if values["trained_in"] is None:
        return f"left out of the step that it was chosen for{why}"
    return f"trained on in round {values['trained_in']}, correction {values['correction']}{why}"


def _signature(values: Mapping[str, Any]) -> str:
    signature = values["signature"]
    if signature is None:
        return (
            "none is kept: it was not published, or its bundle has made room for others"
            if values["own"]
            else "none is kept"
        )
    if not signature["verified"]:
        return f"NOT VERIFIED: {signature['problem']}"
    made = strftime("%Y-%m-%d %H:%M:%S", localtime(signature["created"]))
    sent = signature["sent_completions"]
    more = f"; {sent} completions were sent" if sent != len(values["completions"]) else ""
    return (
        f"verified: Ed25519, bundle {signature['bundle_id'][:16]}…, number "
        f"{signature['sequence']}, made {made}, swarm {signature['swarm_id'][:16]}…{more}"
    )


def _judged(each: Mapping[str, Any]) -> str:
    words = [
        "right" if each["success"] else "wrong",
        f"score {each['score']:.2f}",
        counted(each["tokens"], "token"),
    ]
    if each["finish_reason"] == "length":
        words.append("cut off")
    if each["advantage"] is not None:
        words.append(f"advantage {each['advantage']:+.3f}")
    if each["excluded"]:
        words.append("kept out of training by a guard-rail")
    return ", ".join(words)


def _block(heading: str, text: str) -> Iterator[str]:
    yield ""
    yield heading
    yield textwrap.indent("\n".join(plain_lines(text)), "  ", lambda _line: True)
