"""What a node can complain of in what peers' groups may do to its training, or may not."""

from __future__ import annotations

from swarmnode.observe.facts import Facts, Severity, Warnable
from swarmnode.observe.words import counted

HALF = 0.5
"""From more than this on, strangers decide more than the node itself."""


def _trained_on(facts: Facts) -> bool:
    return facts.wants_external and facts.external_use == "on"


EXTERNAL_WARNABLES: tuple[Warnable, ...] = (
    Warnable(
        "external-fallback",
        Severity.WARNING,
        "Own groups alone, after a fall",
        lambda f: f.fallback_evaluations_left > 0,
        lambda f: (
            f"Held-out success fell by {100 * f.fallback_drop:.1f} points "
            f"({f.fallback_deviations:.1f} standard errors) while peers' groups were trained on. "
            "They are only measured now, for "
            f"{counted(f.fallback_evaluations_left, 'evaluation')} more at most."
        ),
        "Look for new peers with `swarmnode peers`. Their groups are tried again after that, for "
        "longer pauses each time; `selection.fallback.enabled=false` switches this off.",
        "held-out success fell while peers' groups were trained on (`selection.fallback.drop`)",
    ),
    Warnable(
        "external-share-raised",
        Severity.WARNING,
        "Peers may have most of the training",
        lambda f: _trained_on(f) and f.external_share > HALF,
        lambda f: (
            f"Peers may have {f.external_share:.0%} of the tokens that this node trains on: more "
            "than its own answers have."
        ),
        "Unless you trust the peers, take no more groups of theirs than own ones, as `--mix 4/4` "
        "does, or set `selection.external_token_share`.",
        "peers may have more than half of the training tokens",
    ),
    Warnable(
        "mix-over-share",
        Severity.INFO,
        "The mix is more than the share allows",
        lambda f: _trained_on(f) and f.wanted_external_share > f.external_share,
        lambda f: (
            f"The mix asks for {f.wanted_external_share:.0%} groups of peers, and "
            f"{f.external_share:.0%} of the tokens may be theirs; the rest is left out."
        ),
        "Raise `selection.external_token_share`, or take fewer of peers with `--mix`.",
        "`selection.external_token_share` is set below J over I + J",
    ),
    Warnable(
        "external-monitored",
        Severity.INFO,
        "Peers' groups are only measured",
        lambda f: f.wants_external and f.external_use == "monitor",
        lambda f: "Peers' groups are fetched, scored and measured, and none is trained on.",
        "Nothing, if that is what you want; `policy.external=on` trains on them.",
        "`policy.external` is `monitor`",
    ),
    Warnable(
        "log-prob-gate-enforced",
        Severity.WARNING,
        "The log-prob gate is enforced",
        lambda f: _trained_on(f) and f.log_prob_gate_enforced,
        lambda f: (
            "What peers say that this policy never would is not trained on. That this leaves "
            "most of what sharing is worth has not been shown."
        ),
        "Set `selection.log_prob_gate.action=monitor`, unless you expect hostile peers.",
        "`selection.log_prob_gate.action` is `enforce`",
    ),
)
