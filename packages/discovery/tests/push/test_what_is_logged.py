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
from mesh_discovery.sources.files._file_source import FileSource
from mesh_model import Facts

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


class Served:
    """What is served of a directory, and reads it when a test says so."""

    def __init__(self, directory: Path) -> None:
        metrics = Metrics(CollectorRegistry(), version="1")
        self._loader = ConfigLoader(directory)
        self.files = FileSource(self._loader, self._loader.load(), metrics=metrics)
        self.store = ConfigStore(
            Facts(snapshot=self.files.snapshot),
            metrics=metrics,
            trust_domain="cluster.local",
            domain="cluster.local",
            scope_gateways=False,
            strict_namespaces=False,
        )

    def read(self) -> None:
        if self.files.take(self._loader.load()):
            self.store.serve(Facts(snapshot=self.files.snapshot), ignored)


@pytest.fixture
def served(config_dir: Path) -> Served:
    write(config_dir, GOOD)
    return Served(config_dir)


def lines(caplog: pytest.LogCaptureFixture) -> Counter[str]:
    found = Counter(each.getMessage() for each in caplog.records)
    caplog.clear()
    return found


def ignored(*_: Any, **__: Any) -> None:
    """Take a push and do nothing."""


def test_many_wrong_files_are_a_bounded_number_of_lines(
    served: Served, config_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    caplog.clear()
    write(config_dir, WRONG)
    served.read()

    logged = lines(caplog)
    assert logged["configuration file is wrong, its last good content is served"] == LOGGED
    assert logged[MORE] == 1
    assert len(served.files.reading.wrong) == MANY

    served.read()
    assert not lines(caplog)

    write(config_dir, GOOD)
    served.read()
    assert lines(caplog)["configuration file is no longer wrong"] == LOGGED
    assert not served.files.reading.wrong


def test_an_edit_that_moves_many_warnings_is_a_bounded_number_of_lines(
    served: Served, config_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for before in ("", "# one line more\n"):
        caplog.clear()
        write(config_dir, DOUBTFUL, before=before)
        served.read()

        logged = lines(caplog)
        assert logged[PROBABLY_WRONG] == LOGGED
        assert logged[MORE] == 1
        assert len(served.store.warnings) == MANY


def test_many_mistakes_of_one_file_are_one_bounded_line(
    served: Served, config_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    texts = [entry(number, port=WRONG) for number in range(MANY)]
    (config_dir / "s0.yaml").write_text("---\n".join(texts))
    served.read()

    (record,) = caplog.records
    assert len(record.__dict__["problems"]) == LOGGED
    assert record.__dict__["problem_count"] >= MANY
