"""Which tensors of a model are sent: all, or with adapters only what is trained."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from swarmnode.policy.weights import distinct_tensors
from swarmnode.weights.channel import Tensors
from swarmnode.weights.checksum import fingerprint
from swarmnode.weights.plan import Plan


@dataclass(frozen=True, slots=True)
class Selected:
    """The tensors that are sent, or filled, and what they belong on."""

    tensors: Tensors
    base: str
    """Fingerprint of all others; empty where there are none."""

    @property
    def plan(self) -> Plan:
        """What a writer is made with."""
        return Plan.of(self.tensors, self.base)


def selected(model: nn.Module) -> Selected:
    """Choose a model's tensors by what is trained, the same way on both sides.

    Without frozen parameters it is the model's whole state, tied weights once. Otherwise it is the
    trained parameters (adapters, say), and of all the rest the fingerprint, which costs reading
    it once: take the selection once and keep it. Its tensors are the model's own.
    """
    state = distinct_tensors(model)
    frozen = [one for one in model.parameters() if not one.requires_grad]
    if not frozen:
        return Selected(state, "")
    trained = {one.data_ptr() for one in model.parameters() if one.requires_grad}
    sent = {name: tensor for name, tensor in state.items() if tensor.data_ptr() in trained}
    return Selected(sent, fingerprint({name: state[name] for name in state.keys() - sent.keys()}))
