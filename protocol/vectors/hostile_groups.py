"""Hostile and odd group records: every rule of the scan and of the group's schema."""

import struct
from typing import Final

from form import Parts, Raw, Vector, accepted, packed, packed_map, refused, without
from samples import FINGERPRINT, PLAIN_GROUP

import swarmproto as wire

_OPERATION: Final = "decode_group"
_COMPLETION: Final[dict[str, object]] = {"text": "5", "finish": "stop", "tokens": 1}
_GROUP: Final[dict[str, object]] = {
    "task": "base_conversion",
    "level": "easy",
    "index": 41,
    "fingerprint": FINGERPRINT,
    "question": "What is 5 in base 2?",
    "answer": "101",
    "completions": [_COMPLETION, _COMPLETION],
}
_NAN: Final = struct.pack(">Bd", 0xCB, float("nan"))


def _with(**changes: object) -> bytes:
    return packed_map(list((_GROUP | changes).items()))


def _completed(**changes: object) -> bytes:
    first = packed_map(list((_COMPLETION | changes).items()))
    return _with(completions=Raw(b"\x92" + first + packed(_COMPLETION)))


def _question(raw: bytes) -> bytes:
    return _with(question=Raw(bytes([0xA0 | len(raw)]) + raw))


def _long_question(size: int) -> Parts:
    before, after = _with(question="?").split(b"\xa1?")
    return ((before + struct.pack(">BH", 0xDA, size), 1), (b"q", size), (after, 1))


def _long_completion(characters: int) -> Parts:
    before, after = _completed(text="!").split(b"\xa1!")
    text = struct.pack(">BH", 0xDA, 2 * characters)
    return ((before + text, 1), ("é".encode(), characters), (after, 1))


def _containers() -> dict[str, tuple[bytes | Parts, str]]:
    group = packed(_GROUP)
    return {
        "nothing": (b"", "truncated"),
        "a group cut short": (group[:-1], "truncated"),
        "a group and one byte": (group + b"\xc0", "trailing"),
        "two groups": (group + group, "trailing"),
        "more than 256 KiB": (((b"\x81\xa1z\xc6\x00\x03\xff\xfa", 1), (b"\0", 262138)), "oversize"),
        "a megabyte of empty maps": (
            ((b"\xdd\x00\x0f\xff\xfb", 1), (b"\x80", 1048571)),
            "oversize",
        ),
        "262000 empty maps": (((b"\xdd\x00\x03\xff\x70", 1), (b"\x80", 262000)), "nodes"),
        "4096 empty arrays": (((b"\xdc\x10\x00", 1), (b"\x90", 4096)), "nodes"),
        "maps of maps, 4097 values in all": (
            ((b"\x81\xa1z\xdc\x0f\xfe", 1), (b"\xc0", 4094)),
            "nodes",
        ),
        "an array that names 2**32-1 items": (b"\xdd\xff\xff\xff\xff", "nodes"),
        "a map that names 2**32-1 pairs": (b"\xdf\xff\xff\xff\xff", "nodes"),
        "a text that names 2**32-1 bytes": (b"\xdb\xff\xff\xff\xff", "truncated"),
        "binary that names 2**32-1 bytes": (b"\xc6\xff\xff\xff\xff", "truncated"),
        "a length cut short": (b"\xdb\xff\xff", "truncated"),
        "seven arrays": (b"\x91" * 7 + b"\xc0", "depth"),
        "ten thousand arrays": (((b"\x91", 10000), (b"\xc0", 1)), "depth"),
        "ten thousand maps": (((b"\x81\xa1a", 10000), (b"\xc0", 1)), "depth"),
        "an unknown field six deep inside the map": (
            _with(later=Raw(b"\x91" * 6 + b"\xc0")),
            "depth",
        ),
        "the reserved byte": (b"\xc1", "malformed"),
        "an array": (packed(list(_GROUP.values())), "wrong_type"),
        "nil": (b"\xc0", "wrong_type"),
    }


