"""Commands written with typer: what all of them have, and how they are run."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from mesh_command_line._examples import examples
from mesh_command_line._running import exit_status
from mesh_command_line.documents._collateral import collateral
from mesh_command_line.documents._completion import Shell, completion_script
from mesh_command_line.documents._manual import write_pages
from mesh_command_line.documents._of_typer import program_of


def application(name: str, *, about: str, version: Callable[[], str]) -> typer.Typer:
    """Return a command without subcommands yet, which has `--version`.

    about: one sentence. version: looked up only when it is asked for, as that may be slow.
    """
    app = typer.Typer(
        name=name,
        help=about,
        # Its own completion runs the whole command at each press of the key.
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # it would take [env NAME] in a help text for its own
    )

    def show_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
        if wanted:
            typer.echo(f"{name} {version()}")
            raise typer.Exit

    @app.callback()
    def root(
        *,
        version: Annotated[
            bool,
            typer.Option(
                "--version", callback=show_version, is_eager=True, help="Show the version and exit."
            ),
        ] = False,
    ) -> None:
        """Without a callback, typer would make a lone command the whole application."""

    return app


def add_documents(app: typer.Typer, *, name: str) -> None:
    """Add `completion` and `docs`, which tell of all commands that the application has when run."""

    @app.command(
        "completion",
        epilog=examples(
            f"source <({name} completion bash)",
            f"{name} completion fish > ~/.config/fish/completions/{name}.fish",
        ),
    )
    def completion(
        shell: Annotated[Shell, typer.Argument(help="The shell that is to complete.")],
    ) -> None:
        """Print a script that completes the command in a shell."""
        typer.echo(completion_script(program_of(app, name=name), shell), nl=False)

    def docs(
        *,
        output_dir: Annotated[
            Path | None,
            typer.Option(
                "--output-dir", "-o", "--outputDir", help="Write files there.  [default: print]"
            ),
        ] = None,
        man: Annotated[bool, typer.Option("--man", help="Pages for man.")] = False,
        markdown: Annotated[bool, typer.Option("--markdown", help="One Markdown file.")] = False,
        bash: Annotated[bool, typer.Option("--bash", help="Completion for bash.")] = False,
        zsh: Annotated[bool, typer.Option("--zsh", help="Completion for zsh.")] = False,
        fish: Annotated[bool, typer.Option("--fish", help="Completion for fish.")] = False,
        everything: Annotated[bool, typer.Option("--all", help="All of these.")] = False,
    ) -> None:
        """Make the manual, and completion for shells."""
        shells = [
            shell
            for shell, given in ((Shell.BASH, bash), (Shell.ZSH, zsh), (Shell.FISH, fish))
            if given or everything
        ]
        pages = collateral(
            program_of(app, name=name),
            man=man or everything,
            markdown=markdown or everything or not (man or shells),
            shells=shells,
        )
        if output_dir is None:
            typer.echo("\n".join(pages.values()), nl=False)
            return
        for path in write_pages(output_dir, pages):
            typer.echo(path)

    app.command(
        "docs",
        epilog=examples(
            f"{name} docs --man --output-dir ~/.local/share/man/man1",
            f"{name} docs --markdown > {name}.md",
        ),
    )(docs)
    # Istio's name of it.
    app.command("collateral", hidden=True)(docs)


def run(app: typer.Typer, arguments: Sequence[str], *, name: str) -> int:
    """Run the application and return its exit status: 0, 1 for a failure, 2 for a wrong call.

    arguments: without the program's name; if there are none, the help is shown.
    """
    given = list(arguments) or ["--help"]
    return exit_status(
        lambda: app(given, prog_name=name, standalone_mode=False),
        name=name,
        wrong_call=lambda error: _wrong_call(error, name),
    )


def _wrong_call(error: Exception, name: str) -> str | None:
    # Every error of a wrong call has the parent that BadParameter has; typer exports no name of it.
    if not isinstance(error, (typer.Abort, *typer.BadParameter.__bases__)):
        return None
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else name
    describe = getattr(error, "format_message", None)
    said = " ".join((describe() if describe is not None else "aborted").split())
    return f"{_plain(said).rstrip('.')} (see {path} --help)"


_CHOICES = re.compile(r"(?<= is not one of )'[^']*'(?:, '[^']*')*")


def _plain(said: str) -> str:
    """Return a message of typer without what it has of the library that checks values."""
    said = said.replace(": Value error, ", ": ", 1)
    return _CHOICES.sub(lambda found: found[0].replace("'", ""), said)
