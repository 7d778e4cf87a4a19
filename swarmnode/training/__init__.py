"""GRPO on groups of our own and of peers: pure maths, then one step per round.

Its door is `Trainer.step`. Knows neither questions nor the swarm: groups arrive as token ids with
rewards, and the model is whatever fits `TrainableModel`.
"""

from swarmnode.training.groups import OUT, StepReport, TrainableModel, TrainingGroup, Treatment
from swarmnode.training.step import Trainer

__all__ = [
    "OUT",
    "StepReport",
    "TrainableModel",
    "Trainer",
    "TrainingGroup",
    "Treatment",
]
