"""The programs that a mesh runs, with their arguments and environment.

The control plane and the agents get a small environment of their own: variables of the user's shell
(proxies, other meshes' settings) must not change how a mesh behaves. Workload programs get the
user's environment, and the variables by which they find the mesh.
"""

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from mesh_listening import LONGEST_SOCKET_PATH_BYTES
from mesh_local._errors import MeshLocalError
from mesh_local.capture import _within
from mesh_local.capture._rules import PROXY_GROUP
from mesh_local.config import _plan as ports
from mesh_local.config._mesh_file import MeshFile
from mesh_local.config._plan import Instance, MeshPlan
from mesh_local.config._shapes import Workload
from mesh_local.state._folder import ENVOY_FILES, StateFolder
from mesh_local.state._istio import ROOT_NAMESPACE
from mesh_local.state._tokens import JWT_AUDIENCE, JWT_ISSUER

if TYPE_CHECKING:
    from mesh_discovery import StartSettings

_PASSED_ON = (
    "ENVOY_PATH",
    "HOME",
    "ISTIO_DELTA_XDS",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "PATH",
    "PYTHONPATH",
    "SECRET_GRACE_PERIOD_RATIO",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
)


_WITHIN = Path(_within.__file__)
_CERTIFICATES = "./var/lib/istio/data"


class Role(StrEnum):
    """The roles of processes in the mesh; a role decides when it starts and how it stops."""

    CONTROL_PLANE = "control plane"
    AGENT = "agent"
    APP = "app"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """A program to run.

    stop_timeout_s: how long it may take to end after SIGTERM before it is killed.
    """

    name: str
    role: Role
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path
    log: Path
    stop_timeout_s: float = 5.0


def control_plane_process(
    plan: MeshPlan,
    state: StateFolder,
    environ: Mapping[str, str],
    *,
    allow_unsupported: bool = False,
) -> ProcessSpec:
    """Return the control plane's process: configuration from the state folder, one address."""
    host = plan.block.control_plane
    # All of this mesh is on this machine, so that issuers of tokens may be too.
    own_networks = ["127.0.0.0/8", "::1", *([str(plan.block)] if plan.is_redirected else [])]
    lifetime = f"{plan.file.certificate_lifetime.total_seconds():g}s"
    options = {
        "--config-dir": state.config,
        "--mesh-config": state.mesh_config,
        "--ca-dir": state.ca,
        "--jwks-file": state.jwks,
        "--jwt-issuer": JWT_ISSUER,
        "--jwt-audience": JWT_AUDIENCE,
        "--http-addr": f"{host}:{plan.http_port}",
        "--secure-grpc-addr": f"{host}:{ports.SECURE_PORT}",
        "--monitoring-addr": f"{plan.monitoring_host}:{ports.MONITORING_PORT}",
        "--key-set-networks": ",".join(own_networks),
    }
    arguments = [word for name, value in options.items() for word in (name, str(value))]
    if allow_unsupported:
        arguments.append("--allow-unsupported")
    return ProcessSpec(
        name="control-plane",
        role=Role.CONTROL_PLANE,
        arguments=(sys.executable, "-m", "mesh_discovery", "discovery", *arguments),
        environment={
            **_own_environment(environ),
            "POD_NAME": "control-plane",
            "POD_NAMESPACE": ROOT_NAMESPACE,
            "TRUST_DOMAIN": plan.file.mesh.trust_domain,
            "DEFAULT_WORKLOAD_CERT_TTL": lifetime,
            "MAX_WORKLOAD_CERT_TTL": lifetime,
        },
        directory=state.path,
        log=state.logs / "control-plane.log",
    )


