"""A whole service mesh on one machine: from one YAML file, or from Python and in tests.

The parts are loaded when they are first used: the pytest plugin costs nothing where no test asks
for a mesh.
"""

from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it, without loading `typing`
if TYPE_CHECKING:
    from mesh_configfile import Problem
    from mesh_local._errors import (
        AddressError,
        ConfigurationError,
        FaultError,
        MeshFileError,
        MeshLocalError,
        NoAnswer,
        NotReady,
        ProcessEnded,
        StateError,
    )
    from mesh_local._running_mesh import RunningMesh, RunningWorkload
    from mesh_local.config._addresses import Block, WorkloadAddresses
    from mesh_local.config._mesh_file import CheckPlan, MeshFile, load_mesh_file, parse_mesh_file
    from mesh_local.config._plan import Instance, MeshPlan, plan_mesh
    from mesh_local.lifetime._mesh import prepared, running_mesh
    from mesh_local.observation._agent_status import AgentStatus, fetch_status
    from mesh_local.observation._checks import CheckResult, run_check
    from mesh_local.processes._children import Child, ChildState, OnExit
    from mesh_local.state._folder import StateFolder
    from mesh_local.state._istio import mesh_config, mesh_documents
    from mesh_local.testing._blocking import BlockingFault, BlockingMesh
    from mesh_local.testing._described import Workload
    from mesh_local.testing._mesh import Mesh
    from mesh_local.testing._requests import Response
    from mesh_local.testing._running import Running, running
    from mesh_local.testing.faults._fault import Fault

__all__ = [
    # a mesh in tests
    "BlockingFault",
    "BlockingMesh",
    "Fault",
    "Mesh",
    "Response",
    "Running",
    "Workload",
    "running",
    # the file
    "MeshFile",
    "load_mesh_file",
    "parse_mesh_file",
    # what it becomes
    "Block",
    "Instance",
    "MeshPlan",
    "WorkloadAddresses",
    "mesh_config",
    "mesh_documents",
    "plan_mesh",
    # run it
    "AgentStatus",
    "Child",
    "ChildState",
    "OnExit",
    "RunningMesh",
    "RunningWorkload",
    "StateFolder",
    "fetch_status",
    "prepared",
    "running_mesh",
    # check it
    "CheckPlan",
    "CheckResult",
    "run_check",
    # errors
    "AddressError",
    "ConfigurationError",
    "FaultError",
    "MeshFileError",
    "MeshLocalError",
    "NoAnswer",
    "NotReady",
    "Problem",
    "ProcessEnded",
    "StateError",
]

_LOADED_WHEN_USED = {
    "AddressError": "_errors",
    "AgentStatus": "observation._agent_status",
    "Block": "config._addresses",
    "BlockingFault": "testing._blocking",
    "BlockingMesh": "testing._blocking",
    "CheckPlan": "config._mesh_file",
    "CheckResult": "observation._checks",
    "Child": "processes._children",
    "ChildState": "processes._children",
    "ConfigurationError": "_errors",
    "Fault": "testing.faults._fault",
    "FaultError": "_errors",
    "Instance": "config._plan",
    "Mesh": "testing._mesh",
    "MeshFile": "config._mesh_file",
    "MeshFileError": "_errors",
    "MeshLocalError": "_errors",
    "MeshPlan": "config._plan",
    "NoAnswer": "_errors",
    "NotReady": "_errors",
    "OnExit": "processes._children",
    "Problem": "_errors",
    "ProcessEnded": "_errors",
    "Response": "testing._requests",
    "Running": "testing._running",
    "RunningMesh": "_running_mesh",
    "RunningWorkload": "_running_mesh",
    "StateError": "_errors",
    "StateFolder": "state._folder",
    "Workload": "testing._described",
    "WorkloadAddresses": "config._addresses",
    "fetch_status": "observation._agent_status",
    "load_mesh_file": "config._mesh_file",
    "mesh_config": "state._istio",
    "mesh_documents": "state._istio",
    "parse_mesh_file": "config._mesh_file",
    "plan_mesh": "config._plan",
    "prepared": "lifetime._mesh",
    "run_check": "observation._checks",
    "running": "testing._running",
    "running_mesh": "lifetime._mesh",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if (home := _LOADED_WHEN_USED.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value
