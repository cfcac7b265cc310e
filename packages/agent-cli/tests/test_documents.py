"""Completion and the manual: made from the commands, those of other packages too."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Annotated

import pytest
import typer

from cli_fixtures import Call
from mesh_agent_cli import GROUP, examples


def add_greet(app: typer.Typer) -> None:
    """A plugin, as another package would have it."""

    @app.command("greet", epilog=examples("mesh-agent greet you", "mesh-agent greet me --times 2"))
    def greet(
        name: Annotated[str, typer.Argument(help="Its name: 'quoted', \\ and [bracketed].")],
        *,
        loudly: Annotated[bool, typer.Option("--loudly/--softly", help="How.")] = False,
        times: Annotated[int, typer.Option(help="How often.")] = 1,
    ) -> None:
        """Say hello. To one at a time."""
        typer.echo(f"hello {name} {loudly} {times}")


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> dict[str, EntryPoint]:
    monkeypatch.setitem(sys.modules, "greet_plugin", sys.modules[__name__])
    return {"greet": EntryPoint("greet", "greet_plugin:add_greet", GROUP)}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command(
    call: Call, plugins: dict[str, EntryPoint], shell: str, tmp_path: Path
) -> None:
    called = call("completion", shell, plugins=plugins)
    assert (called.status, called.error) == (0, "")
    for word in ("status", "greet", "certs", "json", "softly", "times"):
        assert word in called.out
    for hidden in ("-a collateral", "collateral:", "collateral)"):
        assert hidden not in called.out
    if shutil.which(shell):
        (tmp_path / "script").write_text(called.out)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)


def completed(script: Path, *words: str) -> set[str]:
    """Complete the last word in a real bash."""
    shown = " ".join(f"'{word}'" for word in ("mesh-agent", *words))
    program = (
        f"source {script}; COMP_WORDS=({shown}); COMP_CWORD={len(words)}; _mesh_agent; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    result = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stderr == ""
    return set(result.stdout.split())


def test_bash_completes(call: Call, plugins: dict[str, EntryPoint], tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(call("completion", "bash", plugins=plugins).out)
    assert completed(script, "sta") == {"status"}
    assert completed(script, "gr") == {"greet"}
    assert completed(script, "greet", "--") == {"--loudly", "--softly", "--times", "--help"}
    assert completed(script, "completion", "") == {"bash", "zsh", "fish", "--help"}
    assert completed(script, "version", "-o", "") == {"json", "yaml"}
    assert completed(script, "--log_as_json", "wai") == {"wait"}


def test_another_shell_is_a_wrong_call(call: Call) -> None:
    called = call("completion", "powershell")
    assert called.status == 2
    assert "'bash', 'zsh', 'fish'" in called.error


def test_docs_prints_the_manual(call: Call, plugins: dict[str, EntryPoint]) -> None:
    called = call("docs", plugins=plugins)
    assert called.status == 0
    assert called.out.startswith("# mesh-agent\n")
    assert "## mesh-agent greet\n\nSay hello. To one at a time.\n" in called.out
    assert "mesh-agent greet [OPTIONS] NAME\n" in called.out
    assert "| `--loudly, --softly` | How. |" in called.out
    assert "| 130 | interrupted (Ctrl-C) |" in called.out
    assert "```sh\nmesh-agent greet you\nmesh-agent greet me --times 2\n```\n" in called.out


@pytest.mark.parametrize("words", [("docs", "--output-dir"), ("collateral", "--outputDir")])
def test_all_documents_are_written(
    call: Call, plugins: dict[str, EntryPoint], tmp_path: Path, words: tuple[str, ...]
) -> None:
    called = call(*words, str(tmp_path / "new" / "docs"), "--all", plugins=plugins)
    assert (called.status, called.error) == (0, "")
    names = {path.name for path in (tmp_path / "new" / "docs").iterdir()}
    assert names >= {
        "mesh-agent.md",
        "mesh-agent.1",
        "mesh-agent-greet.1",
        "mesh-agent-status.1",
        "mesh-agent.bash",
        "_mesh-agent",
        "mesh-agent.fish",
    }
    assert {Path(line).name for line in called.out.splitlines()} == names


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff")
def test_the_pages_are_good_roff(
    call: Call, plugins: dict[str, EntryPoint], tmp_path: Path
) -> None:
    call("docs", "-o", str(tmp_path), "--man", plugins=plugins)
    for page in tmp_path.iterdir():
        result = subprocess.run(
            ["groff", "-man", "-ww", "-Tutf8", str(page)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert result.stderr == ""
    shown = subprocess.run(
        ["groff", "-man", "-Tutf8", "-P-cbou", str(tmp_path / "mesh-agent-greet.1")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "'quoted', \\ and [bracketed]." in shown
    assert "EXAMPLES\n       mesh-agent greet you\n       mesh-agent greet me --times 2\n" in shown


def test_a_directory_that_cannot_be_made_is_one_sentence(call: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    called = call("docs", "-o", str(tmp_path / "file" / "below"))
    assert (called.status, called.out) == (1, "")
    assert "cannot write to" in called.error
