"""The manual: one Markdown file, or a page of man(7) for the program and for each command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from mesh_command_line._errors import CommandError
from mesh_command_line.documents._command_tree import Command, Parameter, Program

EXIT_CODES = (
    ("0", "done; where the command judges something: all is well"),
    ("1", "failed, or the reader of the output has gone; all is not well"),
    ("2", "a wrong call: an unknown command or option, or a value that can't be"),
    ("130", "interrupted (Ctrl-C)"),
)


def write_pages(directory: Path, pages: Mapping[str, str]) -> tuple[Path, ...]:
    """Write pages by the names of their files; raises CommandError."""
    written = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in pages.items():
            (directory / name).write_text(text, encoding="utf-8")
            written.append(directory / name)
    except OSError as error:
        raise CommandError(f"cannot write to {directory}: {error.strerror}") from None
    return tuple(written)


def markdown(program: Program) -> str:
    """Return the whole manual."""
    lines = [f"# {program.name}", "", program.description, ""]
    for command in program.commands:
        lines += [f"## {program.name} {command.name}", "", command.description, ""]
        lines += ["```", f"{program.name} {command.name} {command.usage}".rstrip(), "```", ""]
        lines += _table(command)
        if command.examples:
            lines += ["```sh", *command.examples, "```", ""]
    lines += ["## Exit status", "", "| status | meaning |", "|---|---|"]
    lines += [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES]
    return "\n".join(lines) + "\n"


def _table(command: Command) -> Iterator[str]:
    if not command.parameters:
        return
    yield "| | |"
    yield "|---|---|"
    for each in command.parameters:
        yield f"| `{_signature(each)}` | {each.help} |"
    yield ""


def _signature(parameter: Parameter) -> str:
    names = ", ".join(parameter.names)
    return f"{names} {parameter.metavar}".strip().replace("|", "\\|")


def man_pages(program: Program) -> Mapping[str, str]:
    """Return the pages by their files' names."""
    pages = {f"{program.name}.1": _program_page(program)}
    for command in program.commands:
        pages[f"{program.name}-{command.name}.1"] = _command_page(program, command)
    return pages


def _program_page(program: Program) -> str:
    lines = [
        *_head(program.name, program.description),
        ".SH SYNOPSIS",
        f".B {_roff(program.name)}",
        r"\fICOMMAND\fR [\fIOPTIONS\fR]",
        ".SH COMMANDS",
    ]
    for command in program.commands:
        lines += [".TP", f".B {_roff(command.name)}", _roff(f"{command.summary}.")]
    lines += [".SH EXIT STATUS"]
    for code, meaning in EXIT_CODES:
        lines += [".TP", f".B {code}", _roff(meaning)]
    pages = (f"{program.name}-{each.name}" for each in program.commands)
    names = ", ".join(rf"\fB{_roff(page)}\fR(1)" for page in pages)
    return "\n".join([*lines, ".SH SEE ALSO", names]) + "\n"


def _command_page(program: Program, command: Command) -> str:
    lines = [
        *_head(f"{program.name}-{command.name}", command.summary),
        ".SH SYNOPSIS",
        f".B {_roff(program.name)} {_roff(command.name)}",
        _roff(command.usage),
        ".SH DESCRIPTION",
        _roff(command.description),
    ]
    for heading, parameters in (("ARGUMENTS", command.arguments), ("OPTIONS", command.options)):
        if parameters:
            lines.append(f".SH {heading}")
        for each in parameters:
            lines += [".TP", rf"\fB{_roff(', '.join(each.names))}\fR \fI{_roff(each.metavar)}\fR"]
            lines.append(_roff(each.help) or r"\&")
    if command.examples:
        lines += [".SH EXAMPLES", ".nf", *map(_roff, command.examples), ".fi"]
    return "\n".join([*lines, ".SH SEE ALSO", rf"\fB{_roff(program.name)}\fR(1)"]) + "\n"


def _head(name: str, summary: str) -> list[str]:
    said = summary[:1].lower() + summary[1:].rstrip(".")
    return [f".TH {_roff(name.upper())} 1", ".SH NAME", rf"{_roff(name)} \- {_roff(said)}"]


def _roff(text: str) -> str:
    """Return a text without what has a meaning in roff."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped
