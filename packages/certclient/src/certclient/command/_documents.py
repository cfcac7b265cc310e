"""`certclient completion` and `docs`: what is generated from the command's own parser."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from mesh_command_line import (
    Shell,
    collateral,
    completion_script,
    program_of_parser,
    write_pages,
)

COMPLETION = "completion"
DOCS = "docs"
SUMMARIES = {
    COMPLETION: "print a script that completes the command in a shell",
    DOCS: "make the manual, and completion for shells",
}
EXAMPLES = {
    COMPLETION: "  source <(certclient completion bash)\n",
    DOCS: "  certclient docs --man --output-dir ~/.local/share/man/man1\n",
}


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `completion`."""
    shells = [str(each) for each in Shell]
    parser.add_argument("shell", choices=shells, help="the shell that is to complete")


def add_docs(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `docs`."""
    parser.add_argument("--man", action="store_true", help="pages for man")
    parser.add_argument("--markdown", action="store_true", help="one Markdown file")
    for shell in Shell:
        parser.add_argument(f"--{shell}", action="store_true", help=f"completion for {shell}")
    parser.add_argument("--all", action="store_true", help="all of these")
    parser.add_argument(
        "-o", "--output-dir", type=Path, metavar="DIRECTORY", help="write files there; else print"
    )


def print_documents(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Print or write what is asked for; raises CommandError if it cannot be written."""
    program = program_of_parser(parser)
    if options.command == COMPLETION:
        _print(completion_script(program, Shell(options.shell)))
        return
    pages = collateral(
        program,
        man=options.man or options.all,
        markdown=options.markdown or options.all or not (options.man or _shells(options)),
        shells=_shells(options),
    )
    if options.output_dir is None:
        _print("\n".join(pages.values()))
        return
    _print("".join(f"{path}\n" for path in write_pages(options.output_dir, pages)))


def _shells(options: argparse.Namespace) -> Sequence[Shell]:
    return [shell for shell in Shell if options.all or getattr(options, str(shell))]


def _print(text: str) -> None:
    print(text, end="")  # noqa: T201 - what a command does
