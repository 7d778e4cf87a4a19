"""M15: nothing in the package unpickles, evaluates, loads YAML, or takes code with a model."""

from __future__ import annotations

from pathlib import Path

import pytest

import swarmnode
import swarmproto
from tests.security.forbidden_calls import found

PACKAGES = [Path(name).parent for name in (swarmnode.__file__, swarmproto.__file__) if name]
MODULES = sorted(path for folder in PACKAGES for path in folder.rglob("*.py"))
KNOWN = {
    "network/light_hivemind.py": ["import_module of a name put together"],
    "cli/groups.py": ["import_module of a name put together"],
    "cli/completion.py": ["shell is not False"],
}
"""hivemind's own modules, and the commands', by names that stand in our files; and a shell's name,
which Typer is told."""

BAD = [
    "import pickle",
    "import pickle as p",
    "from pickle import loads as l",
    "import _pickle",
    "import cloudpickle",
    "import multiprocessing.connection",
    "from torch import hub",
    "import yaml",
    "from yaml import safe_load",
    "import shelve, json",
    "import marshal",
    "__import__('pickle')",
    "import importlib\nimportlib.import_module('pickle')",
    "from importlib import import_module as take\ntake('dill')",
    "import importlib\nimportlib.import_module('pick' + 'le')",
    "eval('1')",
    "run = eval\nrun('1')",
    "a = b = eval\nc = a",
    "map(eval, texts)",
    "exec(text)",
    "import builtins\nbuiltins.exec(text)",
    "import builtins as b\nb.eval(text)",
    "from builtins import eval as read\nread(text)",
    "import builtins\ngetattr(builtins, 'eval')(text)",
    "import builtins\ngetattr(builtins, 'ev' + 'al')(text)",
    "import builtins as b\nlook = getattr\nlook(b, 'eval')(text)",
    "import builtins\nvars(builtins)['eval'](text)",
    "import builtins\nbuiltins.__dict__['exec'](text)",
    "__builtins__['eval'](text)",
    "(run := exec)(text)",
    "compile(text, '', 'exec')",
    "import torch\ntorch.load(path)",
    "import torch as t\nt.load(path, weights_only=True)",
    "from torch import load\nload(path)",
    "from torch import load as take\ntake(path)",
    "import torch\ngetattr(torch, 'load')(path)",
    "import torch\ntaken = torch.load\ntaken(path)",
    "import torch\nt = torch\nt.load(path)",
    "import torch.serialization\ntorch.serialization.load(path)",
    "import torch\ntorch.hub.load('a/b', 'c')",
    "import torch\ntorch.__dict__['load'](path)",
    "import numpy as np\nnp.load(path)",
    "import numpy\nnumpy.lib.npyio.read(path, allow_pickle=True)",
    "import pandas as pd\npd.read_pickle(path)",
    "AutoModel.from_pretrained(name, trust_remote_code=True)",
    "AutoModel.from_pretrained(name, trust_remote_code=trusted)",
    "AutoModel.from_pretrained(name, **{'trust_remote_code': True})",
    "options = {'trust_remote_code': 1}",
    "read(path, weights_only=False)",
    "import subprocess\nsubprocess.run(text, shell=True)",
    "from sympy import parse_expr\nparse_expr(text)",
    "import sympy\nsympy.sympify(text)",
    "import runpy\nrunpy.run_path(path)",
]
GOOD = [
    "model.eval()",
    "import re\nre.compile('a')",
    "import torch\ntorch.save\nmodel.load(path)",
    "from safetensors.torch import load_file\nload_file(path)",
    "AutoModel.from_pretrained(name, trust_remote_code=False)",
    "import json\njson.load(file)",
    "getattr(settings, name)",
    "import importlib\nimportlib.import_module('vllm')",
    "import ast\nast.literal_eval('1')",
    "command = 'eval'",
]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: "/".join(path.parts[-3:]))
def test_no_module_unpickles_evaluates_or_takes_code(path: Path) -> None:
    known = [name for end, name in KNOWN.items() if path.as_posix().endswith(end)]
    names = [each.partition(": ")[2] for each in found(path.read_text(encoding="utf-8"))]
    assert names == (known[0] if known else [])


@pytest.mark.parametrize("source", BAD)
def test_the_search_finds_it_however_it_is_written(source: str) -> None:
    assert found(source)


@pytest.mark.parametrize("source", GOOD)
def test_the_search_leaves_alone_what_is_harmless(source: str) -> None:
    assert found(source) == []


def test_every_module_was_looked_at() -> None:
    assert len(MODULES) > 200
