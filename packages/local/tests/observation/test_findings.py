"""Mistakes in a mesh's configuration are reported where they stand, before and while it runs."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from mesh_ca import TokenIssuer
from mesh_local import (
    Block,
    MeshFile,
    MeshPlan,
    NotReady,
    OnExit,
    StateFolder,
    load_mesh_file,
    plan_mesh,
    prepared,
)
from mesh_local._up import _on_findings_at_start
from mesh_local.lifetime._mesh import _wait_control_plane
from mesh_local.observation._findings import Findings, Places, check_mesh, fetch_findings
from mesh_local.processes._child_group import running
from mesh_local.processes._children import last_lines
from mesh_local.processes._guard import Guard, guarding
from mesh_local.processes._specs import control_plane_process
from mesh_local.state._writing import write_everything

DEADLINE_S = 60.0

MESH = """\
workloads:
  - name: one
    ports:
      - {port: 5432, protocol: tcp}
  - name: two
    ports:
      - port: 8080
      - port: 5432
        protocol: tcp
config:
  - apiVersion: networking.istio.io/v1
    kind: ServiceEntry
    metadata: {name: far}
    spec:
      hosts: [far.example.com]
      ports: [{number: 443, name: tls, protocol: TLS}]
      resolution: NONE
configDir: own
"""
NOT_THERE = """\
workloads:
  - {name: one, ports: [{port: 8080}], command: [no-such]}
config:
  - apiVersion: networking.istio.io/v1
    kind: VirtualService
    metadata: {name: one}
    spec:
      hosts: [one]
      http:
        - name: all
          route: [{destination: {host: one, subset: v9}}]