def _extensions() -> dict[str, tuple[bytes | Parts, str]]:
    heads = (b"\xd4", b"\xd5", b"\xd6", b"\xd7", b"\xd8", b"\xc7\x00", b"\xc8\0\0", b"\xc9\0\0\0\0")
    cases: dict[str, tuple[bytes | Parts, str]] = {
        f"extension {head.hex()}": (_with(later=Raw(head + b"\x40" + bytes(16))), "extension")
        for head in heads
    }
    cases["a timestamp as index"] = (_with(index=Raw(b"\xd6\xff\0\0\0\0")), "extension")
    cases["an extension as key"] = (packed_map([(Raw(b"\xd4\x01\x01"), 1)]), "extension")
    return cases


def _keys() -> dict[str, tuple[bytes | Parts, str]]:
    pairs: list[tuple[object, object]] = list(_GROUP.items())
    return {
        "a key twice": (packed_map([*pairs, ("index", 1)]), "duplicate_key"),
        "a key twice in two encodings": (
            packed_map([*pairs, (Raw(b"\xd9\x05index"), 1)]),
            "duplicate_key",
        ),
        "an unknown key twice": (
            packed_map([*pairs, ("later", 1), ("later", 1)]),
            "duplicate_key",
        ),
        "a key twice inside an unknown field": (
            _with(later=Raw(packed_map([("a", 1), ("a", 1)]))),
            "duplicate_key",
        ),
        "an integer key": (packed_map([*pairs, (1, 1)]), "key_type"),
        "a binary key": (packed_map([*pairs, (b"later", 1)]), "key_type"),
        "a nil key": (packed_map([*pairs, (None, 1)]), "key_type"),
        "an array as key": (packed_map([*pairs, ([], 1)]), "key_type"),
        "a key that is not UTF-8": (packed_map([*pairs, (Raw(b"\xa1\xff"), 1)]), "utf8"),
        **{f"no {key}": (packed(without(_GROUP, key)), "missing_field") for key in _GROUP},
        **{
            f"no {key} of a completion": (
                _with(completions=[without(_COMPLETION, key), _COMPLETION]),
                "missing_field",
            )
            for key in _COMPLETION
        },
    }


def _texts() -> dict[str, tuple[bytes | Parts, str]]:
    return {
        "a stray continuation byte": (_question(b"a\x80"), "utf8"),
        "an overlong NUL": (_question(b"\xc0\x80"), "utf8"),
        "a lone high surrogate": (_question(b"\xed\xa0\x80"), "utf8"),
        "a surrogate pair": (_question(b"\xed\xa0\xbd\xed\xb8\x80"), "utf8"),
        "beyond U+10FFFF": (_question(b"\xf4\x90\x80\x80"), "utf8"),
        "a character cut short": (_question(b"\xe2\x82"), "utf8"),
        "bad UTF-8 in an unknown field": (_with(later=Raw(b"\xa1\xff")), "utf8"),
        "a NUL in a question": (_with(question="a\0b"), "text"),
        "a NUL in a completion": (_completed(text="\0"), "text"),
        "an empty question": (_with(question=""), "range"),
        "a question of 16385 bytes": (_long_question(16385), "range"),
        "a completion of 8193 two-byte characters": (_long_completion(8193), "range"),
        "an upper-case task": (_with(task="Base"), "text"),
        "a task with a slash": (_with(task="../etc"), "text"),
        "a task with a newline at its end": (_with(task="base\n"), "text"),
        "a level of Arabic digits": (_with(level="٣"), "text"),
        "an empty level": (_with(level=""), "range"),
        "a task of 65 bytes": (_with(task="a" * 65), "range"),
    }


