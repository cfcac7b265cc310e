"""What the doctor examines, and advises, where no agent answers."""

from collections.abc import Mapping
from pathlib import Path

import mesh_doctor
from mesh_agent._diagnosis import doctor_config
from mesh_agent._examined import Examined, examined
from mesh_agent.config._flags import Flags
from mesh_testkit import find_free_port

NAMED = "name the agent with --port and --address"


def of_shell(directory: Path, environ: Mapping[str, str]) -> Examined:
    return examined(
        Flags(version="1"),
        environ=environ,
        directory=directory,
        address="127.0.0.1",
        port=find_free_port(),
    )


def config_of(found: Examined) -> mesh_doctor.DoctorConfig:
    return doctor_config(
        found.config,
        found.problems,
        examined=found.said,
        examined_fix=found.fix,
        is_given=found.is_given,
    )


def test_a_shell_without_settings_says_how_it_gets_them(tmp_path: Path) -> None:
    found = of_shell(tmp_path, {})
    assert "which has none of an agent's settings" in found.said
    assert found.fix == f"set the agent's environment in this shell, or {NAMED}"
    (tmp_path / "agent.env").write_text("CA_ADDR=127.0.0.1:15012\n")
    assert of_shell(tmp_path, {}).fix == f"set -a; . ./agent.env; set +a; or {NAMED}"
    assert of_shell(tmp_path, {"POD_NAMESPACE": "shop"}).fix == ""


def test_a_workload_is_judged_by_settings_that_somebody_gave(tmp_path: Path) -> None:
    bare, given = (
        config_of(of_shell(tmp_path, environ)) for environ in ({}, {"POD_NAMESPACE": "shop"})
    )
    assert bare.token is not None
    assert (bare.token.namespace, bare.token.service_account, bare.workload) == (None, None, "")
    assert given.token is not None
    assert (given.token.namespace, given.token.service_account) == ("shop", "default")
    assert given.workload.endswith(".shop")
