"""Groups of commands that load what was typed and nothing else: help and completion stay light."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import typer
from typer.core import TyperGroup, TyperOption

if TYPE_CHECKING:
    # Typer ships the parser that it is made of; this is where its types are.
    from typer._click import Command, Context, HelpFormatter
    from typer._click.shell_completion import CompletionItem


@dataclass(frozen=True, slots=True)
class Entry:
    """A command that is not loaded yet."""

    place: str
    """Module and name, such as `swarmnode.cli.run:run`."""
    summary: str
    """The first line of its help, which a test compares."""


class LightGroup(TyperGroup):
    """A group whose own --help, where it is not given, needs no pydantic to be False."""

    def get_help_option(self, ctx: Context) -> TyperOption | None:
        """The option --help."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option


def group_of_commands(summary: str) -> typer.Typer:
    """A group whose help is shown where no command is named."""
    return typer.Typer(
        cls=LightGroup,
        add_completion=False,
        help=summary,
        callback=_help_alone,
        invoke_without_command=True,
        rich_markup_mode=None,
    )


def _help_alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


class _Loading(MutableMapping[str, "Command"]):
    """Commands by name, each loaded when it is first asked for."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = entries
        self._loaded: dict[str, Command] = {}

    def __getitem__(self, name: str) -> Command:
        if name not in self._loaded:
            self._loaded[name] = _load(name, self._entries[name])
        return self._loaded[name]

    def __setitem__(self, name: str, command: Command) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _load(name: str, entry: Entry) -> Command:
    module, _, attribute = entry.place.partition(":")
    found = getattr(import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        app = typer.Typer(
            add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
        )
        app.command(name)(found)
        found = app
    command = typer.main.get_command(found)
    command.name = name
    return command


class LazyGroup(LightGroup):
    """A group of ENTRIES, which a subclass has."""

    ENTRIES: ClassVar[Mapping[str, Entry]]

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Loading(self.ENTRIES)

    def list_commands(self, ctx: Context) -> list[str]:
        """All names, in order."""
        return list(self.ENTRIES)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write names and summaries."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.ENTRIES.items()])

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        """Names that begin so, with their summaries, and options."""
        from typer._click.shell_completion import CompletionItem

        return [
            CompletionItem(name, help=entry.summary)
            for name, entry in self.ENTRIES.items()
            if name.startswith(incomplete)
        ] + [
            CompletionItem(name)
            for option in self.get_params(ctx)
            for name in option.opts
            if incomplete.startswith("-") and name.startswith(incomplete)
        ]
