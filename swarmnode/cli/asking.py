"""Asking policies held-out questions (`eval`, `compare`): what is told, and what may go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swarmnode.cli.eval_screen import Progressing
from swarmnode.cli.exits import Exit, Mistake
from swarmnode.evaluation import EvaluationError
from swarmnode.examining import CannotAsk
from swarmnode.process import ChildError, ChildRefused


@contextmanager
def asking(cache: Path) -> Iterator[Progressing]:
    """What is told while they answer. Makes `cache`; raises Mistake for whatever ends it early."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with Progressing() as progress:
            yield progress
    except CannotAsk as error:
        raise Mistake(str(error)) from error
    except ChildRefused as error:
        raise Mistake(str(error), Exit.CONFIG) from error
    except (ChildError, EvaluationError) as error:
        raise Mistake(str(error), Exit.FAILURE) from error
    except OSError as error:
        raise Mistake(f"{error.filename}: {error.strerror}", Exit.FAILURE) from error
