"""`/debug/logging`: levels read and changed while the agent runs."""

import importlib.util
import json
import logging
from collections.abc import Iterator

import pytest

from mesh_agent.logs._scopes import ENVOY, SCOPES
from mesh_agent.status._endpoints import StatusEndpoints
from mesh_lifecycle import Readiness, Stopping, parse_levels, stop_signals
from mesh_status_server import AppProbes, Request, Response


async def ask(method: str, query: str = "", peer: str = "127.0.0.1") -> tuple[int, str]:
    with stop_signals() as stopping:
        return await ask_with(stopping, method, query, peer)


async def ask_with(stopping: Stopping, method: str, query: str, peer: str) -> tuple[int, str]:
    endpoints = StatusEndpoints(
        Readiness(stopping), stopping, app_probes=AppProbes({}, host="127.0.0.1", status_port=15020)
    )
    request = Request(method=method, path="/debug/logging", peer=peer, query=query)
    response = await endpoints(request)
    assert isinstance(response, Response)
    return int(response.status), response.body.decode()


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Logging is the whole process's: each test leaves it as it was."""
    root = logging.getLogger()
    level = root.level
    before = {name: _level(name) for name in root.manager.loggerDict}
    SCOPES.set_levels(parse_levels("all:info"))
    yield
    root.setLevel(level)
    for name in tuple(root.manager.loggerDict):
        if _level(name) != before.get(name, logging.NOTSET):
            logging.getLogger(name).setLevel(before.get(name, logging.NOTSET))


def _level(name: str) -> int:
    logger = logging.root.manager.loggerDict[name]
    return logger.level if isinstance(logger, logging.Logger) else logging.NOTSET


def test_every_scope_has_loggers_that_there_are() -> None:
    for scope in SCOPES.names:
        for name in SCOPES.loggers(scope):
            assert importlib.util.find_spec(name) is not None, (scope, name)


async def test_levels_are_reported_by_scope_before_the_agent_has_started() -> None:
    status, body = await ask("GET")
    levels = json.loads(body)
    assert status == 200
    assert levels["default"] == levels["xdsproxy"] == levels["dns"] == "info"
    assert levels["wasm"] == "info"
    assert "gcecred" not in levels


@pytest.mark.parametrize("query", ["dns=debug", "paths=dns:debug", "paths=sds:info,dns:debug"])
async def test_one_scope_is_changed_in_our_spelling_and_in_envoys(query: str) -> None:
    status, body = await ask("POST", query)
    assert (status, json.loads(body)["dns"]) == (200, "debug")
    assert logging.getLogger("mesh_dnsproxy._server").isEnabledFor(logging.DEBUG)
    assert not logging.getLogger("xds_proxy").isEnabledFor(logging.DEBUG)


async def test_level_alone_is_for_all_and_takes_back_single_ones() -> None:
    await ask("POST", "dns=debug&mesh_agent.status=error")
    status, body = await ask("POST", "level=warning")
    assert status == 200
    assert set(json.loads(body).values()) == {"warn"}


async def test_the_name_of_a_logger_is_a_scope() -> None:
    status, body = await ask("POST", "mesh_agent.status._http=debug")
    assert (status, json.loads(body)["mesh_agent.status._http"]) == (200, "debug")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("dns=loud", "'loud' is not one of debug, info, warn, error, fatal, none"),
        ("dms=debug", "log scope 'dms': there is no such scope and no such logger; scopes are all"),
        ("gcecred=debug", "nothing is logged in this scope here"),
        ("envoy=debug", "envoy's levels are changed at its own admin interface"),
        ("paths=envoy config:debug", "POST /logging?level=debug on port 15000"),
        ("level=", "is not one of"),
        ("dns", "is not one of"),
        ("paths=dns:debug,sds:x", "'sds:x'"),
        ("&".join("dns=debug" for _ in range(1000)), "Max number of fields exceeded"),
    ],
)
async def test_what_cannot_be_done_is_reported_and_changes_nothing(query: str, words: str) -> None:
    status, body = await ask("POST", query)
    assert (status, words in body) == (400, True), body
    assert "debug" not in SCOPES.levels().values()


async def test_reading_changes_nothing_and_other_machines_are_refused() -> None:
    assert (await ask("GET", "dns=debug"))[0] == 405
    assert (await ask("DELETE"))[0] == 405
    assert (await ask("POST", "dns=debug", peer="10.0.0.9"))[0] == 403
    assert (await ask("GET", peer="10.0.0.9"))[0] == 403
    assert "debug" not in SCOPES.levels().values()


async def test_envoys_lines_are_left_to_envoys_own_level() -> None:
    logging.getLogger(ENVOY).setLevel(logging.DEBUG)
    await ask("POST", "level=none")
    assert logging.getLogger(ENVOY).isEnabledFor(logging.DEBUG)
    assert ENVOY not in SCOPES.levels()
