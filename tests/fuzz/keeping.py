"""Writes the corpus: `python -m tests.fuzz.keeping TARGET FOLDER` after a long run into FOLDER.

Keeps what reaches something that the seeds don't, the shortest first, within KEPT_BYTES.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.fuzz.seeds import CORPUS, seeds

KEPT_BYTES = 12 * 1024


def main() -> None:
    """`swarmnode` has no part in this."""
    target, folder = sys.argv[1:]
    known = set(seeds(target))
    found = sorted((path.read_bytes() for path in Path(folder).iterdir()), key=len)
    chosen: list[str] = []
    size = 0
    for data in found:
        if data in known or size + len(data) > KEPT_BYTES:
            continue
        size += len(data)
        chosen.append(data.hex())
    (CORPUS / f"{target}.json").write_text(json.dumps(chosen, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
