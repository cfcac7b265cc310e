"""Completion and the manual, of commands written with typer and of such written with argparse."""

from __future__ import annotations

import argparse
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer

from mesh_command_line import (
    Shell,
    completion_script,
    examples,
    man_pages,
    markdown,
    program_of_parser,
)
from mesh_command_line.typer_application import add_documents, application, run


def greeter() -> typer.Typer:
    app = application("greeter", about="Greets people.", version=lambda: "1.2")
    add_documents(app, name="greeter")

    @app.command("greet", epilog=examples("greeter greet you", "greeter greet me --times 2"))
    def greet(
        name: Annotated[str, typer.Argument(help="Its name: 'quoted', \\ and [bracketed].")],
        *,
        loudly: Annotated[bool, typer.Option("--loudly/--softly", help="How.")] = False,
        times: Annotated[int, typer.Option(help="How often.")] = 1,
    ) -> None:
        """Say hello. To one at a time."""
        typer.echo(f"hello {name} {loudly} {times}")

    @app.command(epilog=examples("greeter farewell -o json"))
    def farewell(
        output: Annotated[Shell | None, typer.Option("--output", "-o", help="How.")] = None,
    ) -> None:
        """Say goodbye."""
        raise OSError(output)

    return app


@dataclass(frozen=True, slots=True)
class Called:
    status: int
    out: str
    error: str


Call = Callable[..., Called]


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Call:
    def called(*words: str) -> Called:
        status = run(greeter(), words, name="greeter")
        output = capfd.readouterr()
        return Called(status, output.out, output.err)

    return called


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command(call: Call, shell: str, tmp_path: Path) -> None:
    called = call("completion", shell)
    assert (called.status, called.error) == (0, "")
    for word in ("farewell", "greet", "softly", "times"):
        assert word in called.out
    for hidden in ("-a collateral", "collateral:", "collateral)"):
        assert hidden not in called.out
    if shutil.which(shell):
        (tmp_path / "script").write_text(called.out)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)


def completed(script: Path, *words: str) -> set[str]:
    """Complete the last word in a real bash."""
    shown = " ".join(f"'{word}'" for word in ("greeter", *words))
    program = (
        f"source {script}; COMP_WORDS=({shown}); COMP_CWORD={len(words)}; _greeter; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    result = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stderr == ""
    return set(result.stdout.split())


def test_bash_completes(call: Call, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(call("completion", "bash").out)
    assert completed(script, "far") == {"farewell"}
    assert completed(script, "gr") == {"greet"}
    assert completed(script, "greet", "--") == {"--loudly", "--softly", "--times", "--help"}
    assert completed(script, "greet", "") == set()  # files, by the shell's default
    assert completed(script, "completion", "") == {"bash", "zsh", "fish", "--help"}
    assert completed(script, "farewell", "-o", "") == {"bash", "zsh", "fish"}
    assert completed(script, "--version", "gre") == {"greet"}


def test_another_shell_is_a_wrong_call(call: Call) -> None:
    called = call("completion", "powershell")
    assert called.status == 2
    assert "is not one of bash, zsh, fish" in called.error


def test_docs_prints_the_manual(call: Call) -> None:
    called = call("docs")
    assert called.status == 0
    assert called.out.startswith("# greeter\n")
    assert "## greeter greet\n\nSay hello. To one at a time.\n" in called.out
    assert "greeter greet [OPTIONS] NAME\n" in called.out
    assert "| `--loudly, --softly` | How. |" in called.out
    assert "| 130 | interrupted (Ctrl-C) |" in called.out
    assert "```sh\ngreeter greet you\ngreeter greet me --times 2\n```\n" in called.out


@pytest.mark.parametrize("words", [("docs", "--output-dir"), ("collateral", "--outputDir")])
def test_all_documents_are_written(call: Call, tmp_path: Path, words: tuple[str, ...]) -> None:
    called = call(*words, str(tmp_path / "new" / "docs"), "--all")
    assert (called.status, called.error) == (0, "")
    names = {path.name for path in (tmp_path / "new" / "docs").iterdir()}
    assert names >= {
        "greeter.md",
        "greeter.1",
        "greeter-greet.1",
        "greeter-farewell.1",
        "greeter.bash",
        "_greeter",
        "greeter.fish",
    }
    assert {Path(line).name for line in called.out.splitlines()} == names


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff")
def test_the_pages_are_good_roff(call: Call, tmp_path: Path) -> None:
    call("docs", "-o", str(tmp_path), "--man")
    for page in tmp_path.iterdir():
        result = subprocess.run(
            ["groff", "-man", "-ww", "-Tutf8", str(page)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert result.stderr == ""
    shown = subprocess.run(
        ["groff", "-man", "-Tutf8", "-P-cbou", str(tmp_path / "greeter-greet.1")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "'quoted', \\ and [bracketed]." in shown
    assert "EXAMPLES\n       greeter greet you\n       greeter greet me --times 2\n" in shown


def test_a_directory_that_cannot_be_created_is_one_sentence(call: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    called = call("docs", "-o", str(tmp_path / "file" / "below"))
    assert (called.status, called.out) == (1, "")
    assert "cannot write to" in called.error


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="greeter", description="Greets people.")
    commands = whole.add_subparsers()
    greet = commands.add_parser(
        "greet",
        description="Say hello. To one at a time.",
        epilog="Examples:\n  greeter greet you \\\n      --times 2\n\nexit codes:\n  0  done",
    )
    greet.add_argument("name", help="whom to greet")
    greet.add_argument("--loudly", action="store_true", help="how")
    greet.add_argument("--times", metavar="NUMBER", help="how often")
    greet.add_argument("--form", choices=("json",))
    greet.add_argument("--secret", help=argparse.SUPPRESS)
    return whole


def test_a_parser_of_argparse_has_the_same_documents(tmp_path: Path) -> None:
    program = program_of_parser(parser())
    (greet,) = program.commands
    assert (greet.summary, greet.usage) == ("Say hello", "[OPTIONS] NAME")
    assert greet.examples == ("greeter greet you \\", "    --times 2")
    assert [each.names for each in greet.options] == [("--loudly",), ("--times",), ("--form",)]
    assert [each.metavar for each in greet.options] == ["", "NUMBER", "json"]
    script = tmp_path / "script"
    script.write_text(completion_script(program, Shell.BASH))
    assert completed(script, "greet", "--t") == {"--times"}
    assert completed(script, "greet", "--form", "") == {"json"}
    assert sorted(man_pages(program)) == ["greeter-greet.1", "greeter.1"]
    assert "| `--times NUMBER` | how often |" in markdown(program)
