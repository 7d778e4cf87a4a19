"""A pre-training state on disk: safetensors and JSON, and everything as it was."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from swarmnode.policy.plain_state import load_state, save_state


def test_everything_comes_back_as_it_was(tmp_path: Path) -> None:
    base = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    tree: dict[str, Any] = {
        "optimizer": {"state": {0: {"step": torch.tensor(3.0), "exp_avg": base.T}}, "groups": [{}]},
        "shared": [base, base[0]],
        "rng": torch.get_rng_state(),
        "values": (1, -0.0, 0.1 + 0.2, math.inf, None, True, "½", 2**70),
        "marked": {"#": "tensor", "name": "0"},
        "empty": torch.empty(0),
    }
    save_state(tree, tmp_path)
    found = load_state(tmp_path)
    assert found["values"] == tree["values"]
    assert math.copysign(1.0, found["values"][1]) == -1.0
    assert found["marked"] == tree["marked"]
    assert list(found["optimizer"]["state"]) == [0]
    assert found["optimizer"]["groups"] == [{}]
    pairs = [
        (found["optimizer"]["state"][0]["exp_avg"], base.T),
        (found["optimizer"]["state"][0]["step"], torch.tensor(3.0)),
        (found["shared"][1], base[0]),
        (found["rng"], tree["rng"]),
        (found["empty"], tree["empty"]),
    ]
    for ours, theirs in pairs:
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs)


def test_not_a_number_comes_back(tmp_path: Path) -> None:
    save_state([math.nan], tmp_path)
    assert math.isnan(load_state(tmp_path)[0])


@pytest.mark.parametrize("value", [object(), b"bytes", {1, 2}])
def test_what_would_need_more_than_data_is_refused(tmp_path: Path, value: object) -> None:
    with pytest.raises(TypeError, match="can't hold"):
        save_state({"x": value}, tmp_path)
