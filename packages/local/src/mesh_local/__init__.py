"""A whole service mesh on one machine, from one YAML file."""

from mesh_configfile import Problem
from mesh_local._errors import (
    AddressError,
    ConfigurationError,
    MeshFileError,
    MeshLocalError,
    NotReady,
    ProcessEnded,
    StateError,
)
from mesh_local._lifetime import prepared, running_mesh
from mesh_local._running_mesh import RunningMesh, RunningWorkload
from mesh_local.config._addresses import Block, WorkloadAddresses
from mesh_local.config._mesh_file import CheckPlan, MeshFile, load_mesh_file, parse_mesh_file
from mesh_local.config._plan import Instance, MeshPlan, plan_mesh
from mesh_local.observation._agent_status import AgentStatus, fetch_status
from mesh_local.observation._checks import CheckResult, run_check
from mesh_local.processes._children import Child, ChildState, OnExit
from mesh_local.state._folder import StateFolder
from mesh_local.state._istio import mesh_config, mesh_documents

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
