"""A whole service mesh on one machine, from one YAML file."""

from mesh_configfile import Problem
from mesh_local._addresses import Block, WorkloadAddresses
from mesh_local._checks import CheckResult, run_check
from mesh_local._children import Child, ChildState, OnExit
from mesh_local._errors import (
    AddressError,
    ConfigurationError,
    MeshFileError,
    MeshLocalError,
    NotReady,
    ProcessEnded,
    StateError,
)
from mesh_local._istio import mesh_config, mesh_documents
from mesh_local._mesh import prepared, running_mesh
from mesh_local._mesh_file import CheckPlan, MeshFile, load_mesh_file, parse_mesh_file
from mesh_local._plan import Instance, MeshPlan, plan_mesh
from mesh_local._running import RunningMesh, RunningWorkload
from mesh_local._state import StateFolder
from mesh_local._status import AgentStatus, fetch_status

__all__ = [
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
    "MeshFileError",
    "MeshLocalError",
    "NotReady",
    "Problem",
    "ProcessEnded",
    "StateError",
]
