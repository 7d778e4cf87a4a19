"""Eight text domains out of what a Debian machine with Python has, without any network.

`python -m tests.benchmarks.mixing_corpora FOLDER [--megabytes 3]` writes a file of JSON lines for
each domain, `texts.toml` for `swarmnode pretrain`, and `manifest.json` with the size and the
SHA-256 of each file. Equal machines give equal files: sources are taken in the order of the hashes
of their names, and nothing is drawn.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import sys
import sysconfig
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from swarmnode.files import write_atomically

LEAST_BYTES = 300_000
"""A domain with less than this is no domain."""

MOST_OF_A_TEXT = 40_000
"""Bytes that a single text gives at most, so that no domain is one long file."""

MANUAL = Path("/usr/share/man")
REMEDY = "apt-get install man-db manpages manpages-dev manpages-de manpages-fr libc6-dev"

QUESTIONS = (
    "basic_arithmetic",
    "base_conversion",
    "calendar_arithmetic",
    "fraction_simplification",
    "gcd",
    "letter_counting",
    "number_sorting",
    "simple_equations",
    "word_sorting",
)
"""Tasks of reasoning_gym: short, regular texts of few words."""

_ROFF_REQUEST = re.compile(r"^\.(?:SH|SS|TH|B|I|BR|IR|RB|BI|IB|IP|TP)\s+(.*)$")
_ROFF_CHARACTER = re.compile(r"\\(?:\((..)|\[([^]]*)\])")
_ROFF_ESCAPE = re.compile(
    r"\\(?:f(?:\(..|\[[^]]*\]|.)|s[+-]?\d+|\*(?:\(..|\[[^]]*\]|.)|[&|^/%:,c ])"
)
_CHARACTERS = {"aq": "'", "dq": '"', "lq": "“", "rq": "”", "ss": "ß", "en": "–", "em": "—"}
_ACCENTS = {
    ":": "\N{COMBINING DIAERESIS}",
    "'": "\N{COMBINING ACUTE ACCENT}",
    "`": "\N{COMBINING GRAVE ACCENT}",
    "^": "\N{COMBINING CIRCUMFLEX ACCENT}",
    ",": "\N{COMBINING CEDILLA}",
    "~": "\N{COMBINING TILDE}",
}


class TooLittle(Exception):
    """The machine lacks a domain; one line for the user."""


def by_name_hash(paths: Iterable[Path]) -> list[Path]:
    """An order that depends on names alone and mixes all folders."""
    return sorted(set(paths), key=lambda path: (hashlib.sha256(str(path).encode()).digest(), path))


def read(path: Path) -> str | None:
    """A text, unpacked if need be; None for what is no UTF-8 or can't be read."""
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return data.decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError, gzip.BadGzipFile):
        return None


def texts_in(paths: Iterable[Path]) -> Iterator[str]:
    """The readable ones, in the order of their names' hashes; links are left out."""
    for path in by_name_hash(path for path in paths if path.is_file() and not path.is_symlink()):
        if text := read(path):
            yield text


def python() -> Iterator[str]:
    """The standard library, without tests and installed packages."""
    library = Path(sysconfig.get_path("stdlib"))
    left_out = {"test", "tests", "site-packages", "idlelib", "__pycache__"}
    yield from texts_in(
        path
        for path in library.rglob("*.py")
        if not left_out & set(path.relative_to(library).parts)
    )


def headers() -> Iterator[str]:
    """C headers."""
    yield from texts_in(Path("/usr/include").rglob("*.h"))


def manual(language: str) -> Iterator[str]:
    """Manual pages without their markup; "" is English."""
    folder = MANUAL / language if language else MANUAL
    yield from (plain(text) for text in texts_in(folder.glob("man[1-8]/*")))


def plain(roff: str) -> str:
    """The words of a manual page: requests go, the text of headings and fonts stays."""
    lines = []
    for line in roff.splitlines():
        if line.startswith((".", "'")):
            found = _ROFF_REQUEST.match(line)
            if found is None:
                continue
            line = found[1].replace('"', "")
        line = _ROFF_CHARACTER.sub(_character, _ROFF_ESCAPE.sub("", line))
        lines.append(line.replace("\\-", "-").replace("\\e", "\\"))
    return "\n".join(lines) + "\n"