def _types() -> dict[str, tuple[bytes | Parts, str]]:
    return {
        "true as index": (_with(index=True), "wrong_type"),
        "a float as index": (_with(index=41.0), "wrong_type"),
        "a text as index": (_with(index="41"), "wrong_type"),
        "nil as answer": (_with(answer=None), "wrong_type"),
        "binary as question": (_with(question=b"What?"), "wrong_type"),
        "a text as fingerprint": (_with(fingerprint="f" * 32), "wrong_type"),
        "a map as completions": (_with(completions={"a": 1, "b": 2}), "wrong_type"),
        "a text as completion": (_with(completions=["5", "5"]), "wrong_type"),
        "false as token count": (_completed(tokens=False), "wrong_type"),
        "an integer as finish reason": (_completed(finish=0), "wrong_type"),
        "an integer as total": (_completed(total=-1), "wrong_type"),
        "nil as total": (_completed(total=None), "wrong_type"),
        "a text as log-probabilities": (_completed(logprobs="aaaa"), "wrong_type"),
    }


def _ranges() -> dict[str, tuple[bytes | Parts, str]]:
    infinite, huge = float("inf"), 2**63
    nan32 = struct.pack("<f", float("nan"))
    return {
        "index -1": (_with(index=-1), "range"),
        "index 2**32": (_with(index=2**32), "range"),
        "index 2**63": (_with(index=huge), "range"),
        "a fingerprint of 31 bytes": (_with(fingerprint=bytes(31)), "range"),
        "no completions": (_with(completions=[]), "range"),
        "one completion": (_with(completions=[_COMPLETION]), "range"),
        "65 completions": (_with(completions=[_COMPLETION] * 65), "range"),
        "-1 tokens": (_completed(tokens=-1), "range"),
        "16385 tokens": (_completed(tokens=16385), "range"),
        "an unknown finish reason": (_completed(finish="eos"), "range"),
        "a total above 0": (_completed(total=0.5), "range"),
        "a total that is NaN": (_completed(total=Raw(_NAN)), "nonfinite"),
        "a total that is infinite": (_completed(total=-infinite), "nonfinite"),
        "a four-byte infinity": (_completed(total=Raw(b"\xca\xff\x80\0\0")), "nonfinite"),
        "NaN in an unknown field": (_with(later=Raw(_NAN)), "nonfinite"),
        "log-probabilities of three bytes": (_completed(logprobs=bytes(3)), "range"),
        "log-probabilities of two tokens for one": (_completed(logprobs=bytes(8)), "range"),
        "a log-probability above 0": (_completed(logprobs=struct.pack("<f", 0.25)), "range"),
        "a log-probability that is NaN": (_completed(logprobs=nan32), "nonfinite"),
        "a log-probability that is infinite": (
            _completed(logprobs=struct.pack("<f", -infinite)),
            "nonfinite",
        ),
        "log-probabilities and total": (_completed(logprobs=bytes(4), total=-1.0), "conflict"),
    }


def _odd_but_valid() -> list[Vector]:
    plain = packed(_GROUP)
    wide = plain.replace(b"\xa5index\x29", b"\xd9\x05index\xd3" + bytes(7) + b"\x29")
    shuffled = packed(dict(reversed(_GROUP.items())))
    later: dict[str, object] = {"a": [1, 2.5, None, True, b"x", -(2**63), 2**64 - 1, {}]}
    group = _decoded()
    return [
        accepted("integers and texts in longer encodings", _OPERATION, wide, group),
        accepted("keys in another order", _OPERATION, shuffled, group),
        accepted("an unknown field", _OPERATION, _with(later=later), group),
        accepted("an unknown field of a completion", _OPERATION, _completed(later=later), group),
    ]


def _decoded() -> wire.GroupRecord:
    completion = wire.CompletionRecord("5", "stop", 1)
    return wire.GroupRecord(
        task=PLAIN_GROUP.task,
        level=PLAIN_GROUP.level,
        index=PLAIN_GROUP.index,
        fingerprint=PLAIN_GROUP.fingerprint,
        question=PLAIN_GROUP.question,
        answer=PLAIN_GROUP.answer,
        completions=(completion, completion),
    )


def group_vectors() -> list[Vector]:
    """Odd but valid ones first, then the refused."""
    cases = _containers() | _extensions() | _keys() | _texts() | _types() | _ranges()
    return _odd_but_valid() + [
        refused(name, _OPERATION, data, reason) for name, (data, reason) in cases.items()
    ]
