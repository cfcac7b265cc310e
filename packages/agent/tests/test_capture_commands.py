"""The commands that steer traffic: before and behind the library that reads command lines."""

from collections.abc import Sequence
from importlib.metadata import entry_points

import pytest
import typer

from mesh_agent import _capture
from mesh_agent.__main__ import EARLY
from mesh_agent_cli import EARLY_GROUP, main
from mesh_command_line import program_of
from mesh_traffic_capture import ISTIO_FLAGS


def test_python_m_has_the_early_commands_that_are_installed() -> None:
    assert {each.name: each.value for each in entry_points(group=EARLY_GROUP)} == EARLY


@pytest.mark.parametrize("name", ["iptables", "istio-iptables"])
def test_early_commands_end_with_istios_statuses(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, status in (
        (["--help"], 0),
        (["--no-such-flag"], 255),
        (["explain", "-p", "x", "--from", "uid=1", "--to", "10.0.0.1:80"], 1),
    ):
        with pytest.raises(SystemExit) as ended:
            main([name, *words], early=EARLY)
        assert ended.value.code == status
    assert "there is no flag --no-such-flag (see " in capsys.readouterr().err


def test_documents_and_help_have_all_flags(capsys: pytest.CaptureFixture[str]) -> None:
    app = typer.Typer(add_completion=False)
    app.callback()(lambda: None)
    for register in (
        _capture.register_iptables,
        _capture.register_istio_iptables,
        _capture.register_clean_iptables,
        _capture.register_istio_clean_iptables,
    ):
        register(app)
    cleaning, applying = program_of(app, name="mesh-agent").commands
    assert (cleaning.name, applying.name) == ("clean-iptables", "iptables")
    names = {name for each in applying.options for name in each.names}
    assert {f"--{flag.name}" for flag in ISTIO_FLAGS} < names
    assert {f"-{flag.short}" for flag in ISTIO_FLAGS if flag.short} < names
    assert applying.examples
    assert cleaning.examples
    for name in ("iptables", "istio-iptables", "clean-iptables", "istio-clean-iptables"):
        app([name, "--help"], standalone_mode=False)
        assert "Examples:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "passed"),
    [
        (
            ["iptables", "-p", "5", "-nb", "*", "--redirect-dns"],
            ["--envoy-port", "5", "--istio-inbound-ports", "*", "--dry-run", "--redirect-dns"],
        ),
        (
            ["iptables", "explain", "--to", "a", "--from", "b", "--json"],
            ["explain", "--from", "b", "--to", "a", "--json"],
        ),
    ],
)
def test_words_that_were_not_read_early_reach_the_command(
    words: list[str], passed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Sequence[str]] = []

    def note(given: Sequence[str], *, name: str) -> int:
        assert name == "mesh-agent iptables"
        calls.append(given)
        return 7

    monkeypatch.setattr(_capture, "iptables", note)
    app = typer.Typer(add_completion=False)
    app.callback()(lambda: None)
    _capture.register_iptables(app)
    assert app(words, standalone_mode=False) == 7
    assert sorted(calls[0]) == sorted(passed)
