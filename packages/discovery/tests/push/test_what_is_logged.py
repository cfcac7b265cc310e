"""The log lines about a configuration: bounded, whatever number of mistakes it has."""

import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from mesh_discovery import ConfigLoader
from mesh_discovery._metrics import Metrics
from mesh_discovery.push._config_store import ConfigStore

MANY = 200
LOGGED = 50
PROBABLY_WRONG = "configuration is served as it is, and is probably not what was meant"
MORE = "too many to be logged one by one, mesh-discovery status lists all"


def entry(number: int, *, port: str) -> str:
    return (
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
        f"metadata: {{name: s{number}}}\n"
        f"spec:\n  hosts: [s{number}.example]\n  resolution: STATIC\n  addresses: [10.9.0.{number}]"
        f"\n  ports: [{port}]\n  endpoints: [{{address: 10.0.0.1}}]\n"
    )


GOOD = "{number: 80, name: tcp, protocol: TCP}"
DOUBTFUL = "{number: 80, name: http}"
WRONG = "{number: 80, nam: http}"


def write(directory: Path, port: str, *, before: str = "") -> None:
    for number in range(MANY):
        (directory / f"s{number}.yaml").write_text(before + entry(number, port=port))


@pytest.fixture
def store(config_dir: Path) -> tuple[ConfigStore, ConfigLoader]:
    write(config_dir, GOOD)
    loader = ConfigLoader(config_dir)
    first = loader.load()
    made = ConfigStore(
        first,
        metrics=Metrics(CollectorRegistry(), version="1"),
        trust_domain="cluster.local",
        domain="cluster.local",
        scope_gateways=False,
        strict_namespaces=False,
    )
    return made, loader


def lines(caplog: pytest.LogCaptureFixture) -> Counter[str]:
    found = Counter(each.getMessage() for each in caplog.records)
    caplog.clear()
    return found


def ignored(*_: Any, **__: Any) -> None:
    """Take a push and do nothing."""


def test_many_wrong_files_are_a_bounded_number_of_lines(
    store: tuple[ConfigStore, ConfigLoader], config_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made, loader = store
    caplog.set_level(logging.INFO)
    caplog.clear()
    write(config_dir, WRONG)
    made.apply(loader.load(), ignored)

    told = lines(caplog)
    assert told["configuration file is wrong, its last good content is served"] == LOGGED
    assert told[MORE] == 1
    assert len(made.wrong) == MANY

    made.apply(loader.load(), ignored)
    assert not lines(caplog)

    write(config_dir, GOOD)
    made.apply(loader.load(), ignored)
    assert lines(caplog)["configuration file is no longer wrong"] == LOGGED
    assert not made.wrong


def test_an_edit_that_moves_many_warnings_is_a_bounded_number_of_lines(
    store: tuple[ConfigStore, ConfigLoader], config_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made, loader = store
    for before in ("", "# one line more\n"):
        caplog.clear()
        write(config_dir, DOUBTFUL, before=before)
        made.apply(loader.load(), ignored)

        told = lines(caplog)
        assert told[PROBABLY_WRONG] == LOGGED
        assert told[MORE] == 1
        assert len(made.warnings) == MANY


def test_many_mistakes_of_one_file_are_one_bounded_line(
    store: tuple[ConfigStore, ConfigLoader], config_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made, loader = store
    caplog.clear()
    texts = [entry(number, port=WRONG) for number in range(MANY)]
    (config_dir / "s0.yaml").write_text("---\n".join(texts))
    made.apply(loader.load(), ignored)

    (record,) = caplog.records
    assert len(record.__dict__["problems"]) == LOGGED
    assert record.__dict__["problem_count"] >= MANY