def _character(escape: re.Match[str]) -> str:
    """What a named character of roff is; nothing for those that are no part of a word."""
    name = escape[1] or escape[2]
    if len(name) == 2 and name[0] in _ACCENTS:
        return unicodedata.normalize("NFC", name[1] + _ACCENTS[name[0]])
    if re.fullmatch(r"u[0-9A-F]{4,5}", name):
        return chr(int(name[1:], 16))
    return _CHARACTERS.get(name, "")


def legal() -> Iterator[str]:
    """Copyright files, each paragraph once: half of them say the same."""
    seen: set[bytes] = set()
    for text in texts_in(Path("/usr/share/doc").glob("*/copyright")):
        kept = []
        for paragraph in re.split(r"\n\s*(?:\.\s*)?\n", text):
            digest = hashlib.sha256(" ".join(paragraph.lower().split()).encode()).digest()
            if digest not in seen:
                seen.add(digest)
                kept.append(paragraph)
        if kept:
            yield "\n\n".join(kept) + "\n"


def changes() -> Iterator[str]:
    """Change logs."""
    yield from texts_in(Path("/usr/share/doc").glob("*/changelog*"))


def questions() -> Iterator[str]:
    """Questions with their answers, task after task in turn."""
    import reasoning_gym

    sets = [reasoning_gym.create_dataset(name, seed=0, size=4000) for name in QUESTIONS]
    for number in range(4000):
        for each in sets:
            entry = each[number]
            yield f"{entry['question']}\n{entry['answer']}\n\n"


DOMAINS: Mapping[str, Callable[[], Iterator[str]]] = {
    "python": python,
    "headers": headers,
    "manual": lambda: manual(""),
    "german": lambda: manual("de"),
    "french": lambda: manual("fr"),
    "legal": legal,
    "changes": changes,
    "questions": questions,
}


def capped(texts: Iterable[str], most_bytes: int) -> Iterator[str]:
    """As many texts as fit, the beginning of each."""
    left = most_bytes
    for text in texts:
        part = text.encode()[: min(left, MOST_OF_A_TEXT)].decode("utf-8", errors="ignore")
        if part.strip():
            yield part
            left -= len(part.encode())
        if left <= 0:
            return


def write_domain(name: str, folder: Path, most_bytes: int) -> dict[str, object]:
    """Write one domain; returns its entry of the manifest. Raises TooLittle."""
    texts = list(capped(DOMAINS[name](), most_bytes))
    size = sum(len(text.encode()) for text in texts)
    if size < LEAST_BYTES:
        raise TooLittle(
            f"{name}: this machine has {size:,} bytes of it, {LEAST_BYTES:,} are needed; try"
            f" `{REMEDY}`"
        )
    data = "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
    write_atomically(folder / f"{name}.jsonl", data)
    digest = hashlib.sha256(data.encode()).hexdigest()
    return {"name": name, "texts": len(texts), "bytes": size, "sha256": digest}


def write_corpus(folder: Path, megabytes: float) -> Sequence[Mapping[str, object]]:
    """Write all domains; returns the manifest's entries. Raises TooLittle, OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = [write_domain(name, folder, round(megabytes * 1e6)) for name in DOMAINS]
    tables = [
        f'[[pretraining.domains]]\nname = "{name}"\npath = "{name}.jsonl"\n' for name in DOMAINS
    ]
    write_atomically(folder / "texts.toml", "\n".join(tables))
    manifest = {"python": sys.version.split()[0], "megabytes": megabytes, "domains": entries}
    write_atomically(folder / "manifest.json", json.dumps(manifest, indent=1) + "\n")
    return entries


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="mixing_corpora", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--megabytes", type=float, default=3.0, help="of each domain at most")
    asked = parser.parse_args(arguments)
    try:
        entries = write_corpus(asked.folder, asked.megabytes)
    except (TooLittle, OSError) as error:
        print(f"mixing_corpora: {error}", file=sys.stderr)
        return 1
    for entry in entries:
        print(f"{entry['name']:10} {entry['bytes']:>10,} bytes {entry['texts']:>6,} texts")
    print(f"swarmnode pretrain {asked.folder / 'texts.toml'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
