"""A mesh that is described in Python instead of a mesh file; it is checked as a file is."""

import importlib.machinery
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from mesh_local._errors import MeshLocalError
from mesh_local.config._mesh_file import MeshFile, check_mesh_values

Program: TypeAlias = Sequence[str] | Callable[[], object]
"""The words of a command, or a function that runs until its process is asked to stop."""

_RUN_FUNCTION = str(Path(__file__).with_name("_function_process.py"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fields:
    port: int | None = None
    ports: Sequence[Mapping[str, Any]] = ()
    program: Program | None = None
    protocol: str = "http"
    agent_env: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)


class Workload:
    """One workload of a mesh that is described in Python: the fields of `workloads[]` in a file.

    port, protocol: its one port; or `ports`, mappings as in the file. program: the words of a
    command, or a function of a module, which is called in a process of its own, with `HOST` and
    `PORT` in its environment; None: the test starts it. agent_env: variables of its agent. Further
    fields have the names that they have in the file (`serviceAccount="web"`, `env={...}`).
    """

    def __init__(
        self,
        name: str,
        *,
        port: int | None = None,
        protocol: str = "http",
        ports: Sequence[Mapping[str, Any]] = (),
        program: Program | None = None,
        agent_env: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        self.name = name
        self._fields = _Fields(
            port=port,
            ports=ports,
            program=program,
            protocol=protocol,
            agent_env=agent_env or {},
            more=more,
        )

    def __repr__(self) -> str:
        return f"Workload({self.name!r})"

    def values(self) -> dict[str, Any]:
        """Return its fields as they stand in a mesh file; raises `MeshLocalError`."""
        given = self._fields
        if given.port is not None and given.ports:
            raise MeshLocalError(f"the workload {self.name} has a port and ports: give one of them")
        values: dict[str, Any] = {"name": self.name, **given.more}
        if given.port is not None:
            values["ports"] = [{"port": given.port, "protocol": given.protocol}]
        elif given.ports:
            values["ports"] = [dict(each) for each in given.ports]
        if given.agent_env:
            values["agentEnv"] = dict(given.agent_env)
        if given.program is not None:
            values["command"], added = command_of(self.name, given.program)
            values["env"] = {**added, **values.get("env", {})}
        return values


def described_mesh(
    workloads: Iterable[Workload],
    *,
    settings: Mapping[str, Any],
    config: Sequence[Mapping[str, Any]],
) -> MeshFile:
    """Check a description as a mesh file is checked; raises `ConfigurationError`, `MeshLocalError`.

    settings: the fields below `mesh` in a file. Relative paths start at the working directory.
    """
    values = {
        "mesh": dict(settings),
        "workloads": [each.values() for each in workloads],
        "config": [dict(each) for each in config],
    }
    return check_mesh_values(values, name="the mesh in Python")


def command_of(workload: str, program: Program) -> tuple[list[str], dict[str, str]]:
    """Return the command of a program, and the variables that it needs.

    Raises `MeshLocalError` if it is a function that another process can't find by its name.
    """
    if callable(program):
        module, name = _importable_name(workload, program)
        path = os.pathsep.join(each for each in map(os.path.abspath, sys.path) if each)
        return [sys.executable, _RUN_FUNCTION, module, name], {"PYTHONPATH": path}
    if isinstance(program, str):
        raise MeshLocalError(
            f"the program of the workload {workload} is the text {program!r}: give a list of words"
        )
    return list(program), {}


def _importable_name(workload: str, program: Callable[[], object]) -> tuple[str, str]:
    """Return the names of a function and its module, if another process finds it by them."""
    module = getattr(program, "__module__", None)
    name = getattr(program, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        raise _cannot(workload, repr(program), "it is no function; write one that runs it")
    if "<lambda>" in name or "<locals>" in name:
        raise _cannot(
            workload, f"{module}:{name}", "it is made inside another function; move it to a module"
        )
    if inspect.ismethod(program) and not inspect.isclass(program.__self__):
        raise _cannot(workload, f"{module}:{name}", "it is the method of an object")
    if module == "__main__" or not _can_be_imported(module):
        raise _cannot(
            workload,
            f"{module}:{name}",
            f"no other process can import the module {module}; move it to a file in sys.path",
        )
    return module, name


def _can_be_imported(module: str) -> bool:
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return False
    loaded = getattr(sys.modules.get(module), "__file__", None)
    # pytest's import mode `importlib` gives modules names by which no path leads to them.
    top = importlib.machinery.PathFinder.find_spec(module.partition(".")[0])
    return found is not None and top is not None and (loaded is None or found.origin == loaded)


def _cannot(workload: str, program: str, reason: str) -> MeshLocalError:
    return MeshLocalError(
        f"the program {program} of the workload {workload} can't be run in a process of its own: "
        f"{reason}"
    )