"""
UNSUPPORTED = (
    "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: v}\n"
    "spec: {parentRefs: [{name: gw}], rules: [{sessionPersistence: {sessionName: s}}]}\n"
)
LACK = "rules.yaml:4: spec.rules[0].sessionPersistence: session persistence is not supported yet"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "mesh.yaml").write_text(MESH)
    return tmp_path / "mesh.yaml"


async def mesh_local(cwd: Path, *arguments: str) -> tuple[int, list[str]]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mesh_local", *arguments),
        cwd=cwd,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(DEADLINE_S):
        output, _ = await process.communicate()
    return process.returncode or 0, output.decode().splitlines()


async def test_check_tells_what_is_not_reached_with_the_mesh_files_lines(file: Path) -> None:
    code, lines = await mesh_local(file.parent, "check", "mesh.yaml")

    assert code == 1
    assert [each.partition(": the host is not reached")[0] for each in lines] == [
        (
            "mesh-local: mesh.yaml:17: config[0].spec.resolution: NONE leads to where a connection "
            "was going before it was intercepted, and no connections are intercepted here"
        ),
        (
            "mesh-local: mesh.yaml:8: workloads[1].ports[1]: port 5432 belongs to ServiceEntry "
            "default/one (mesh.yaml:2), which comes first: what connects there reaches only that "
            "one; give one of the two another port, or an address of its own in spec.addresses"
        ),
    ]


async def test_check_says_that_all_is_good(file: Path) -> None:
    file.write_text("workloads: [{name: one, ports: [{port: 8080}]}]\n")

    assert await mesh_local(file.parent, "check", "mesh.yaml") == (
        0,
        ["1 workload and its configuration are good"],
    )


@pytest.mark.parametrize("command", ["check", "up"])
async def test_a_mistake_in_the_configuration_is_reported_before_anything_starts(
    command: str, file: Path
) -> None:
    (file.parent / "own" / "rules.yaml").write_text(UNSUPPORTED)

    code, lines = await mesh_local(file.parent, command, "mesh.yaml")

    assert code == 1
    (line,) = (each for each in lines if LACK in each)
    assert line == (
        f"mesh-local: own/{LACK} (a DestinationRule's consistentHash by a cookie does much the "
        "same); remove it, or let it pass with --allow-unsupported"
    )


@pytest.mark.parametrize("command", [("check",), ("up",), ("up", "--once")])
async def test_what_is_not_there_is_reported_before_anything_starts(
    command: tuple[str, ...], file: Path
) -> None:
    file.write_text(NOT_THERE)

    code, lines = await mesh_local(file.parent, *command)

    program, subset = (each for each in lines if each.startswith("mesh-local: "))
    assert code == 1
    assert program == (
        'mesh-local: mesh.yaml:2: workloads[0].command: there is no program "no-such", '
        f"neither in PATH nor in {file.parent}"
    )
    assert subset == (
        "mesh-local: mesh.yaml:11: config[0].spec.http[0].route[0].destination.subset: no "
        'DestinationRule for one.default.svc.cluster.local has the subset "v9": what is sent '
        "there is answered with 503, or closed"
    )
    assert not (file.parent / ".mesh-local/mesh/logs/control-plane.log").exists()


async def test_a_run_of_checks_refuses_what_check_calls_a_mistake(file: Path) -> None:
    _, problems = await mesh_local(file.parent, "check", "mesh.yaml")

    code, lines = await mesh_local(file.parent, "up", "--once")

    assert (code, lines[1:]) == (1, problems)


def test_of_many_warnings_some_are_reported_at_the_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    findings = Findings(warnings=tuple(map(str, range(7))), unreachable=("a port",))

    _on_findings_at_start(findings, console=Console())

    assert capsys.readouterr().out.splitlines() == [
        *(f"warning: {each}" for each in range(5)),
        "warning: 2 more, which mesh-local check tells",
    ]


async def test_what_only_istio_has_is_let_pass_on_request(file: Path) -> None:
    file.write_text("workloads: [{name: one, ports: [{port: 8080}]}]\nconfigDir: own\n")
    (file.parent / "own" / "rules.yaml").write_text(UNSUPPORTED)

    code, lines = await mesh_local(file.parent, "check", "mesh.yaml", "--allow-unsupported")

    assert code == 0
    assert lines[0].startswith(f"note: own/{LACK}")


def test_a_field_of_the_mesh_file_is_found_by_its_nearest_line(file: Path) -> None:
    mesh = load_mesh_file(file)
    places = Places(mesh, config=Path("/s/config"), mesh_config=Path("/s/mesh-config.yaml"))

    assert [
        places.with_user_places(each)
        for each in (
            "/s/config/from-mesh-file/ServiceEntry.far.default.yaml:9: spec.ports[0].number: x",
            "/s/config/from-mesh-file/ServiceEntry.far.default.yaml:1: a second one",
            "/s/config/services/two.default.yaml:3: spec.ports[1].protocol: x",
            "/s/config/workloads/two.yaml:3: spec.labels: x",
            "/s/config/workloads/gone.yaml:3: spec.labels: x",
            "wrong since then: /s/config/user/a/b.yaml; kept",
            "/s/mesh-config.yaml:2: trustDomain: x",
        )
    ] == [
        f"{file}:16: config[0].spec.ports[0].number: x",
        f"{file}:11: a second one",
        f"{file}:9: workloads[1].ports[1].protocol: x",
        f"{file}:5: workloads[1]: x",
        f"{file}: x",
        "wrong since then: own/a/b.yaml; kept",
        f"{file} (mesh):2: trustDomain: x",
    ]


@asynccontextmanager
async def control_plane(file: MeshFile, folder: Path) -> AsyncIterator[tuple[MeshPlan, Places]]:
    """Run the control plane of a mesh, and nothing else of it."""
    with prepared(file, folder) as (plan, state):
        write_everything(plan, state, TokenIssuer(state.tokens, "test"))
        guard: Guard
        async with (
            guarding() as guard,
            running(
                [control_plane_process(plan, state, {})],
                on_exit=OnExit.FAIL,
                kill_now=asyncio.Event(),
                guard=guard,
            ) as (child,),
        ):
            await _wait_control_plane(plan, child)
            yield plan, places_of(file, state)


def places_of(file: MeshFile, state: StateFolder) -> Places:
    return Places(file, config=state.config, mesh_config=state.mesh_config)


async def findings(plan: MeshPlan, places: Places, wanted: Callable[[str], bool]) -> str:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            text = "\n".join(await fetch_findings(plan, places) or ())
            if wanted(text):
                return text
            await asyncio.sleep(0.05)


async def test_a_control_plane_that_has_ended_is_not_waited_for(file: Path) -> None:
    file.write_text("workloads: [{name: one, ports: [{port: 8080}]}]\nconfigDir: own\n")
    with prepared(load_mesh_file(file), file.parent / "state") as (plan, state):
        guard: Guard
        spec = replace(
            control_plane_process(plan, state, {}), arguments=("/bin/sh", "-c", "echo why; exit 3")
        )
        async with (
            guarding() as guard,
            running([spec], on_exit=OnExit.LEAVE, kill_now=asyncio.Event(), guard=guard) as (
                child,
            ),
        ):
            with pytest.raises(NotReady, match=r"does not start \(exit code 3\)") as caught:
                await _wait_control_plane(plan, child)
    assert "why" in last_lines(caught.value.log)


async def test_a_file_that_goes_wrong_is_reported_until_it_is_right(file: Path) -> None:
    file.write_text("workloads: [{name: one, ports: [{port: 8080}]}]\nconfigDir: own\n")
    async with control_plane(load_mesh_file(file), file.parent / "state") as (plan, places):
        assert not await findings(plan, places, lambda text: not text)
        own = file.parent / "own" / "rules.yaml"
        own.write_text(UNSUPPORTED)

        text = await findings(plan, places, bool)

        assert text.startswith("wrong for ")
        assert ": own/rules.yaml; nothing of it is served" in text
        assert f"own/{LACK}" in text
        own.unlink()
        assert not await findings(plan, places, lambda text: not text)


def test_the_example_has_nothing_wrong(plan: MeshPlan) -> None:
    assert not check_mesh(plan).problems


def test_proxy_configs_of_the_file_and_of_the_folder_say_how_agents_are_started(
    file: Path,
) -> None:
    def proxy_config(name: str, namespace: str, spec: str) -> str:
        return (
            "{apiVersion: networking.istio.io/v1beta1, kind: ProxyConfig, "
            f"metadata: {{name: {name}, namespace: {namespace}}}, spec: {{{spec}}}}}\n"
        )

    mesh = proxy_config("mesh", "istio-system", "concurrency: 2, environmentVariables: {A: m}")
    file.write_text(
        "workloads: [{name: one, replicas: 2, version: v1}, {name: other, namespace: far}]\n"
        f"configDir: own\nconfig:\n  - {mesh}"
    )
    selector = "selector: {matchLabels: {app: one, version: v1}}"
    own = file.parent / "own" / "rules.yaml"
    own.write_text(proxy_config("one", "default", f"{selector}, concurrency: 3"))

    starts = check_mesh(plan_mesh(load_mesh_file(file), Block(number=64))).starts

    variables = (("A", "m"),)
    assert starts == {
        "one-1": (3, variables),
        "one-2": (3, variables),
        "other": (2, variables),
    }
    own.write_text(proxy_config("one", "default", f"{selector}, concurrency: -3"))
    found = check_mesh(plan_mesh(load_mesh_file(file), Block(number=64)))
    assert found.problems
    assert found.starts["one-1"] == (2, variables), "what is refused starts nothing"
