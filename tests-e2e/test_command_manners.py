"""All commands have one manner, each tried as a process of its own.

A command is whatever a package names under `[project.scripts]`, a subcommand whatever its manual
has, so that a new one is held to the same without a word here.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest

import manual

ROOT = Path(__file__).parents[1]
TELLS_NOTHING_A_PROGRAM_READS = {
    "completion",
    "demo",
    "discovery",
    "docs",
    "down",
    "exec",
    "init",
    "logs",
    "proxy",
    "replace-root",
    "mesh-agent request",
    "revoke",
    "token",
    "up",
    "wait",
}
"""Subcommands, of all commands or of one, without `-o json`: they run, change or write
something, or pass an answer on.
"""

IMPOSSIBLE_VALUE = ("--concurrency", "many")
TAKES_UNKNOWN_FLAGS = {"config", "doctor", "proxy"}
"""Injection templates outlive the agents they were written for, so that an agent takes flags that
it does not know, and its log names them."""


def distributions() -> Iterator[tuple[str, str]]:
    """The commands, without other names of the same, and the distribution of each."""
    for folder, scripts in manual.projects():
        name = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["name"]
        for script in {value: script for script, value in reversed(scripts.items())}.values():
            yield script, name


COMMANDS = dict(distributions())
ISTIOS_PROGRAMS = {
    name: COMMANDS.pop(name) for name in sorted(COMMANDS) if name.startswith("istio-")
}
"""Programs in the place of Istio's: without subcommands, with its flags and its exit statuses."""

WRONG_CALL = {"iptables": 255, "clean-iptables": 255}
"""The exit status of a wrong call, if it is not 2, by subcommand: Istio's too."""


_INTERRUPT_AT_IMPORT = """\
import os, signal, sys

# What is started in the background is born with it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
"""


