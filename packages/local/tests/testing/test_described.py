"""A mesh that is described in Python is checked as a file is."""

import asyncio
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mesh_local import ConfigurationError, MeshLocalError, Workload
from mesh_local.testing._described import command_of, described_mesh


def mesh_of(*workloads: Workload, **more: Any) -> Any:
    return described_mesh(workloads, **{"settings": {}, "config": [], **more})


def test_a_workload_has_the_fields_of_a_file() -> None:
    file = mesh_of(
        Workload("a", port=80, protocol="tcp", agent_env={"A": "b"}, serviceAccount="c"),
        Workload("b", ports=[{"port": 1}, {"port": 2}], program=["x", "y"]),
        settings={"trustDomain": "example.org"},
        config=[{"apiVersion": "v1", "kind": "K", "metadata": {}}],
    )
    first, second = file.workloads
    assert (first.ports[0].port, first.ports[0].protocol) == (80, "tcp")
    assert (first.agent_env, first.service_account) == ({"A": "b"}, "c")
    assert ([each.port for each in second.ports], second.command) == ([1, 2], ("x", "y"))
    assert (file.mesh.trust_domain, file.config[0]["kind"]) == ("example.org", "K")
    assert file.directory == Path.cwd()


@pytest.mark.parametrize(
    ("workload", "sentence"),
    [
        (Workload("A"), 'the mesh in Python: workloads[0].name: "A" is not a name'),
        (Workload("a", prots=[]), "workloads[0].prots: unknown field; did you mean ports?"),
        (Workload("a", agent_env={"POD_NAME": "x"}), "workloads[0].agentEnv.POD_NAME: is given"),
    ],
)
def test_mistakes_are_reported_as_in_a_file(workload: Workload, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        mesh_of(workload)
    assert sentence in str(caught.value)


def test_a_port_is_given_once() -> None:
    with pytest.raises(MeshLocalError, match="has a port and ports: give one of them"):
        mesh_of(Workload("a", port=1, ports=[{"port": 2}]))


def inner() -> Callable[[], None]:
    def program() -> None:
        pass

    return program


class Service:
    def run(self) -> None:
        pass


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (lambda: None, "it is made inside another function; move it to a module"),
        (inner(), "it is made inside another function; move it to a module"),
        (functools.partial(print, "x"), "it is no function; write one that runs it"),
        (Service().run, "it is the method of an object"),
        (inner, "no other process can import the module"),  # pytest imports it by its path
        ("python3 x.py", "is the text 'python3 x.py': give a list of words"),
    ],
)
def test_a_program_that_no_other_process_finds_is_refused(program: Any, reason: str) -> None:
    with pytest.raises(MeshLocalError) as caught:
        command_of("shop", program)
    assert reason in str(caught.value)
    assert "of the workload shop" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_a_function_runs_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    name = f"shop_{kind.replace(' ', '_')}"
    (tmp_path / f"{name}.py").write_text(
        f"import os, sys\nclass Shop:\n    @staticmethod\n    {kind} main():\n"
        "        print(os.getpid(), sys.argv[1:], sys.modules['mesh_local'] "
        "if 'mesh_local' in sys.modules else None)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    command, variables = command_of("a", __import__(name).Shop.main)
    process = await asyncio.create_subprocess_exec(
        *command, env=variables, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert (command[0], output) == (sys.executable, f"{process.pid} [] None\n".encode())
