"""The doctor: whether this machine can run a node, and what to do where it can't.

`examine` gathers facts, `checks` judges them. Knows no command line; the status document of a
running node is passed in.
"""

from swarmnode.doctor.checks import Check, Result, checks, healthy
from swarmnode.doctor.examine import Dialled, MachineFacts, examine

__all__ = ["Check", "Dialled", "MachineFacts", "Result", "checks", "examine", "healthy"]
