"""Small corpora and runs for the tests of pre-training."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

from swarmnode.config.settings import Settings, load_settings
from swarmnode.pretraining.corpus import Domain
from swarmnode.pretraining.folder import Row
from swarmnode.pretraining.run import Finished, pretrain, sources_of

SMALL = (
    "pretraining.context=16",
    "pretraining.sequences_per_step=8",
    "pretraining.model.width=16",
    "pretraining.model.layers=2",
    "pretraining.model.heads=2",
    "pretraining.model.feed_forward_width=32",
    "pretraining.validation_sequences=4",
    "pretraining.validate_every=5",
    "pretraining.checkpoint_every=4",
    "pretraining.steps=20",
    "scheduling.hds.batch=4",
    "scheduling.ac_odm.batch=4",
    "scheduling.ac_odm.width=8",
)
"""Settings of a run of seconds, in which every agent learns."""

WORDS = {
    "animals": "ant bee cat dog eel fox gnu hen owl pig",
    "numbers": "one two three four five six seven eight nine ten",
    "colours": "red blue green black white brown grey pink gold teal",
}


def write_corpus(folder: Path) -> Path:
    """Three domains, of which one is JSON lines; returns the file of settings."""
    rng = random.Random(0)
    tables = []
    for name, words in WORDS.items():
        texts = [
            f"{number}: {' '.join(rng.choice(words.split()) for _ in range(60))}.\n"
            for number in range(120)
        ]
        if name == "colours":
            path = folder / f"{name}.jsonl"
            lines = [json.dumps({"body": text}) for text in texts]
            path.write_text("\n".join(lines), encoding="utf-8")
        else:
            path = folder / name
            path.mkdir(parents=True)
            for number, text in enumerate(texts):
                (path / f"{number:03}.txt").write_text(text, encoding="utf-8")
        table = f'[[pretraining.domains]]\nname = "{name}"\npath = "{path.name}"\n'
        tables.append(table + ('field = "body"\n' if name == "colours" else ""))
    file = folder / "texts.toml"
    file.write_text("\n".join(tables), encoding="utf-8")
    return file


def settings_for(file: Path, *assignments: str) -> Settings:
    """Those of a small run."""
    return load_settings(file=file, assignments=[*SMALL, *assignments])


class Silent:
    """Progress that stops a run after so many steps, like a kill or like a Ctrl-C."""

    def __init__(self, kill_after: int | None = None) -> None:
        self._kill_after = kill_after
        self.seen: list[Row] = []

    def ready(self, domains: Sequence[Domain], parameters: int, steps: int) -> None:
        """Nothing to tell."""

    def row(self, row: Row) -> None:
        """Die like a process that is killed."""
        self.seen.append(row)
        if row.step == self._kill_after:
            raise Killed


class Killed(BaseException):
    """Stands for SIGKILL: nothing may clean up after it."""


def run_small(
    file: Path, out: Path, *assignments: str, kill_after: int | None = None, stop: bool = False
) -> Finished:
    """A small run; `stop` asks it to end after its first step."""
    settings = settings_for(file, *assignments)
    return pretrain(
        settings,
        sources_of(settings, file.parent),
        out,
        file.parent / "cache",
        Silent(kill_after),
        lambda: stop,
    )
