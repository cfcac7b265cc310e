"""A server that runs warns of what is probably not meant, and says nothing of matters of style."""

import logging
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from mesh_discovery._check import check_configuration
from mesh_discovery._metrics import Metrics
from mesh_discovery.push._config_store import ConfigStore
from mesh_discovery.sources.files._loader import ConfigLoader
from mesh_model import Facts

CODES = Path(__file__).parent / "codes"


def of_files(directory: Path, *names: str, without: str = "") -> Facts:
    for name in names:
        text = (CODES / f"{name}.yaml").read_text()
        documents = [each for each in text.split("---\n") if not without or without not in each]
        (directory / f"{name}.yaml").write_text("---\n".join(documents))
    return Facts(snapshot=ConfigLoader(directory).load().snapshot)


def test_warnings_are_logged_until_they_are_mended_and_hints_never(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        store = ConfigStore(
            of_files(tmp_path, "IST0110", "IST0118"),
            metrics=Metrics(CollectorRegistry(), version="0"),
            trust_domain="cluster.local",
            domain="cluster.local",
            scope_gateways=False,
            strict_namespaces=False,
        )

    logged = [each.__dict__["what"] for each in caplog.records if "what" in each.__dict__]
    assert [each.code for each in store.warnings] == ["IST0110"]
    assert len([each for each in logged if "Sidecar a" in each]) == 1
    assert not any("does not say the protocol" in each for each in logged)
    checked = check_configuration(tmp_path)
    assert [each.code for each in checked.hints] == ["IST0118"]
    assert checked.is_good

    store.serve(of_files(tmp_path, "IST0110", "IST0118", without="name: b,"), lambda _: None)
    store.look_for_unreachable()
    assert store.warnings == ()
