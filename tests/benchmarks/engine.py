"""`make bench NAME=engine`: our generation and step against transformers' at the demo's shapes.

Exits with 1 when a published target is missed: at least twice as fast each, log-probs equal to
1e-4, gradients to 1e-5. With `ARGUMENTS=peers` a whole round against TRL and genrl instead
(engine_peers.py).
"""

from __future__ import annotations

import sys

from tests.benchmarks import engine_generation, engine_peers, engine_step

TARGET_SPEEDUP = 2.0
TARGET_LOGPROB = 1e-4
TARGET_GRADIENT = 1e-5


def main() -> None:
    """Measure both and print what was found beside its target, or measure whole rounds."""
    if sys.argv[1:2] == ["peers"]:
        sys.exit(engine_peers.main(sys.argv[2:]))
    generation, step = engine_generation.measure(), engine_step.measure()
    rows = [
        ("generation: speedup", generation["speedup"], TARGET_SPEEDUP, True),
        ("generation: log-prob difference", generation["largest_logprob_difference"],
         TARGET_LOGPROB, False),
        ("step: speedup", step["times_faster"], TARGET_SPEEDUP, True),
        ("step: log-prob difference", step["logprob_difference"], TARGET_LOGPROB, False),
        ("step: gradient difference", step["gradient_difference"], TARGET_GRADIENT, False),
    ]  # fmt: skip
    missed = 0
    for name, figure, target, at_least in rows:
        met = figure >= target if at_least else figure <= target
        missed += not met
        bound = "at least" if at_least else "at most"
        print(f"{name:34} {figure:10.3g}   {bound} {target:g}: {'met' if met else 'MISSED'}")
    sys.exit(min(missed, 1))


if __name__ == "__main__":
    main()
