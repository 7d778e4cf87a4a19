"""`swarmnode push`: an exported folder to the Hugging Face hub, when the user asks for it.

The only command that gives a model to others. Nothing is sent before the user said yes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swarmnode.cli.exits import Exit, Mistake

if TYPE_CHECKING:
    from collections.abc import Sequence

    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

_MODEL_FILES = ("config.json", "adapter_config.json")


def push(
    folder: Annotated[Path, typer.Argument(help="What `swarmnode export model` wrote.")],
    repository: Annotated[
        str, typer.Argument(metavar="NAME/REPOSITORY", help="Made where it is missing.")
    ],
    public: Annotated[
        bool, typer.Option("--public", help="Let everybody see it; without it, you alone.")
    ] = False,
    message: Annotated[
        str, typer.Option("--message", "-m", help="What the commit says.")
    ] = "Upload from swarmnode",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask before uploading.")] = False,
) -> None:
    """Upload an exported model to the Hugging Face hub, private unless you say otherwise.

    The token is that of HF_TOKEN, or of `hf auth login`. Where HF_ENDPOINT says so, it goes to
    another hub.
    """
    files = _files(folder)
    # Before the library is read: it would tell the hub of this program's surroundings.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import HfApi, constants, get_token
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils._validators import validate_repo_id

    try:
        validate_repo_id(repository)
    except HFValidationError as error:
        raise Mistake(f"{repository!r} is no name of a repository; such as me/my-model") from error
    if constants.HF_HUB_OFFLINE:
        raise Mistake("HF_HUB_OFFLINE is set, and push needs the network; unset it", Exit.CONFIG)
    if get_token() is None:
        raise Mistake(
            "there is no token: set HF_TOKEN, or run `hf auth login`; the token needs the right "
            "to write",
            Exit.CONFIG,
        )
    if not yes:
        _confirm(files, repository, constants.ENDPOINT, public=public)
    url = _upload(HfApi(), folder, repository, message, public=public)
    sys.stdout.write(f"uploaded: {url}\n")


def _files(folder: Path) -> Sequence[Path]:
    """What would leave this machine. Raises Mistake."""
    if not any((folder / name).is_file() for name in _MODEL_FILES):
        raise Mistake(
            f"{folder} holds no model (no {' or '.join(_MODEL_FILES)}); `swarmnode export model` "
            "writes one",
            Exit.CONFIG,
        )
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _confirm(files: Sequence[Path], repository: str, endpoint: str, *, public: bool) -> None:
    """Ask the user. Raises Mistake where nobody can answer or the answer is no."""
    from swarmnode.observe.words import counted, size_of

    if not sys.stdin.isatty():
        raise Mistake("push asks before it uploads, and nobody is there to answer; give --yes")
    size = size_of(sum(path.stat().st_size for path in files))
    seen = "everybody can see it" if public else "private"
    asked = f"Upload {counted(len(files), 'file')} ({size}) to {endpoint}/{repository}, {seen}?"
    if not typer.confirm(asked):
        raise Mistake("nothing was uploaded", Exit.FAILURE)


def _upload(api: HfApi, folder: Path, repository: str, message: str, *, public: bool) -> str:
    """The address of what was uploaded. Raises Mistake."""
    # HTTPError is that of the library's HTTP client, which changes with its version: it is there
    # to be caught, but not declared as an export, hence what mypy is told.
    from huggingface_hub.errors import HfHubHTTPError, HTTPError  # type: ignore[attr-defined]

    try:
        api.create_repo(repository, private=not public, exist_ok=True)
        commit = api.upload_folder(repo_id=repository, folder_path=folder, commit_message=message)
        return str(commit.commit_url)
    except HfHubHTTPError as error:
        raise Mistake(_refused(error, repository), Exit.FAILURE) from error
    except (HTTPError, ConnectionError, TimeoutError) as error:
        raise Mistake(
            f"{api.endpoint} cannot be reached ({_first_line(error)}); check the network and "
            "HF_ENDPOINT; what was uploaded already is not uploaded again",
            Exit.FAILURE,
        ) from error
    except (OSError, RuntimeError, ValueError) as error:
        raise Mistake(
            f"the upload failed: {_first_line(error)}; check HF_ENDPOINT, or give it again later",
            Exit.FAILURE,
        ) from error


def _refused(error: HfHubHTTPError, repository: str) -> str:
    status = error.response.status_code if error.response is not None else 0
    if status == 401:
        return "the hub does not know the token; renew HF_TOKEN, or run `hf auth login` again"
    if status == 403:
        return (
            f"the token may not write to {repository}; take a token with the right to write, and "
            "a name that is yours"
        )
    return f"the hub refused the upload ({status}): {_first_line(error)}"


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