def agent_process(
    plan: MeshPlan,
    instance: Instance,
    state: StateFolder,
    environ: Mapping[str, str],
    *,
    start: "StartSettings | None" = None,
) -> ProcessSpec:
    """Return a workload's agent, which starts its Envoy; it runs in a directory of its own.

    start: the settings in ProxyConfigs, which go into PROXY_CONFIG as an injector writes them: the
    variables of the agent's own, and those of the mesh file, go before them.

    Raises `MeshLocalError` if a proxyless program could not connect to it there.
    """
    addresses = instance.addresses
    drain = plan.file.drain.total_seconds()
    mode = "REDIRECT" if plan.is_redirected else "NONE"
    proxy_config: dict[str, object] = {
        "discoveryAddress": plan.discovery_address,
        "interceptionMode": mode,
        "concurrency": 1,
        "terminationDrainDuration": f"{drain:g}s",
    }
    if start is not None and start.concurrency is not None:
        proxy_config["concurrency"] = start.concurrency
    if start is not None and start.variables:
        proxy_config["proxyMetadata"] = dict(start.variables)
    further = {}
    if not plan.is_redirected:
        further = {
            "ISTIO_META_APP_ADDRESS": addresses.app,
            "ISTIO_META_OUTBOUND_BIND_ADDRESS": addresses.outbound,
            "MESH_AGENT_BIND_ADDRESS": addresses.inbound,
        }
    gateway = instance.workload.gateway
    if gateway is not None:
        further |= {"ISTIO_META_OUTBOUND_BIND_ADDRESS": gateway.address}
    elif instance.workload.proxyless:
        _refuse_long_path(state.workload(instance.name) / ENVOY_FILES / "XDS", instance.workload)
        further |= {"DISABLE_ENVOY": "true", "OUTPUT_CERTS": _CERTIFICATES}
    elif plan.dns_port is not None:
        further |= {
            "ISTIO_META_DNS_CAPTURE": "true",
            "DNS_PROXY_ADDR": names_at(plan, instance),
        }
    return ProcessSpec(
        name=f"{instance.name} agent",
        role=Role.AGENT,
        arguments=(
            *_into_network(instance, group=PROXY_GROUP),
            sys.executable,
            "-m",
            "mesh_agent",
            "proxy",
            "sidecar" if gateway is None else "router",
        ),
        environment={
            **_own_environment(environ),
            "POD_NAME": instance.name,
            "POD_NAMESPACE": instance.workload.namespace,
            "SERVICE_ACCOUNT": instance.service_account,
            "INSTANCE_IP": addresses.inbound,
            "TRUST_DOMAIN": plan.file.mesh.trust_domain,
            "PROXY_CONFIG": json.dumps(proxy_config),
            "ISTIOD_SAN": ports.CONTROL_PLANE_NAME,
            "ISTIO_META_WORKLOAD_NAME": instance.workload.name,
            "ISTIO_META_INTERCEPTION_MODE": mode,
            **further,
            "SECRET_TTL": f"{plan.file.certificate_lifetime.total_seconds():g}s",
            **instance.workload.agent_env,
        },
        directory=state.workload(instance.name),
        log=state.logs / f"{instance.name}.agent.log",
        stop_timeout_s=drain + 10.0,
    )


def _into_network(instance: Instance, *, group: int | None = None) -> tuple[str, ...]:
    """Return the words before a command that run it in a workload's own network, if it has one."""
    if (network := instance.addresses.network) is None:
        return ()
    return (sys.executable, "-I", "-S", str(_WITHIN), network, "-" if group is None else str(group))


def names_at(plan: MeshPlan, instance: Instance) -> str:
    """Return the address and port at which a workload's agent answers DNS."""
    addresses = instance.addresses
    host = addresses.inbound if addresses.network is None else addresses.outbound
    return f"{host}:{plan.dns_port}"


def _refuse_long_path(socket: Path, workload: Workload) -> None:
    """An agent listens by a path relative to its directory; a program elsewhere needs the whole."""
    if (length := len(os.fsencode(socket))) > LONGEST_SOCKET_PATH_BYTES:
        raise MeshLocalError(
            f"workload {workload.name} is proxyless, and the path of its configuration socket, "
            f"{socket}, is {length} bytes long; programs can connect to at most "
            f"{LONGEST_SOCKET_PATH_BYTES}: name a shorter folder with --state-dir"
        )


