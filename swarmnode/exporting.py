"""`swarmnode export model`: a checkpoint's policy as a folder that other programs load.

Starts a policy host and nothing else. The folder is whole or it is not there: it is written beside
its place under another name, and then renamed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from swarmnode.children import policy_child
from swarmnode.config.channels import Channels
from swarmnode.config.settings import Settings
from swarmnode.config.training import Training
from swarmnode.files import synchronize
from swarmnode.outfit import SHARED_SEED
from swarmnode.policies import hosted
from swarmnode.policy.order import PolicyOrder

CARD = "README.md"


class TakenFolder(Exception):
    """The folder holds something already; one line for the user."""


@dataclass(frozen=True, slots=True)
class Export:
    """What is written, and where."""

    settings: Settings
    """They make the policy that the checkpoint is of."""
    checkpoint: Path
    form: str
    """One of swarmnode.policy.exporting."""
    card: str
    """The model card, Markdown."""
    folder: Path
    """It is empty, or not there."""
    environment: Mapping[str, str]


def check_free(folder: Path) -> None:
    """Raise TakenFolder unless the folder is empty or not there; OSError where it can't be read."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TakenFolder(f"{folder} is there already and is not overwritten; choose another place")


def write_export(export: Export) -> None:
    """Write the folder.

    Raises ChildError where the policy cannot be made or written, TakenFolder, and OSError.
    """
    check_free(export.folder)
    export.folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{export.folder.name}.", dir=export.folder.parent))
    try:
        temporary.chmod(0o755)
        asyncio.run(_fill(export, temporary))
        (temporary / CARD).write_text(export.card, encoding="utf-8")
        for path in temporary.iterdir():
            # It is to be given to others; some of the writers make files for this user alone.
            path.chmod(0o644)
            synchronize(path)
        synchronize(temporary)
        check_free(export.folder)
        os.replace(temporary, export.folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    synchronize(export.folder.parent)


async def _fill(export: Export, folder: Path) -> None:
    async with AsyncExitStack() as stack:
        host = policy_child(export.environment, "policy host")
        host.start()
        stack.push_async_callback(host.close)
        policy = hosted(host)
        await policy.create(_order(export.settings))
        await policy.open(export.checkpoint)
        await policy.export(folder, export.form)


def _order(settings: Settings) -> PolicyOrder:
    """The policy without a warm start: the checkpoint's weights replace what it would give."""
    cold = settings.policy.warm_start.model_copy(update={"base_steps": 0, "steps": 0})
    return PolicyOrder(
        policy=settings.policy.model_copy(update={"warm_start": cold}).model_dump(),
        training=Training().model_dump(),
        channels=Channels().model_dump(),
        seed=0,
        sampling_seed=0,
        shared_seed=SHARED_SEED,
        base_pairs=(),
        skill_pairs=(),
        cache_folder=None,
        examples={},
    )
