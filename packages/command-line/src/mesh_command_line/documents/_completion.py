"""Scripts that complete the command in a shell. They run nothing: all names are in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType

from mesh_command_line.documents._command_tree import Command, Parameter, Program


class Shell(StrEnum):
    """The shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion_script(program: Program, shell: Shell) -> str:
    """Return the script for a shell."""
    return "\n".join(_SCRIPTS[shell](program)) + "\n"


def _function(program: Program) -> str:
    return f"_{program.name.replace('-', '_')}"


def _words(command: Command) -> list[str]:
    names = [name for each in command.options for name in each.names]
    return [*(choice for each in command.arguments for choice in each.choices), *names, "--help"]


def _bash(program: Program) -> Iterator[str]:
    function = _function(program)
    yield f"# bash completion of {program.name}"
    yield f"{function}() {{"
    yield '    local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"'
    yield '    local command="" words="" i'
    yield "    for ((i = 1; i < COMP_CWORD; i++)); do"
    yield '        case "${COMP_WORDS[i]}" in'
    yield "            -*) ;;"
    yield '            *) command="${COMP_WORDS[i]}"; break ;;'
    yield "        esac"
    yield "    done"
    yield '    case "$command $before" in'
    for command in program.commands:
        for each in command.options:
            if each.choices:
                places = "|".join(f'"{command.name} {name}"' for name in each.names)
                yield f'        {places}) words="{" ".join(each.choices)}" ;;'
    yield '        *) case "$command" in'
    names = " ".join(command.name for command in program.commands)
    yield f'            "") words="{names} --help" ;;'
    for command in program.commands:
        yield f'            {command.name}) words="{" ".join(_words(command))}" ;;'
    yield "        esac ;;"
    yield "    esac"
    # Where only options are left, bash would insert their common `--` instead of offering files.
    yield '    if [[ -z $current && $words != [^-]* ]]; then words=""; fi'
    yield '    COMPREPLY=($(compgen -W "$words" -- "$current"))'
    yield "}"
    yield f"complete -o default -F {function} {program.name}"


def _zsh(program: Program) -> Iterator[str]:
    function = _function(program)
    yield f"#compdef {program.name}"
    yield f"{function}() {{"
    yield "    local context state line"
    yield "    local -a commands"
    yield "    commands=("
    for command in program.commands:
        yield f"        {_quoted(f'{command.name}:{command.summary}')}"
    yield "    )"
    yield "    _arguments -C '1: :->command' '*:: :->rest'"
    yield '    case "$state" in'
    yield f"        command) _describe {_quoted(program.name)} commands ;;"
    yield '        rest) case "$line[1]" in'
    for command in program.commands:
        yield f"            {command.name}) _arguments \\"
        for each in command.options:
            for name in each.names:
                yield f"                {_quoted(_zsh_option(name, each))} \\"
        for each in command.arguments:
            values = f"({' '.join(each.choices)})" if each.choices else "_default"
            yield f"                {_quoted(f'::{_zsh_text(each.metavar)}:{values}')} \\"
        yield "                '--help[Show the help]' ;;"
    yield "        esac ;;"
    yield "    esac"
    yield "}"
    yield f'if [ "$funcstack[1]" = "{function}" ]; then {function} "$@"; else'
    yield f"    compdef {function} {program.name}"
    yield "fi"


def _zsh_option(name: str, option: Parameter) -> str:
    said = f"{name}[{_zsh_text(option.help)}]"
    if not option.metavar:
        return said
    values = f"({' '.join(option.choices)})" if option.choices else "_default"
    return f"{said}:{_zsh_text(option.metavar)}:{values}"


def _zsh_text(text: str) -> str:
    """Return a text without what has a meaning in the specifications of _arguments."""
    for sign in "[]:":
        text = text.replace(sign, f"\\{sign}")
    return text


def _fish(program: Program) -> Iterator[str]:
    name = program.name
    yield f"# fish completion of {name}"
    for command in program.commands:
        description = f"-d {_quoted(command.summary)}"
        yield f"complete -c {name} -n __fish_use_subcommand -f -a {command.name} {description}"
    for command in program.commands:
        seen = f"-n {_quoted(f'__fish_seen_subcommand_from {command.name}')}"
        for each in command.options:
            flags = " ".join(_fish_flag(flag) for flag in each.names)
            value = f" -x -a {_quoted(' '.join(each.choices))}" if each.choices else ""
            value = value or (" -r" if each.metavar else "")
            yield f"complete -c {name} {seen} {flags}{value} -d {_quoted(each.help)}"
        choices = [choice for each in command.arguments for choice in each.choices]
        if choices:
            yield f"complete -c {name} {seen} -f -a {_quoted(' '.join(choices))}"


def _fish_flag(flag: str) -> str:
    return f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"


def _quoted(text: str) -> str:
    """Quote a text for a shell; fish, too, takes this form of a quote in quotes."""
    return "'" + text.replace("'", "'\\''") + "'"


_SCRIPTS: Mapping[Shell, Callable[[Program], Iterator[str]]] = MappingProxyType(
    {Shell.BASH: _bash, Shell.ZSH: _zsh, Shell.FISH: _fish}
)