def started(*words: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    environment.pop("PYTHONUNBUFFERED", None)  # users do without
    return subprocess.run(
        [Path(sys.executable).with_name(words[0]), *words[1:]],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        check=False,
    )


@cache
def manual_of(name: str) -> str:
    done = started(name, "docs")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def subcommands(name: str) -> list[str]:
    return re.findall(rf"^## {name} (\S+)$", manual_of(name), re.MULTILINE)


@cache
def help_of(*words: str) -> str:
    done = started(*words, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def each() -> list[tuple[str, str]]:
    return [(name, one) for name in COMMANDS for one in subcommands(name)]


every_command = pytest.mark.parametrize("name", COMMANDS)
every_program = pytest.mark.parametrize("name", [*COMMANDS, *ISTIOS_PROGRAMS])


def test_the_commands_are_found() -> None:
    assert {"certclient", "mesh-agent", "mesh-discovery", "mesh-local"} <= COMMANDS.keys()
    assert len(each()) >= 25


@every_program
def test_the_version_is_shown(name: str) -> None:
    done = started(name, "--version")
    numbers = {version((COMMANDS | ISTIOS_PROGRAMS)[name]), version("mesh-agent")}
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout in {f"{name} {number}\n" for number in numbers}


@every_command
def test_without_arguments_the_help_is_shown(name: str) -> None:
    done = started(name)
    assert (done.returncode, done.stdout, done.stderr) == (0, help_of(name), "")


@every_command
def test_a_summary_of_each_subcommand_fits_its_line(name: str) -> None:
    lines = help_of(name).splitlines()
    assert [line for line in lines if len(line) > 80] == []
    for one in subcommands(name):
        (shown,) = (line for line in lines if re.match(rf" +{one} +\w", line))
        assert not shown.endswith("...")
        said = shown.split(maxsplit=1)[1].rstrip(".")
        (below,) = re.findall(rf"^## {name} {one}\n\n(.*)", manual_of(name), re.MULTILINE)
        assert below.lower().startswith(said.lower())


def calls(text: str) -> list[list[str]]:
    """The calls in a command's examples, as a shell would make them."""
    _, _, below = text.replace("\\\n", " ").partition("Examples:\n")
    indent = re.match(" *", below)
    assert indent is not None
    lines = re.findall(rf"^{indent[0]}(\S.*)", below.partition("\n\n")[0], re.MULTILINE)
    words = (re.sub(r"^source <\((.*)\)$", r"\1", line) for line in lines)
    return [shlex.split(re.split(r" [|>] ", line)[0]) for line in words]


@every_command
def test_the_help_of_each_subcommand_has_examples_that_parse(name: str) -> None:
    for one in subcommands(name):
        found = calls(help_of(name, one))
        assert found, f"{name} {one} --help has no example"
        for words in found:
            # A call before this one may be part of the example: `cp x y && NAME wait && curl z`.
            for call in " ".join(map(shlex.quote, words)).split(" '&&' "):
                parts = shlex.split(call)
                if parts[0] != name:
                    continue
                assert parts[1] == one
                # Not at the end, which may be another command's.
                done = started(*parts[:2], "--help", *parts[2:])
                assert (done.returncode, done.stderr) == (0, ""), call


@every_command
def test_a_wrong_call_is_one_sentence(name: str) -> None:
    wrong: list[tuple[str, ...]] = [(name, "--nope"), (name, "no-such-command")]
    for one in subcommands(name):
        takes_any = name == "mesh-agent" and one in TAKES_UNKNOWN_FLAGS
        wrong.append((name, one, *(IMPOSSIBLE_VALUE if takes_any else ("--nope",))))
    for words in wrong:
        done = started(*words)
        assert (done.returncode, done.stdout) == (WRONG_CALL.get(words[1], 2), ""), words
        assert re.fullmatch(rf"{name}: .*\(see {name}( \S+)? --help\)\n", done.stderr), words


@pytest.mark.parametrize("name", ISTIOS_PROGRAMS)
def test_an_istio_program_has_examples_that_parse_and_tells_a_wrong_call(name: str) -> None:
    found = calls(help_of(name))
    assert found
    for words in [[name], *found]:
        assert words[0] == name
        # All mistakes are told at once, so that this is the only one there.
        done = started(*words, "--nope")
        assert (done.returncode, done.stdout) == (255, "")
        assert re.fullmatch(rf"{name}: .*--nope.*\(see {name} --help\)\n", done.stderr), words


@pytest.mark.parametrize(
    ("words", "loaded"),
    [
        (f"{module} version", loaded)
        for module in ("mesh_local", "mesh_discovery", "mesh_agent_cli", "mesh_agent")
        for loaded in ("typer", "mesh_command_line", "mesh_command_line.typer_application")
    ]
    + [("mesh_agent proxy sidecar", loaded) for loaded in ("msgspec", "uvloop", "certclient")]
    + [("certclient get", loaded) for loaded in ("mesh_identity", "msgspec", "asyncio", "grpc")],
)
def test_ctrl_c_while_modules_are_loaded_is_no_traceback(
    words: str, loaded: str, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(_INTERRUPT_AT_IMPORT.format(name=loaded))
    done = subprocess.run(
        [sys.executable, "-m", *words.split()],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@every_program
def test_a_reader_that_has_left_is_no_traceback(name: str) -> None:
    asking = (("--help",), ("--version",), ("docs",), ("completion", "bash"))
    for words in asking[:2] if name in ISTIOS_PROGRAMS else asking:
        reading, writing = os.pipe()
        os.close(reading)
        try:
            done = started(name, *words, stdout=writing)
        finally:
            os.close(writing)
        assert (done.returncode, done.stderr) == (1, ""), words


@every_command
def test_bash_completes_commands_and_options(name: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(started(name, "completion", "bash").stdout)
    function = f"_{name.replace('-', '_')}"

    def completed(*words: str) -> set[str]:
        line = " ".join(map(shlex.quote, (name, *words)))
        program = (
            f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; {function}; "
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(
            ["bash", "--norc", "-c", program], capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        return set(done.stdout.split())

    assert completed("") == {*subcommands(name), "--help"}
    for one in subcommands(name):
        offered = completed(one, "--")
        shown = set(
            re.findall(r"(?<![\w-])--[A-Za-z][\w-]*", help_of(name, one).partition("Examples:")[0])
        )
        assert offered <= shown | {"--help"}
        assert "--help" in offered


@every_command
def test_what_a_program_may_want_to_read_is_had_as_json(name: str) -> None:
    for one in subcommands(name):
        section = manual_section(name, one)
        row = re.search(r"`(--output, )?-o ([a-z|\\]*)", section)
        # Where -o is Istio's for something else, the flag is --json.
        has = "`--json`" in section or (row is not None and "json" in row[2])
        without = not TELLS_NOTHING_A_PROGRAM_READS.isdisjoint({one, f"{name} {one}"})
        assert has != without, f"{name} {one}"


def manual_section(name: str, one: str) -> str:
    return manual_of(name).partition(f"## {name} {one}\n")[2].partition("\n## ")[0]


def test_manual_pages_are_as_the_help_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert (manual.main(["--check"]), capsys.readouterr().out) == (0, "")


def test_wheels_install_the_manual_pages() -> None:
    having = {page.parents[2] for page in manual.pages()}
    assert having >= {folder for folder, scripts in manual.projects() if scripts}
    for folder in having:
        build = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
        assert build["targets"]["wheel"]["shared-data"] == {"man": "share/man"}, folder


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff")
def test_manual_pages_are_good_roff() -> None:
    for page in sorted(ROOT.glob("packages/*/man/man1/*.1")):
        if page.read_text().startswith(".so "):
            continue
        done = subprocess.run(
            ["groff", "-man", "-ww", "-Tutf8", page], capture_output=True, text=True, check=True
        )
        assert done.stderr == "", page
