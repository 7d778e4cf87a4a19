"""Guard-rails: is the policy still answering questions, or has it found something cheaper?

`statistics` turns a round's answers into figures, `baselines` knows what was normal, `judgement`
says what is not, `rails` is what a round holds. Knows no torch and no network.
"""

from swarmnode.guard_rails.rails import Rails

__all__ = ["Rails"]
