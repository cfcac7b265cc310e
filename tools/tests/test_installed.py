"""Checks distributions written for the test, laid out as an installer leaves them."""

from __future__ import annotations

import stat
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

import installed

Found = Callable[..., list[str]]
FACE = "__all__ = ['answer']\nanswer = 42\n"


class Layout:
    """A package's folder, and the directory that it is installed into."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name = name
        self.folder = directory / "checkout"
        self.site = directory / "site"
        self.metadata = [f"Name: {name}", "Version: 1.0"]
        self.entry_points: list[str] = []
        self.folder.mkdir()
        self.write("__init__.py", FACE)
        self.write("py.typed", "")
        (self.folder / "README.md").write_text("# A package\n")

    def write(self, path: str, text: str, *, into_wheel: bool = True) -> None:
        """Write a file of the source, and of what is installed."""
        for base in (self.folder / "src", *([self.site] if into_wheel else [])):
            file = base / self.name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def install(self) -> None:
        """Write what an installer notes of a distribution."""
        information = self.site / f"{self.name}-1.0.dist-info"
        information.mkdir()
        brought = sorted(
            str(file.relative_to(self.site)) for file in self.site.rglob("*") if file.is_file()
        )
        (information / "METADATA").write_text("\n".join(self.metadata) + "\n")
        (information / "RECORD").write_text("".join(f"{each},,\n" for each in brought))
        (information / "entry_points.txt").write_text("\n".join(self.entry_points) + "\n")


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    planted = Layout(tmp_path, f"planted_{tmp_path.name}")  # modules are imported once a process
    monkeypatch.syspath_prepend(planted.site)
    return planted


@pytest.fixture
def found(layout: Layout) -> Found:
    def run(*, extras: bool = False) -> list[str]:
        layout.install()
        return list(
            installed.mistakes(layout.folder, layout.name, import_name=layout.name, extras=extras)
        )

    return run


def test_a_complete_package_has_no_mistakes(layout: Layout, found: Found) -> None:
    layout.write("inner/__init__.py", "")
    layout.write("inner/_module.py", "import json\n")
    assert found() == []


def test_what_is_wrong_with_the_face_is_said(layout: Layout, found: Found) -> None:
    layout.write("__init__.py", "answer = 42\n")
    (mistake,) = found()
    assert "has no __all__" in mistake


def test_a_file_that_the_wheel_lacks_is_named(layout: Layout, found: Found) -> None:
    layout.write("table.json", "{}", into_wheel=False)
    (mistake,) = found()
    assert mistake.endswith(f"does not have {layout.name}/table.json")


def test_a_private_module_that_cannot_be_imported_is_found(layout: Layout, found: Found) -> None:
    layout.write("deep/_er.py", "import no_such_module_anywhere\n")
    layout.write("_other.py", "raise RuntimeError('no')\n")
    first, second = found()
    assert first.startswith(f"{layout.name}._other cannot be imported: RuntimeError: no")
    assert "deep._er cannot be imported: No module named 'no_such_module_anywhere'" in second


def test_what_runs_when_it_is_imported_is_not(layout: Layout, found: Found) -> None:
    layout.write("__main__.py", "raise SystemExit(1)\n")
    assert found() == []


def test_a_module_may_want_an_extra_until_it_is_installed(layout: Layout, found: Found) -> None:
    layout.metadata += [
        "Requires-Dist: no-such-module>=1 ; extra == 'metrics'",
        "Provides-Extra: metrics",
    ]
    layout.write("metrics.py", "import no_such_module.inner\n")
    assert found() == []


def test_a_module_is_imported_once_its_extra_is_installed(layout: Layout, found: Found) -> None:
    layout.metadata += ["Requires-Dist: no-such-module>=1 ; extra == 'metrics'"]
    layout.write("metrics.py", "import no_such_module.inner\n")
    (mistake,) = found(extras=True)
    assert "metrics cannot be imported" in mistake


def test_the_face_may_not_want_an_extra(layout: Layout, found: Found) -> None:
    layout.metadata += ["Requires-Dist: no-such-module>=1 ; extra == 'metrics'"]
    layout.write("__init__.py", FACE + "import no_such_module\n")
    with pytest.raises(ModuleNotFoundError):
        found()


@pytest.mark.parametrize(
    ("line", "mistake"),
    [
        ("from {name} import answer", None),
        ("from {name} import gone", "cannot import name 'gone'"),
        ("async def main():\n    import no_such_module", "No module named 'no_such_module'"),
        ("value = await anything()", None),
    ],
    ids=["there", "gone", "in a function", "no import"],
)
def test_the_imports_that_a_readme_shows_are_run(
    layout: Layout, found: Found, line: str, mistake: str | None
) -> None:
    example = line.format(name=layout.name)
    (layout.folder / "README.md").write_text(f"# One\n\n```python\n{example}\n```\n")
    if mistake is None:
        assert found() == []
    else:
        (failure,) = found()
        assert mistake in failure
        assert "README.md says" in failure


@pytest.mark.parametrize(
    ("program", "mistake"),
    [
        ("print('well')", None),
        ("await anything()", "program 1: SyntaxError: 'await' outside function"),
        ("differences(path, Shape)", "program 1: NameError: name 'differences' is not defined"),
    ],
)
def test_the_programs_of_a_readme_are_run(
    layout: Layout, found: Found, program: str, mistake: str | None
) -> None:
    (layout.folder / "README.md").write_text(f"# One\n\n```python run\n{program}\n```\n")
    failures = found()
    assert len(failures) == (mistake is not None)
    assert mistake is None or failures[0].endswith(mistake)


@pytest.mark.parametrize(
    ("script", "mistake"),
    [
        ("echo usage", None),
        ("echo reason >&2; exit 3", "fails with exit status 3: reason"),
        ("exit 0", "nothing is printed"),
    ],
)
def test_commands_print_their_help(
    layout: Layout, found: Found, monkeypatch: pytest.MonkeyPatch, script: str, mistake: str | None
) -> None:
    program = layout.site / "planted"
    program.write_text(f'#!/bin/sh\n[ "$1" = --help ] || exit 4\n{script}\n')
    program.chmod(stat.S_IRWXU)
    layout.entry_points += ["[console_scripts]", f"planted = {layout.name}:answer"]
    page = layout.site / "share/man/man1/planted.1"
    page.parent.mkdir(parents=True)
    page.write_text("")
    monkeypatch.setattr(sysconfig, "get_path", {"scripts": str(layout.site)}.__getitem__)
    failures = found()
    assert failures == [] if mistake is None else mistake in failures[0]


def test_a_command_without_a_manual_page_is_found(layout: Layout, found: Found) -> None:
    layout.entry_points += ["[mesh_agent.commands]", f"planted = {layout.name}:answer"]
    assert (
        f"the wheel of {layout.name} does not have the manual page mesh-agent-planted.1" in found()
    )


def test_mistakes_are_printed_and_counted(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    layout.write("_broken.py", "import no_such_module\n")
    layout.install()
    assert installed.main([str(layout.folder), layout.name, layout.name]) == 1
    assert "installed: " in capsys.readouterr().err
    assert f"{layout.name}._broken" not in sys.modules
