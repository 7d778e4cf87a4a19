"""Rewards: what completions are worth, by our own safe verifiers, and the process that scores.

Knows questions as text and metadata only. `client` is the daemon's half; `sandbox` and the
verifiers run inside the scorer process.
"""

from swarmnode.rewards.verifiers import VERIFIERS, verify, verify_by

__all__ = ["VERIFIERS", "verify", "verify_by"]
