"""The expressions of access logs that are let through are those that a real Envoy takes."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from log_expressions import NOT_VOUCHED_FOR, REFUSED, TAKEN

_TYPE = "type.googleapis.com/envoy.extensions"


def logger(expression: str) -> dict[str, Any]:
    return {
        "name": "envoy.access_loggers.stdout",
        "filter": {
            "extension_filter": {
                "name": "envoy.access_loggers.extension_filters.cel",
                "typed_config": {
                    "@type": f"{_TYPE}.access_loggers.filters.cel.v3.ExpressionFilter",
                    "expression": expression,
                },
            }
        },
        "typed_config": {"@type": f"{_TYPE}.access_loggers.stream.v3.StdoutAccessLog"},
    }


def is_taken(binary: Path, *expressions: str) -> bool:
    """Tell whether an Envoy takes a listener with loggers of these expressions."""
    listener = {
        "name": "a",
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
        "filter_chains": [{}],
        "access_log": [logger(each) for each in expressions],
    }
    config = {"static_resources": {"listeners": [listener]}}
    arguments = ("--mode", "validate", "--concurrency", "1", "-l", "off")
    run = subprocess.run(
        [str(binary), *arguments, "--config-yaml", json.dumps(config)],
        capture_output=True,
        check=False,
    )
    return run.returncode == 0


@pytest.mark.slow
def test_envoy_takes_the_expressions_that_are_let_through(envoy_binary: Path) -> None:
    assert is_taken(envoy_binary, *TAKEN)


@pytest.mark.slow
def test_envoy_refuses_the_expressions_that_are_refused(envoy_binary: Path) -> None:
    assert [each for each in REFUSED if is_taken(envoy_binary, each)] == []


@pytest.mark.slow
def test_the_check_refuses_some_that_envoy_takes(envoy_binary: Path) -> None:
    assert [each for each in NOT_VOUCHED_FOR if is_taken(envoy_binary, each)]
