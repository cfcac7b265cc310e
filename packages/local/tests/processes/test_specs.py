import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from mesh_discovery import StartSettings
from mesh_local import Block, MeshFile, MeshLocalError, MeshPlan, StateFolder, plan_mesh
from mesh_local.config._addresses import RedirectedBlock
from mesh_local.config._variables import AGENTS_OWN
from mesh_local.processes._specs import (
    agent_process,
    app_process,
    control_plane_process,
    find_program,
)
from mesh_testkit import Golden

STATE = StateFolder(Path("/state"))
USER_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/home/me",
    "http_proxy": "http://proxy:3128",
    "ISTIO_META_CLUSTER_ID": "elsewhere",
    "EDITOR": "ed",
}


def test_the_control_plane_as_it_is_run(plan: MeshPlan, golden: Golden) -> None:
    spec = control_plane_process(plan, STATE, USER_ENVIRONMENT)
    assert spec.arguments[0] == sys.executable
    golden(
        "control_plane.json",
        {"arguments": spec.arguments[1:], "environment": dict(spec.environment)},
    )


def test_an_agent_as_it_is_run(plan: MeshPlan, golden: Golden) -> None:
    spec = agent_process(plan, plan.instances[0], STATE, USER_ENVIRONMENT)
    assert spec.directory == Path("/state/workloads/backend-1")
    golden("agent.json", {"arguments": spec.arguments[1:], "environment": dict(spec.environment)})


@pytest.fixture
def redirected(shop: MeshFile) -> MeshPlan:
    return plan_mesh(shop, RedirectedBlock(folder=Path("/state/networks")))


def test_a_redirected_workload_s_agent_as_it_is_run(redirected: MeshPlan, golden: Golden) -> None:
    spec = agent_process(redirected, redirected.instances[0], STATE, USER_ENVIRONMENT)
    python, *words = spec.arguments
    assert python == sys.executable
    assert words[:2] == ["-I", "-S"]
    assert Path(words[2]).name == "_within.py"
    assert words[3:6] == ["/state/networks/1", "1337", sys.executable]
    golden(
        "redirected_agent.json",
        {"arguments": words[6:], "environment": dict(spec.environment)},
    )


def test_a_redirected_program_is_in_its_network_and_has_no_proxy(redirected: MeshPlan) -> None:
    spec = app_process(
        redirected, redirected.instances[0], STATE, {**USER_ENVIRONMENT, "PATH": os.environ["PATH"]}
    )
    assert spec is not None
    assert spec.arguments[4:6] == ("/state/networks/1", "-")
    assert spec.arguments[-1] == "backend.py"
    assert spec.environment["HOST"] == "10.77.1.1"
    assert spec.environment["NO_PROXY"] == "*"
    assert "MESH_OUTBOUND_ADDRESS" not in spec.environment
    assert spec.environment["MESH_DNS"] == "127.0.0.1:15053"


def test_pages_of_the_control_plane_are_shown_to_its_own_machine(redirected: MeshPlan) -> None:
    words = control_plane_process(redirected, STATE, USER_ENVIRONMENT).arguments
    options = dict(zip(words[4::2], words[5::2], strict=True))
    assert options["--monitoring-addr"] == "127.0.0.1:15014"
    assert options["--secure-grpc-addr"] == "10.77.0.1:15012"
    assert options["--key-set-networks"] == "127.0.0.0/8,::1,10.77.0.0/16"


def test_a_workload_s_agent_gets_the_variables_that_are_its_own(
    parse: Callable[[str], MeshFile],
) -> None:
    file = parse("workloads:\n- {name: a, agentEnv: {PKCS8_KEY: 'true'}}\n- {name: b}\n")
    first, second = (
        agent_process(plan_mesh(file, Block(number=64)), each, STATE, USER_ENVIRONMENT).environment
        for each in plan_mesh(file, Block(number=64)).instances
    )
    assert first["PKCS8_KEY"] == "true"
    assert "PKCS8_KEY" not in second


def test_no_variable_of_a_file_takes_the_place_of_an_agent_s_own(
    plan: MeshPlan, parse: Callable[[str], MeshFile]
) -> None:
    file = parse(
        "workloads:\n- {name: a}\n- {name: b, proxyless: true}\n- {name: c, gateway: {ports: [80]}}"
    )
    given = set[str]()
    for each in plan_mesh(file, Block(number=64)).instances:
        given |= agent_process(plan, each, STATE, {}).environment.keys()
    assert given == AGENTS_OWN


def test_the_user_s_other_variables_reach_programs_but_not_the_mesh(plan: MeshPlan) -> None:
    app = app_process(plan, plan.instances[0], STATE, USER_ENVIRONMENT)
    assert app is not None
    assert app.environment["EDITOR"] == "ed"
    assert app.environment["http_proxy"] == "http://127.64.1.3:15002"
    for spec in (
        control_plane_process(plan, STATE, USER_ENVIRONMENT),
        agent_process(plan, plan.instances[0], STATE, USER_ENVIRONMENT),
    ):
        assert not {"EDITOR", "http_proxy", "ISTIO_META_CLUSTER_ID"} & set(spec.environment)


def test_how_early_certificates_are_renewed_is_the_user_s_to_say(plan: MeshPlan) -> None:
    environment = {**USER_ENVIRONMENT, "SECRET_GRACE_PERIOD_RATIO": "0.9"}
    agent = agent_process(plan, plan.instances[0], STATE, environment)
    assert agent.environment["SECRET_GRACE_PERIOD_RATIO"] == "0.9"


