#!/usr/bin/env python3
"""Run a development session with nothing installed but Python.

`python3 tools/dev.py SESSION [PACKAGE] [ARGS ...]` makes a private environment in `.dev/` that
holds the session runner (nox) and the installer (uv), and runs the session of noxfile.py in it.
The environment is created once and kept. Without a session, the sessions are listed.

Standard library only, in a syntax that an older Python still reads, so that it can say that it is
too old.
"""

from __future__ import annotations

import ast
import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".dev" / "env"
OLDEST_PYTHON = (3, 11)
PINS = ("nox==2026.10.20", "uv==0.13.8")
# With digests, and all that they need: written by the session `lock`.
REQUIREMENTS = ROOT / "tools" / "dev-requirements.txt"
# What pip says, in one version or another, when there is no way to the package index.
UNREACHABLE = ("connection broken by", "Max retries exceeded", "(from versions: none)")


class UsageError(Exception):
    """What the user can put right, in one sentence."""


class Session:
    """A session of noxfile.py, known without running it."""

    def __init__(self, name: str, *, purpose: str, takes_package: bool) -> None:
        self.name = name
        self.purpose = purpose
        self.takes_package = takes_package


def main(arguments: list[str]) -> int:
    """Run the session that the arguments name."""
    try:
        check_python()
        sessions = read_sessions()
        if not arguments or arguments[0] in ("-h", "--help", "-l", "--list"):
            print(usage(sessions))
            return 0 if arguments else 2
        session, rest = parse(arguments, sessions, package_names())
        make_environment()
    except UsageError as error:
        print(f"dev.py: {error}", file=sys.stderr)
        return 2
    return become_nox(session, rest)


def check_python() -> None:
    """Refuse a Python that cannot run the packages."""
    if sys.version_info < OLDEST_PYTHON:
        found, oldest = (f"{v[0]}.{v[1]}" for v in (sys.version_info, OLDEST_PYTHON))
        raise UsageError(f"this is Python {found}: run it with Python {oldest} or newer")


def read_sessions() -> dict[str, Session]:
    """Read noxfile.py without running it, so that this works before anything is installed."""
    sessions = {}
    for node in ast.parse((ROOT / "noxfile.py").read_text()).body:
        if not isinstance(node, ast.FunctionDef):
            continue
        decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
        if any(decorator.startswith("nox.session") for decorator in decorators):
            sessions[node.name] = Session(
                node.name,
                purpose=(ast.get_docstring(node) or "").split("\n")[0],
                takes_package=any(argument.arg == "package" for argument in node.args.args),
            )
    return sessions


def package_names() -> list[str]:
    """List the folders under packages/."""
    return sorted(file.parent.name for file in ROOT.glob("packages/*/pyproject.toml"))


def usage(sessions: dict[str, Session]) -> str:
    """Say how to call this program."""
    lines = ["usage: python3 tools/dev.py SESSION [PACKAGE] [ARGS ...]", "", "sessions:"]
    for session in sessions.values():
        name = f"{session.name} [PACKAGE]" if session.takes_package else session.name
        lines.append(f"  {name:18} {session.purpose}")
    return "\n".join(lines)


def parse(
    arguments: list[str], sessions: dict[str, Session], packages: list[str]
) -> tuple[str, list[str]]:
    """Turn `unit certclient -x`, or `unit(certclient) -- -x`, into nox's session and the rest."""
    rest = arguments[1:]
    name, _, package = arguments[0].partition("(")
    if name not in sessions:
        raise UsageError(f"there is no session {name!r}; the sessions are {', '.join(sessions)}")
    if package:
        package = package.rstrip(")")
    elif sessions[name].takes_package and rest and not rest[0].startswith("-"):
        package, rest = rest[0], rest[1:]
    if rest and rest[0] == "--":  # as nox has it
        rest = rest[1:]
    if not package:
        return name, rest
    if not sessions[name].takes_package:
        raise UsageError(f"session {name!r} is for the whole repository, not for one package")
    if package not in packages:
        raise UsageError(f"there is no package {package!r}; the packages are {', '.join(packages)}")
    return f"{name}({package})", rest


def make_environment() -> None:
    """Make .dev/env, unless it is there with these pins and this Python."""
    stamp = ENVIRONMENT / "created-with.txt"
    wanted = "\n".join([sys.version, str(Path(sys.executable).resolve()), *PINS])
    ENVIRONMENT.parent.mkdir(exist_ok=True)
    with (ENVIRONMENT.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two sessions may be started at once
        if stamp.is_file() and stamp.read_text() == wanted:
            return
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        if importlib.util.find_spec("ensurepip") is None:
            raise UsageError("this Python cannot make environments: install python3-venv")
        print("dev.py: making .dev/env", file=sys.stderr)
        run(sys.executable, "-m", "venv", str(ENVIRONMENT), purpose="make an environment")
        os.environ.setdefault("PIP_RETRIES", "2")  # the default keeps one waiting for long
        pip = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip"]
        pinned = ("--require-hashes", "--requirement", str(REQUIREMENTS))
        run(*pip, "install", "--quiet", *pinned, purpose=f"install {' and '.join(PINS)}")
        stamp.write_text(wanted)


def become_nox(session: str, arguments: list[str]) -> NoReturn:
    """Replace this process, so that signals and the exit status are nox's own.

    The environment's programs are last on PATH: tests that install something else find uv there.
    """
    own = str(ENVIRONMENT / "bin")
    os.environ["PATH"] = os.pathsep.join((os.environ.get("PATH", os.defpath), own))
    nox = str(ENVIRONMENT / "bin" / "nox")
    noxfile = str(ROOT / "noxfile.py")
    command = [nox, "--noxfile", noxfile, "--session", session, "--", *arguments]
    os.execv(nox, command)  # noqa: S606 - no shell is wanted


def run(*command: str, purpose: str) -> None:
    """Run a command in silence; if it fails, say why in one sentence."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode == 0:
        return
    if any(word in done.stdout for word in UNREACHABLE):
        raise UsageError(
            f"cannot {purpose}: the package index cannot be reached, or does not have them; is "
            "this machine online, or does it need PIP_INDEX_URL or HTTPS_PROXY?"
        )
    lines = done.stdout.strip().splitlines() or [f"exit status {done.returncode}"]
    errors = [line for line in lines if "error" in line.lower()]
    raise UsageError(f"cannot {purpose}: {(errors or lines)[-1].strip()}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