def app_process(
    plan: MeshPlan, instance: Instance, state: StateFolder, environ: Mapping[str, str]
) -> ProcessSpec | None:
    """Return the workload's own program; None if the user starts it.

    Raises `MeshLocalError` if there is no such program.
    """
    workload = instance.workload
    if not workload.command:
        return None
    directory = plan.file.directory / workload.directory
    environment = {**environ, **program_environment(plan, instance, state)}
    program = _program_of(workload, plan.file, environ)
    if program is None:
        raise MeshLocalError(_without_program(workload, plan.file))
    return ProcessSpec(
        name=instance.name,
        role=Role.APP,
        arguments=(*_into_network(instance), program, *workload.command[1:]),
        environment=environment,
        directory=directory,
        log=state.logs / f"{instance.name}.log",
    )


def missing_programs(file: MeshFile, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return a sentence for each workload whose program is not there."""
    return tuple(
        _without_program(each, file)
        for each in file.workloads
        if each.command and _program_of(each, file, environ) is None
    )


def _program_of(workload: Workload, file: MeshFile, environ: Mapping[str, str]) -> str | None:
    search_path = {**environ, **workload.env}.get("PATH", "")
    return find_program(workload.command[0], file.directory / workload.directory, search_path)


def _without_program(workload: Workload, file: MeshFile) -> str:
    return (
        f'{_place(file, workload)}there is no program "{workload.command[0]}", neither in '
        f"PATH nor in {file.directory / workload.directory}"
    )


def _place(file: MeshFile, workload: Workload) -> str:
    """Return where a workload's command stands; a mesh in Python has no lines."""
    field = f"workloads[{file.workloads.index(workload)}].command"
    if not file.lines:
        return f"workload {workload.name}: "
    return f"{file.path}:{file.line_of(field)}: {field}: "


def program_environment(plan: MeshPlan, instance: Instance, state: StateFolder) -> dict[str, str]:
    """Return the variables that the mesh and its file set for a workload's program."""
    given = app_environment(plan, instance)
    if instance.workload.proxyless:
        given["GRPC_XDS_BOOTSTRAP"] = str(grpc_bootstrap(state.workload(instance.name)))
    return {**given, **instance.workload.env}


def app_environment(plan: MeshPlan, instance: Instance) -> dict[str, str]:
    """Return the variables that a workload's program gets; the README lists them for users."""
    addresses = instance.addresses
    given = {
        "HOST": addresses.app,
        "MESH_WORKLOAD": instance.name,
        "MESH_NAMESPACE": instance.workload.namespace,
        "MESH_SPIFFE_ID": instance.spiffe_id,
        "MESH_TRUST_DOMAIN": plan.file.mesh.trust_domain,
        "MESH_INBOUND_ADDRESS": addresses.inbound,
        # Without it a log stays empty until a buffer is full.
        "PYTHONUNBUFFERED": "1",
    }
    if instance.workload.ports:
        given["PORT"] = str(instance.workload.ports[0].port)
    if instance.workload.proxyless:
        given["MESH_OUTBOUND_ADDRESS"] = addresses.outbound
        # A proxy in the user's environment would come before the mesh.
        return given | {"no_grpc_proxy": "*"}
    if plan.dns_port is not None:
        given["MESH_DNS"] = names_at(plan, instance)
    if plan.is_redirected:
        # A proxy in the user's environment is not there in this network.
        return given | {"no_proxy": "*", "NO_PROXY": "*"}
    given["MESH_OUTBOUND_ADDRESS"] = addresses.outbound
    if proxy_port := plan.file.mesh.http_proxy_port:
        proxy = f"http://{addresses.outbound}:{proxy_port}"
        # Programs disagree on the case: curl reads only the first, others only the second.
        given |= {"http_proxy": proxy, "HTTP_PROXY": proxy}
        given |= {"no_proxy": "localhost,127.0.0.1", "NO_PROXY": "localhost,127.0.0.1"}
    return given


def grpc_bootstrap(directory: Path) -> Path:
    """Return the file that an agent in this directory writes for a proxyless program."""
    return directory / ENVOY_FILES / "grpc-bootstrap.json"


def find_program(name: str, directory: Path, search_path: str) -> str | None:
    """Return the program that a command's first word names: a path, or a name in PATH."""
    if "/" in name:
        return shutil.which(str(directory / name))
    return shutil.which(name, path=search_path)


def _own_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in _PASSED_ON if name in environ}
