"""What an edit of a mesh file asks of the mesh that runs."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_local import Block, MeshFile, MeshFileError, StateFolder, parse_mesh_file, plan_mesh
from mesh_local.config import _edit
from mesh_local.config._edit import Edit, Restart, edit_of
from mesh_local.config._shapes import Gateway, Mesh, Workload
from mesh_local.processes._specs import agent_process, app_process
from mesh_local.state._istio import instance_labels

Parse = Callable[[str], MeshFile]

TWO = """\
mesh: {{name: two, {mesh}}}
workloads:
  - name: backend
    ports: [{{port: 8080}}]
    command: [python3, backend.py]
    {backend}
  - name: frontend
    command: [python3, frontend.py]
"""


def two(parse: Parse, *, backend: str = "", mesh: str = "") -> MeshFile:
    return parse(TWO.format(backend=backend, mesh=mesh))


def nothing(file: MeshFile) -> Edit:
    return Edit(file=file, added=(), removed=(), restarted={}, kept=())


def test_a_file_saved_as_it_was_asks_for_nothing(parse: Parse) -> None:
    edit = edit_of(two(parse), two(parse))
    assert edit == nothing(two(parse))
    assert not edit.changes_processes


def test_lines_that_move_ask_for_nothing(parse: Parse) -> None:
    moved = parse("# a comment\n\n" + TWO.format(backend="", mesh=""))
    edit = edit_of(two(parse), moved)
    assert edit == nothing(moved)
    assert edit.file.lines["workloads"] == 4, "mistakes are reported by the new lines"


def test_workloads_are_added_and_removed_by_name(parse: Parse) -> None:
    new = parse(
        "workloads:\n  - name: frontend\n    command: [python3, frontend.py]\n  - name: cart\n"
        "mesh: {name: two}\n"
    )
    edit = edit_of(two(parse), new)
    assert (edit.added, edit.removed, edit.restarted) == (("cart",), ("backend",), {})


def test_replicas_come_and_go_one_by_one(parse: Parse) -> None:
    three, four = (two(parse, backend=f"replicas: {number}") for number in (3, 4))
    assert edit_of(three, four).added == ("backend-4",)
    assert edit_of(four, three).removed == ("backend-4",)
    one = edit_of(two(parse), three)
    assert (one.added, one.removed) == (("backend-1", "backend-2", "backend-3"), ("backend",))


@pytest.mark.parametrize(
    ("field", "program", "agent"),
    [
        ("env: {GREETING: hello}", True, False),
        ("directory: shop", True, False),
        ("agentEnv: {PKCS8_KEY: 'true'}", False, True),
        ("labels: {tier: inner}", False, True),
        ("version: v2", False, True),
        ("locality: here/a", False, True),
        ("serviceAccount: other", True, True),
        ("namespace: shop", True, True),
    ],
)
def test_a_field_of_one_workload_concerns_its_processes_alone(
    tmp_path: Path, parse: Parse, field: str, *, program: bool, agent: bool
) -> None:
    (tmp_path / "shop").mkdir()
    edit = edit_of(two(parse), two(parse, backend=field))
    expected = Restart(fields=(field.partition(":")[0],), program=program, agent=agent)
    assert edit.restarted == {"backend": expected}
    assert (edit.added, edit.removed, edit.kept) == ((), (), ())


def test_proxy_configs_that_changed_have_agents_started_again(parse: Parse) -> None:
    edit = edit_of(two(parse), two(parse, backend="agentEnv: {PKCS8_KEY: 'true'}"))
    before = {"backend": 1, "frontend": 1, "gone": 1}

    changed = edit.with_starts(before, {"backend": 2, "frontend": 2, "new": 2})

    assert changed.restarted == {
        "backend": Restart(fields=("agentEnv", "ProxyConfig"), program=False, agent=True),
        "frontend": Restart(fields=("ProxyConfig",), program=False, agent=True),
    }
    assert edit.with_starts(before, before) == edit


def test_a_command_and_the_first_port_are_the_program_s(parse: Parse) -> None:
    other = parse(TWO.format(backend="", mesh="").replace("backend.py", "other.py"))
    assert edit_of(two(parse), other).restarted["backend"] == Restart(
        fields=("command",), program=True, agent=False
    )
    further = TWO.format(backend="", mesh="").replace("{port: 8080}", "{port: 8080}, {port: 9000}")
    edit = edit_of(two(parse), parse(further))
    assert (edit.changes_processes, edit.updated) == (False, ("ports of backend",))
    first = TWO.format(backend="", mesh="").replace("{port: 8080}", "{port: 9000}, {port: 8080}")
    assert edit_of(two(parse), parse(first)).restarted["backend"] == Restart(
        fields=("ports",), program=True, agent=False
    )


@pytest.mark.parametrize(
    ("setting", "value", "running"),
    [
        ("trustDomain", "example.org", "cluster.local"),
        ("certificateLifetime", "2h", "1h"),
        ("httpProxyPort", "15003", "15002"),
        ("dnsPort", "0", "15053"),
        ("drain", "6s", "5s"),
    ],
)
def test_what_all_processes_were_started_with_is_kept_and_reported_with_its_line(
    parse: Parse, setting: str, value: str, running: str
) -> None:
    new = parse(
        f"mesh:\n  name: two\n  {setting}: {value}\n"
        "workloads: [{name: frontend, command: [python3, frontend.py]}, {name: cart}]\n"
    )
    edit = edit_of(two(parse), new)
    (kept,) = edit.kept
    assert str(kept) == (
        f"{new.path}:3: mesh.{setting}: can't be changed while the mesh runs, which goes on with "
        f"{running}: stop it and run it again"
    )
    assert edit.file.mesh == two(parse).mesh
    assert (edit.added, edit.removed) == (("cart",), ("backend",)), "the rest acts"


def test_a_setting_that_is_left_out_is_reported_at_the_line_of_those_around_it(
    parse: Parse,
) -> None:
    edit = edit_of(two(parse, mesh="trustDomain: example.org"), two(parse))
    (kept,) = edit.kept
    assert kept.line == 1
    assert "goes on with example.org" in kept.message


def test_name_and_mutual_tls_change_while_the_mesh_runs(parse: Parse) -> None:
    new = parse(TWO.format(backend="", mesh="mtls: PERMISSIVE").replace("name: two", "name: x"))
    edit = edit_of(two(parse), new)
    assert edit == replace(nothing(new), updated=("mesh.name", "mesh.mtls"))
    assert (edit.file.name, edit.file.mesh.mtls) == ("x", "PERMISSIVE")


def test_configuration_and_checks_change_without_a_process(tmp_path: Path, parse: Parse) -> None:
    (tmp_path / "rules").mkdir()
    document = "{apiVersion: a/v1, kind: B, metadata: {name: c}}"
    check = "{name: d, from: frontend, request: GET http://backend/, expect: {status: 200}}"
    new = parse(
        TWO.format(backend="", mesh="")
        + f"config: [{document}]\nconfigDir: rules\nchecks: [{check}]\n"
    )
    expected = ("config", "configDir", "checks")
    assert edit_of(two(parse), new) == replace(nothing(new), updated=expected)


def test_a_workload_that_contradicts_a_setting_that_is_kept_is_a_mistake(parse: Parse) -> None:
    new = parse(
        "mesh: {name: two, httpProxyPort: 15003}\n"
        "workloads:\n  - name: backend\n    ports:\n      - {port: 15002}\n"
    )
    with pytest.raises(MeshFileError) as caught:
        edit_of(two(parse), new)
    kept, contradiction = str(caught.value).splitlines()
    assert "mesh.httpProxyPort: can't be changed while the mesh runs" in kept
    assert contradiction == (
        f"{new.path}:5: workloads[0].ports[0].port: 15002 is the mesh's httpProxyPort; change one "
        "of the two"
    )


def test_every_field_of_a_file_has_a_rule() -> None:
    """One that is added to a mesh file must be thought of here."""
    assert set(Workload.__struct_fields__) == set(_edit.WORKLOAD_FIELDS)
    assert set(Mesh.__struct_fields__) == {*_edit.KEPT_SETTINGS, *_edit.CHANGED_SETTINGS}


WORKLOADS = st.builds(
    Workload,
    name=st.just("a"),
    namespace=st.sampled_from(["default", "shop"]),
    service=st.sampled_from(["", "a", "b"]),
    version=st.sampled_from(["", "v1"]),
    locality=st.sampled_from(["", "here/a"]),
    service_account=st.sampled_from(["", "a", "web"]),
    ports=st.sampled_from(
        [
            (),
            ({"port": 80},),
            ({"port": 81},),
            ({"port": 80}, {"port": 81}),
            ({"port": 80, "name": "web"},),
        ]
    ).map(lambda each: msgspec.convert(each, Workload.__annotations__["ports"])),
    command=st.sampled_from([(), ("true",), ("false",)]),
    directory=st.sampled_from([".", "./", "there"]),
    env=st.sampled_from([{}, {"A": "1"}, {"A": "1", "B": "2"}, {"B": "2", "A": "1"}]),
    agent_env=st.sampled_from([{}, {"PKCS8_KEY": "true"}]),
    labels=st.sampled_from([{}, {"tier": "inner"}]),
    proxyless=st.booleans(),
    gateway=st.sampled_from(
        [None, None, None, Gateway(ports=(80,)), Gateway(ports=(81,), address="127.0.0.2")]
    ),
).map(lambda each: msgspec.structs.replace(each, command=()) if each.gateway else each)


@given(WORKLOADS, WORKLOADS)
def test_exactly_the_processes_that_would_be_started_otherwise_are_started_again(
    old: Workload, new: Workload
) -> None:
    empty = parse_mesh_file("workloads: [{name: a}]\n", path=Path("mesh.yaml"))
    files = [replace(empty, workloads=(each,)) for each in (old, new)]
    before, after = map(_started, files)
    restart = edit_of(*files).restarted.get("a", Restart(fields=(), program=False, agent=False))
    assert restart.program == (before["program"] != after["program"])
    assert restart.agent == (before["agent"] != after["agent"])
    assert bool(restart.fields) == (restart.program or restart.agent)


def _started(file: MeshFile) -> Mapping[str, Any]:
    """Return all that decides about the processes of the only replica."""
    plan, state = plan_mesh(file, Block(number=64)), StateFolder(Path("/state"))
    (instance,) = plan.instances
    environ = {"PATH": "/usr/bin:/bin"}
    return {
        "program": app_process(plan, instance, state, environ),
        "agent": (agent_process(plan, instance, state, environ), instance_labels(instance)),
    }
