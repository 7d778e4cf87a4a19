"""Finds, in a syntax tree, what would run somebody's bytes or text as code.

Follows names through imports and aliases, and strings through getattr, attrgetter, import_module,
vars and __dict__. What it can't follow (names put together while running) it reports where the
object is one of the dangerous modules.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

MODULES = {
    "pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "jsonpickle", "shelve",
    "marshal", "yaml", "ruamel", "multiprocessing", "torch.hub", "torch.package", "torch.jit",
}  # fmt: skip
"""What unpickles, loads YAML, or runs code that it loads; multiprocessing pickles what it sends."""

CALLS = {
    "eval", "exec", "compile", "__import__", "execfile",
    "torch.load", "torch.serialization.load", "torch.distributed.load",
    "numpy.load", "numpy.fromregex", "pandas.read_pickle",
    "runpy.run_path", "runpy.run_module", "code.interact",
    "sympy.sympify", "sympy.parse_expr", "sympy.parsing.sympy_parser.parse_expr",
}  # fmt: skip
"""By full name; those of builtins without their module."""

FLAGS = {"trust_remote_code": False, "weights_only": True, "allow_pickle": False, "shell": False}
"""Keyword to the one value that it may be given."""

LOOKUPS = ("getattr", "operator.attrgetter", "attrgetter", "operator.methodcaller", "vars")


def found(source: str) -> list[str]:
    """What is forbidden in a module, as "LINE: WHAT"."""
    tree = ast.parse(source)
    names = aliases(tree)
    return [f"{line}: {what}" for line, what in sorted(set(_found(tree, names)))]


def aliases(tree: ast.Module) -> dict[str, str]:
    """Local name to full name: of imports, and of names and attributes that are assigned."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                top = each.name if each.asname else each.name.split(".")[0]
                names[each.asname or top] = top
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for each in node.names:
                names[each.asname or each.name] = f"{node.module}.{each.name}"
    for _ in range(3):  # an alias of an alias of an alias
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                whole = _whole(node.value, names)
                for target in targets:
                    if isinstance(target, ast.Name) and whole and _dangerous(whole):
                        names[target.id] = whole
    return names


def _whole(node: ast.expr, names: Mapping[str, str]) -> str:
    """The full dotted name that an expression stands for, or ""."""
    match node:
        case ast.Name(id=name):
            return _bare(names.get(name, name))
        case ast.Attribute(value=value, attr=name):
            base = _whole(value, names)
            return _bare(f"{base}.{name}") if base else ""
        case ast.Call(func=function, args=[ast.Constant(value=str(name)), *_]):
            if _whole(function, names) in ("importlib.import_module", "__import__"):
                return name
        case ast.Call(func=function, args=[value, ast.Constant(value=str(name)), *_]):
            if _whole(function, names) == "getattr" and (base := _whole(value, names)):
                return _bare(f"{base}.{name}")
        case ast.Subscript(value=ast.Attribute(value=value, attr="__dict__"), slice=index):
            return _member(value, index, names)
        case ast.Subscript(value=ast.Call(func=ast.Name(id="vars"), args=[value]), slice=index):
            return _member(value, index, names)
        case ast.Subscript(value=ast.Name(id="__builtins__"), slice=ast.Constant(value=str(name))):
            return name
    return ""


def _member(value: ast.expr, index: ast.expr, names: Mapping[str, str]) -> str:
    base = _whole(value, names)
    constant = isinstance(index, ast.Constant) and isinstance(index.value, str)
    return _bare(f"{base}.{index.value}") if base and constant else ""  # type: ignore[attr-defined]


def _bare(name: str) -> str:
    for prefix in ("builtins.", "__builtins__."):
        name = name.removeprefix(prefix)
    return "numpy." + name[3:] if name.startswith("np.") else name


def _dangerous(name: str) -> bool:
    """Whether a full name is forbidden, or leads to what is: a module whose members are."""
    parts = name.split(".")
    heads = {".".join(parts[: length + 1]) for length in range(len(parts))}
    leads = {call.rpartition(".")[0] for call in CALLS} | {"builtins", "getattr", "importlib"}
    return bool(heads & MODULES) or name in CALLS or name in leads - {""} or name in LOOKUPS


def _forbidden(name: str) -> bool:
    parts = name.split(".")
    heads = {".".join(parts[: length + 1]) for length in range(len(parts))}
    return bool(heads & MODULES) or name in CALLS


def _found(tree: ast.Module, names: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=imported):
                yield from ((node.lineno, e.name) for e in imported if _forbidden(e.name))
            case ast.ImportFrom(module=str(module), names=imported):
                wholes = [_bare(f"{module}.{each.name}") for each in imported]
                yield from ((node.lineno, whole) for whole in wholes if _forbidden(whole))
            case ast.Name(ctx=ast.Load()) | ast.Attribute() | ast.Subscript():
                if _forbidden(whole := _whole(node, names)):
                    yield node.lineno, whole
            case ast.Call():
                yield from _call(node, names)
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and key.value in FLAGS:
                        yield from _flag(str(key.value), value)
            case ast.Attribute(attr="read_pickle" | "to_pickle"):
                yield node.lineno, node.attr


def _call(node: ast.Call, names: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    if _forbidden(whole := _whole(node, names)):
        yield node.lineno, whole
    function = _whole(node.func, names)
    for word in node.keywords:
        if word.arg in FLAGS:
            yield from _flag(word.arg, word.value)
    texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
    if function in LOOKUPS:
        hidden = [text for text in texts if text in ("eval", "exec", "__import__", "compile")]
        of = _whole(node.args[0], names) if node.args else ""
        if hidden and of not in ("", *names.values()):
            yield node.lineno, f"{function} {hidden[0]}"
        built = len(node.args) > 1 and not isinstance(node.args[1], ast.Constant)
        if built and of in ("builtins", "__builtins__", "torch", "importlib", "numpy"):
            yield node.lineno, f"{function} of {of} by a name put together"
    if function == "importlib.import_module" and not isinstance(node.args[0], ast.Constant):
        yield node.lineno, "import_module of a name put together"


def _flag(name: str, value: ast.expr) -> Iterator[tuple[int, str]]:
    if not (isinstance(value, ast.Constant) and value.value is FLAGS[name]):
        yield value.lineno, f"{name} is not {FLAGS[name]}"
