"""A swarm's rules, their one encoding, and the id that is its hash.

Knows no peer and no address: bootstrap addresses stay outside the id. Unlike records, rules have
exactly one encoding and no unknown fields: a rule that a node doesn't know is one it can't keep.
That a swarm is private is no rule: its id is another hash, which its key goes into.
Source: protocol/README.md, section 6.4.
"""

import hashlib
from typing import Final

from swarmproto.errors import Reason, WireError
from swarmproto.fields import Fields, as_array, as_name
from swarmproto.limits import (
    COMPLETION_TOKENS_MAX,
    COMPLETIONS_MAX,
    COMPLETIONS_MIN,
    GROUPS_PER_BUNDLE_MAX,
    NAME_BYTES_MAX,
    RULED_TASKS_MAX,
    RULES_LIMITS,
)
from swarmproto.records import SwarmRules
from swarmproto.scan import pack, unpack
from swarmproto.sealing import SwarmSecret
from swarmproto.streams import framed

_DOMAIN: Final = b"swarmnode/1/swarm-rules"
_PRIVATE_DOMAIN: Final = b"swarmnode/1/private-swarm-rules"
_KEYS: Final = frozenset(
    {
        "name",
        "tasks",
        "completions_min",
        "completions_max",
        "completion_tokens_max",
        "groups_per_bundle_max",
    }
)


def _pack_rules(rules: SwarmRules) -> bytes:
    return pack(
        {
            "name": rules.name,
            "tasks": [list(pair) for pair in rules.tasks],
            "completions_min": rules.completions_min,
            "completions_max": rules.completions_max,
            "completion_tokens_max": rules.completion_tokens_max,
            "groups_per_bundle_max": rules.groups_per_bundle_max,
        }
    )


def _task(value: object) -> tuple[str, str]:
    task, level = as_array(value, 2, 2)
    return as_name(task), as_name(level)


def decode_rules(data: bytes) -> SwarmRules:
    """Raises WireError, also for rules that are written otherwise than `encode_rules` does."""
    fields = Fields.of(unpack(data, RULES_LIMITS))
    fields.only(_KEYS)
    tasks = tuple(_task(value) for value in fields.array("tasks", 1, RULED_TASKS_MAX))
    least = fields.integer("completions_min", COMPLETIONS_MIN, COMPLETIONS_MAX)
    rules = SwarmRules(
        name=fields.text("name", 1, NAME_BYTES_MAX),
        tasks=tasks,
        completions_min=least,
        completions_max=fields.integer("completions_max", least, COMPLETIONS_MAX),
        completion_tokens_max=fields.integer("completion_tokens_max", 1, COMPLETION_TOKENS_MAX),
        groups_per_bundle_max=fields.integer("groups_per_bundle_max", 1, GROUPS_PER_BUNDLE_MAX),
    )
    if list(tasks) != sorted(set(tasks)) or _pack_rules(rules) != data:
        raise WireError(Reason.NONCANONICAL, "not the one encoding of these rules")
    return rules


def encode_rules(rules: SwarmRules) -> bytes:
    """The swarm file's rules; raises WireError for rules out of bounds or unsorted tasks."""
    data = _pack_rules(rules)
    decode_rules(data)
    return data


def swarm_id(rules: SwarmRules, secret: SwarmSecret | None = None) -> bytes:
    """32 bytes: of the private swarm with this secret, of the public one where there is none.

    Raises WireError as `encode_rules` does.
    """
    if secret is not None:
        private = framed(_PRIVATE_DOMAIN, encode_rules(rules), secret.commitment)
        return hashlib.sha256(private).digest()
    return hashlib.sha256(framed(_DOMAIN, encode_rules(rules))).digest()
