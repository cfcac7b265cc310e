"""The command as a whole: version, wrong calls, plugins, and what importing it costs."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import EntryPoint, distribution
from typing import Annotated

import pytest
import typer
import yaml

from cli_fixtures import Call, Serve
from mesh_agent_cli import GROUP, CliError


def add_greeting(app: typer.Typer) -> None:
    """A plugin, as another package would have it."""

    @app.command("greet", context_settings={"ignore_unknown_options": True})
    def greet(words: Annotated[list[str] | None, typer.Argument()] = None) -> None:
        if words == ["stranger"]:
            raise CliError("a stranger is not greeted", exit_code=3)
        if words == ["exit"]:
            raise typer.Exit(4)
        typer.echo(f"hello {words}")


def add_then_fail(app: typer.Typer) -> None:
    app.command("half")(lambda: None)
    raise RuntimeError("no\nluck")


def _plugins(**values: str) -> dict[str, EntryPoint]:
    return {name: EntryPoint(name, value, GROUP) for name, value in values.items()}


@pytest.fixture
def greeting(monkeypatch: pytest.MonkeyPatch) -> dict[str, EntryPoint]:
    monkeypatch.setitem(sys.modules, "greeting_plugin", sys.modules[__name__])
    return _plugins(
        greet="greeting_plugin:add_greeting",
        half="greeting_plugin:add_then_fail",
        gone="package_that_is_not_there:add",
    )


def test_version_in_every_form(call: Call) -> None:
    plain, short = call("version"), call("version", "--short")
    as_json = json.loads(call("version", "-o", "json").out)
    assert as_json == yaml.safe_load(call("version", "-o", "yaml").out)
    assert short.out.strip() == as_json["clientVersion"]["version"]
    assert as_json["clientVersion"]["version"] in plain.out


def test_the_flag_shows_name_and_version(call: Call) -> None:
    assert call("--version").out == f"mesh-agent {call('version', '--short').out}"


def installed_commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of all commands, those of installed packages too, in 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = subprocess.run(
        [sys.executable, "-m", "mesh_agent_cli", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    return shown.stdout.partition("Commands:\n")[2].splitlines()


def test_each_commands_summary_is_a_sentence_that_fits_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = installed_commands(monkeypatch)
    assert len(lines) >= 8
    assert [line for line in lines if not line.endswith(".") or line.endswith("...")] == []


def test_the_help_of_each_command_has_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    for line in installed_commands(monkeypatch):
        name = line.split()[0]
        shown = subprocess.run(
            [sys.executable, "-m", "mesh_agent_cli", name, "--help"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert (
            f"\n  Examples:\n    {'source <(' if name == 'completion' else ''}mesh-agent {name}"
            in shown
        )


@pytest.mark.parametrize("words", [("status",), ("certs",), ("dns", "web")])
def test_json_is_asked_for_in_either_way(call: Call, serve: Serve, words: tuple[str, ...]) -> None:
    with serve((200, b'{"ready": true, "envoy": {"admin": "unix:x"}}')) as agent:
        where = ("--address", "127.0.0.1", "--port", str(agent.port))
        long, short = call(*words, *where, "--json"), call(*words, *where, "-o", "json")
    assert long == short
    assert json.loads(long.out)
    wrong = call(*words, *where, "-o", "xml")
    assert (wrong.status, wrong.out) == (2, "")


def test_no_arguments_show_the_commands(call: Call) -> None:
    called = call()
    assert called.status == 0
    for command in ("wait", "version", "request", "status"):
        assert command in called.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("bogus",), "No such command 'bogus' (see mesh-agent --help)"),
        (("wait", "--nope"), "No such option: --nope (see mesh-agent wait --help)"),
        (("--nope",), "No such option: --nope (see mesh-agent --help)"),
        (("request", "GET"), "(see mesh-agent request --help)"),
        (("version", "-o", "xml"), "'--output' / '-o': 'xml' is not one of yaml, json (see"),
        (("status", "-o", "yaml"), "'--output' / '-o': 'yaml' is not one of json (see"),
        (("completion", "tcsh"), "'shell': 'tcsh' is not one of bash, zsh, fish (see"),
        (("wait", "--periodMillis", "0"), "(see mesh-agent wait --help)"),
    ],
)
def test_a_wrong_call_is_one_sentence(call: Call, words: tuple[str, ...], sentence: str) -> None:
    called = call(*words)
    assert called.status == 2
    assert called.out == ""
    assert called.error.startswith("mesh-agent: ")
    assert sentence in called.error
    assert called.error.count("\n") == 1


def test_a_plugins_command_runs_with_its_own_flags_and_errors(
    call: Call, greeting: dict[str, EntryPoint]
) -> None:
    called = call("greet", "you", "--unknown", plugins=greeting)
    assert (called.status, called.out) == (0, "hello ['you', '--unknown']\n")
    called = call("greet", "stranger", plugins=greeting)
    assert (called.status, called.error) == (3, "mesh-agent: a stranger is not greeted\n")
    assert call("greet", "exit", plugins=greeting).status == 4


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gone", "ModuleNotFoundError: No module named 'package_that_is_not_there'"),
        ("half", "RuntimeError: no luck"),
    ],
)
def test_a_bad_plugin_is_one_sentence(
    call: Call, greeting: dict[str, EntryPoint], name: str, reason: str
) -> None:
    called = call(name, "--any", "flag", plugins=greeting)
    assert called.status == 1
    assert f"command '{name}' from an unknown package cannot be loaded" in called.error
    assert reason in called.error
    assert called.error.count("\n") == 1


def test_a_bad_plugin_harms_no_other_command(call: Call, greeting: dict[str, EntryPoint]) -> None:
    assert call("version", plugins=greeting).status == 0
    shown = call("--help", plugins=greeting)
    assert shown.status == 0
    assert "greet" in shown.out
    assert "Unavailable" in shown.out


def test_importing_the_package_loads_nothing_heavy() -> None:
    """The rule behind the import budget: the time varies, what is loaded does not."""
    script = "import sys, mesh_agent_cli; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(result.stdout.split())
    assert "mesh_agent_cli._main" in loaded
    assert not loaded & {"typer", "asyncio", "http.client", "grpc", "ssl", "rich", "pydantic"}


def test_the_command_has_istios_name_too() -> None:
    scripts = distribution("mesh-agent-cli").entry_points.select(group="console_scripts")
    assert {each.name: each.value for each in scripts} == {
        "mesh-agent": "mesh_agent_cli:main",
        "pilot-agent": "mesh_agent_cli:main",
    }


def test_the_module_runs_as_a_program() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "mesh_agent_cli", "bogus"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert result.stderr == "mesh-agent: No such command 'bogus' (see mesh-agent --help)\n"