def test_proxy_configs_go_before_our_settings_and_after_variables_of_the_file(
    plan: MeshPlan,
) -> None:
    workload = msgspec.structs.replace(plan.instances[0].workload, agent_env={"TIER": "own"})
    instance = replace(plan.instances[0], workload=workload)
    start = StartSettings(0, (("POD_NAME", "other"), ("REGION", "north"), ("TIER", "object")))

    environment = agent_process(plan, instance, STATE, {}, start=start).environment

    config = json.loads(environment["PROXY_CONFIG"])
    assert (config["concurrency"], config["proxyMetadata"]) == (0, dict(start.variables))
    # A variable goes before `proxyMetadata`, in the agent.
    assert environment["TIER"] == "own"
    assert environment["POD_NAME"] == "backend-1"
    assert "REGION" not in environment
    nothing = StartSettings(None, ())
    assert agent_process(plan, instance, STATE, {}, start=nothing) == agent_process(
        plan, instance, STATE, {}
    )


def test_a_program_is_given_where_to_listen_and_how_to_call(plan: MeshPlan) -> None:
    app = app_process(plan, plan.instances[0], STATE, {"PATH": "/usr/bin:/bin"})
    assert app is not None
    assert (app.environment["HOST"], app.environment["PORT"]) == ("127.64.1.2", "8080")
    assert app.environment["MESH_OUTBOUND_ADDRESS"] == "127.64.1.3"
    assert app.environment["MESH_SPIFFE_ID"] == "spiffe://example.org/ns/shop/sa/backend"


def test_names_are_answered_at_the_port_that_the_file_gives_or_nowhere(plan: MeshPlan) -> None:
    for port, address in ((15053, "127.64.1.1:15053"), (53, "127.64.1.1:53"), (0, None)):
        mesh = msgspec.structs.replace(plan.file.mesh, dns_port=port)
        other = replace(plan, file=replace(plan.file, mesh=mesh))
        agent = agent_process(other, other.instances[0], STATE, {}).environment
        app = app_process(other, other.instances[0], STATE, {"PATH": "/usr/bin:/bin"})
        assert app is not None
        assert app.environment.get("MESH_DNS") == address
        assert agent.get("DNS_PROXY_ADDR") == address
        assert ("ISTIO_META_DNS_CAPTURE" in agent) == (address is not None)


def test_a_proxyless_program_finds_its_agent_by_a_file(plan: MeshPlan) -> None:
    workload = msgspec.structs.replace(plan.instances[0].workload, proxyless=True)
    instance = replace(plan.instances[0], workload=workload)
    agent = agent_process(plan, instance, STATE, USER_ENVIRONMENT)
    app = app_process(plan, instance, STATE, USER_ENVIRONMENT)
    assert app is not None
    assert agent.environment["DISABLE_ENVOY"] == "true"
    assert agent.environment["OUTPUT_CERTS"] == "./var/lib/istio/data"
    assert "ISTIO_META_DNS_CAPTURE" not in agent.environment
    bootstrap = "/state/workloads/backend-1/etc/istio/proxy/grpc-bootstrap.json"
    assert app.environment["GRPC_XDS_BOOTSTRAP"] == bootstrap
    assert app.environment["no_grpc_proxy"] == "*"
    assert app.environment["http_proxy"] == "http://proxy:3128", "the user's own stays"
    assert "MESH_DNS" not in app.environment


def test_a_proxyless_program_that_could_not_reach_its_agent_is_reported_before_the_start(
    plan: MeshPlan,
) -> None:
    workload = msgspec.structs.replace(plan.instances[0].workload, proxyless=True)
    instance = replace(plan.instances[0], workload=workload)
    longest = StateFolder(
        Path("/" + "s" * (107 - len("/workloads/backend-1/etc/istio/proxy/XDS") - 1))
    )
    agent_process(plan, instance, longest, USER_ENVIRONMENT)
    with pytest.raises(MeshLocalError, match=r"is 108 bytes long; .* at most 107: .*--state-dir"):
        agent_process(plan, instance, StateFolder(Path(f"{longest.path}s")), USER_ENVIRONMENT)


def test_a_workload_without_a_command_is_the_user_s_to_start(plan: MeshPlan) -> None:
    assert app_process(plan, plan.instances[3], STATE, {}) is None


def test_a_command_that_is_not_there_is_named(plan: MeshPlan) -> None:
    with pytest.raises(MeshLocalError) as caught:
        app_process(plan, plan.instances[2], STATE, USER_ENVIRONMENT)
    directory = plan.file.directory
    assert str(caught.value) == (
        f'{plan.file.path}:18: workloads[1].command: there is no program "./frontend", neither in '
        f"PATH nor in {directory}"
    )
    in_python = replace(plan, file=replace(plan.file, lines={}))
    with pytest.raises(MeshLocalError, match=r'workload frontend: there is no program "./frontend'):
        app_process(in_python, plan.instances[2], STATE, USER_ENVIRONMENT)


def test_a_relative_program_is_looked_for_in_its_directory(tmp_path: Path) -> None:
    program = tmp_path / "serve"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert find_program("./serve", tmp_path, "") == str(program)
    assert find_program("serve", tmp_path, "/nowhere") is None
