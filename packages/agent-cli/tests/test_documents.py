"""Completion and the manual know the commands of other packages too."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from typing import Annotated

import pytest
import typer

from cli_fixtures import Call
from mesh_agent_cli import GROUP
from mesh_command_line import examples


def add_greet(app: typer.Typer) -> None:
    """A plugin, as another package would have it."""

    @app.command("greet", epilog=examples("mesh-agent greet you --times 2"))
    def greet(
        name: Annotated[str, typer.Argument(help="Whom to greet.")],
        *,
        times: Annotated[int, typer.Option(help="How often.")] = 1,
    ) -> None:
        """Say hello. To one at a time."""
        typer.echo(f"hello {name} {times}")


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> dict[str, EntryPoint]:
    monkeypatch.setitem(sys.modules, "greet_plugin", sys.modules[__name__])
    return {"greet": EntryPoint("greet", "greet_plugin:add_greet", GROUP)}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command(
    call: Call, plugins: dict[str, EntryPoint], shell: str
) -> None:
    called = call("completion", shell, plugins=plugins)
    assert (called.status, called.error) == (0, "")
    for word in ("status", "greet", "certs", "json", "times"):
        assert word in called.out


@pytest.mark.parametrize("name", ["docs", "collateral"])
def test_the_manual_has_every_command(
    call: Call, plugins: dict[str, EntryPoint], name: str
) -> None:
    called = call(name, plugins=plugins)
    assert called.status == 0
    for command in ("status", "wait", "greet", "docs"):
        assert f"\n## mesh-agent {command}\n" in called.out
    assert "```sh\nmesh-agent greet you --times 2\n```\n" in called.out
