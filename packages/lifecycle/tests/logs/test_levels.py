"""Levels by scope, set at start and later."""

import io
import json
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_lifecycle import (
    LogLevelError,
    LogScopes,
    LogSettings,
    configure_logging,
    parse_levels,
    start_logging,
)

SCOPES = LogScopes({"dns": ("loud", "quiet.inner"), "wasm": ()}, fixed=("held",))


def enabled(name: str) -> int:
    return logging.getLogger(name).getEffectiveLevel()


def test_a_scope_is_all_its_loggers_and_a_logger_is_a_scope() -> None:
    configure_logging(stream=io.StringIO())
    SCOPES.set_levels(parse_levels("default:warn,dns:debug,quiet:none,loud.inner:error"))
    assert [enabled(name) for name in ("loud", "quiet.inner", "loud.inner", "other")] == [
        logging.DEBUG,
        logging.DEBUG,
        logging.ERROR,
        logging.WARNING,
    ]
    assert SCOPES.levels() == {
        "default": "warn",
        "dns": "debug",
        "loud": "debug",
        "loud.inner": "error",
        "quiet": "none",
        "quiet.inner": "debug",
    }


def test_all_takes_back_what_was_set_by_name_but_not_what_is_fixed() -> None:
    configure_logging(stream=io.StringIO())
    logging.getLogger("held").setLevel(logging.DEBUG)
    SCOPES.set_levels(parse_levels("dns:debug"))
    SCOPES.set_levels(parse_levels("all:error,quiet:info"))
    assert SCOPES.levels() == {"default": "error", "dns": "info", "quiet": "info"}
    assert enabled("held") == logging.DEBUG


@pytest.mark.parametrize("text", ["warning", "WARN", "default:warn", "all:warning"])
def test_levels_have_envoys_spelling_too(text: str) -> None:
    assert parse_levels(text)[0].level == logging.WARNING


@given(st.text(max_size=30))
def test_any_text_is_levels_or_is_refused_in_a_sentence(text: str) -> None:
    try:
        parse_levels(text)
    except LogLevelError as error:
        message = str(error)
    else:
        return
    assert "is not one of debug, info, warn, error, fatal, none" in message


def test_a_scope_that_there_is_not_is_warned_of_with_those_that_there_are(tmp_path: Path) -> None:
    file = tmp_path / "log"
    settings = LogSettings(levels="info,nothing:debug,wasm:info,dns:debug", targets=(str(file),))
    start_logging(settings, SCOPES)
    logging.getLogger().handlers[0].flush()
    lines = [line.split("\t") for line in file.read_text().splitlines()]
    assert [line[1] for line in lines] == ["warning", "warning"]
    assert 'named="nothing" reason="there is no such scope and no such logger"' in lines[0][4]
    assert 'scopes=["dns"]' in lines[0][4]
    assert 'named="wasm" reason="nothing is logged in this scope here"' in lines[1][4]


def test_callers_and_stacks_are_logged_for_the_scopes_that_ask(tmp_path: Path) -> None:
    file = tmp_path / "log"
    settings = LogSettings(
        as_json=True, targets=(str(file),), callers=("dns",), stacks="default:none,dns:error"
    )
    start_logging(settings, SCOPES)
    logging.getLogger("loud.inner").error("with all")
    logging.getLogger("loud").info("with a caller")
    logging.getLogger("other").error("with nothing")
    logging.getLogger().handlers[0].flush()
    first, second, third = map(json.loads, file.read_text().splitlines())
    assert first["caller"].startswith("logs/test_levels.py:")
    assert "with all" in first["stack"].splitlines()[-1]
    assert second["caller"].startswith("logs/test_levels.py:")
    assert "stack" not in second
    assert third.keys() == {"time", "level", "scope", "msg"}
