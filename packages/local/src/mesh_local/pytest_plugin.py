"""A pytest plugin: the fixture `mesh`, which is a running mesh for the tests of a session.

It is loaded by every pytest of an environment that has mesh-local, so that it loads nothing else
before a test asks for a mesh.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mesh_local.testing._blocking import BlockingMesh
    from mesh_local.testing._logs import LogMarks
    from mesh_local.testing._mesh import Mesh
    from mesh_local.testing._running import Description

MESH_FILE = "mesh.yaml"
MOST_BYTES_A_LOG = 4096
MOST_BYTES = 32 * 1024
"""Of all logs together that are attached to the report of a failed test."""

_marks = pytest.StashKey["dict[int, LogMarks]"]()
_faults = pytest.StashKey["dict[int, tuple[object, ...]]"]()


class LeftFaultWarning(pytest.PytestWarning):
    """A test left a fault of the mesh behind, which was ended for it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the mesh file, as an option and in the configuration."""
    help_text = f"the mesh file of the fixture mesh (default: the {MESH_FILE} nearest to the tests)"
    parser.getgroup("mesh-local").addoption("--mesh-file", metavar="PATH", help=help_text)
    parser.addini("mesh_file", help_text, default="")


@pytest.fixture(scope="session")
def mesh_description(request: pytest.FixtureRequest) -> Description:
    """The mesh file of the tests. Override it to return workloads or another file."""
    config = request.config
    if given := config.getoption("--mesh-file"):
        return Path(config.invocation_params.dir, given)
    if given := str(config.getini("mesh_file")):
        return Path(config.rootpath, given)
    found = {
        nearest
        for each in request.session.items
        if "mesh" in getattr(each, "fixturenames", ())
        and (nearest := _nearest(each.path, config.rootpath)) is not None
    }
    if len(found) == 1:
        return found.pop()
    if not found:
        pytest.fail(
            f"there is no {MESH_FILE} beside the tests nor in {config.rootpath}: make one, or name "
            "one with the option mesh_file",
            pytrace=False,
        )
    names = ", ".join(sorted(map(str, found)))
    pytest.fail(
        f"several mesh files are nearest to the tests: {names}; name one with the option "
        "mesh_file, or override the fixture mesh_description in a conftest.py",
        pytrace=False,
    )


def _nearest(test: Path, root: Path) -> Path | None:
    for folder in test.parents:
        if (folder / MESH_FILE).is_file():
            return folder / MESH_FILE
        if folder == root:
            break
    return None


@pytest.fixture(scope="session")
def mesh(
    mesh_description: Description, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BlockingMesh]:
    """A running mesh; with pytest-xdist each worker has its own."""
    from mesh_local import MeshLocalError, running

    entered = running(mesh_description, state_dir=tmp_path_factory.mktemp("mesh") / "state")
    started, reason = None, ""
    try:
        started = entered.__enter__()
    except MeshLocalError as error:
        reason = "\n".join((str(error), *getattr(error, "__notes__", ())))
    if started is None:
        pytest.fail(reason, pytrace=False)  # outside of `except`, whose error would be shown, too
    try:
        yield started
    finally:
        entered.__exit__(None, None, None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Remember how long the logs are and which faults there are before a test runs."""
    item.stash[_marks] = {id(each): _marks_of(each) for each in _meshes(item)}
    item.stash[_faults] = {id(each): _active(each) for each in _meshes(item)}
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """End the faults that a test began and left, and tell them as a warning.

    Not those of its fixtures: they end them later, and the mesh itself may be among them.
    """
    left: list[str] = []
    try:
        for each in _meshes(item):
            if (before := item.stash.get(_faults, {}).get(id(each))) is not None:
                left += _end_new_faults(each, before)
    finally:
        result = yield
    if left:
        names = ", ".join(left)
        item.warn(LeftFaultWarning(f"{item.nodeid} left faults, which were ended: {names}"))
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach to a failed test what the processes of its mesh logged while it ran."""
    if call.excinfo is not None:
        _end_at_the_caller(call.excinfo)
    report = yield
    if report.when == "call" and report.failed:
        left = MOST_BYTES
        for each in _meshes(item):
            if (marks := item.stash.get(_marks, {}).get(id(each))) is None:
                continue
            for name, text in marks.written_since(most_bytes=MOST_BYTES_A_LOG):
                if left > 0:
                    report.sections.append((f"mesh: {name}", text[-left:]))
                left -= len(text)
    return report


def _end_at_the_caller(raised: pytest.ExceptionInfo[BaseException]) -> None:
    """Cut off what is within this package: its errors are sentences about the line that called."""
    if "mesh_local._errors" not in sys.modules:
        return
    from mesh_local._errors import MeshLocalError

    if not isinstance(raised.value, MeshLocalError):
        return
    plugin = Path(__file__)
    entry = raised.tb
    while (inner := entry.tb_next) is not None:
        path = Path(inner.tb_frame.f_code.co_filename)
        if path != plugin and plugin.parent in path.parents:
            entry.tb_next = None  # pytest reads the chain itself, whatever list it is given
            raised.value.__cause__, raised.value.__suppress_context__ = None, True
            break
        entry = inner


def _meshes(item: pytest.Item) -> list[BlockingMesh | Mesh]:
    """Return the meshes that a test was given by fixtures, the plugin's own or others."""
    if "mesh_local.testing._blocking" not in sys.modules:
        return []
    from mesh_local.testing._blocking import BlockingMesh
    from mesh_local.testing._mesh import Mesh

    given = (getattr(item, "funcargs", None) or {}).values()
    return [each for each in given if isinstance(each, BlockingMesh | Mesh)]


def _marks_of(mesh: BlockingMesh | Mesh) -> LogMarks:
    from mesh_local.testing._logs import LogMarks

    return LogMarks.now(mesh.running)


def _active(mesh: BlockingMesh | Mesh) -> tuple[object, ...]:
    return mesh.faults


def _end_new_faults(mesh: BlockingMesh | Mesh, before: tuple[object, ...]) -> tuple[str, ...]:
    from mesh_local.testing._blocking import BlockingMesh

    # The loop of the other sort is the test's own; its faults end with its block.
    return mesh.end_faults(but=before) if isinstance(mesh, BlockingMesh) else ()
