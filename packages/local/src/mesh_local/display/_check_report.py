"""The report of `--once`: the way of each check's request, the identities seen, the answer."""

from collections.abc import Iterator
from datetime import datetime

from mesh_local._duration_text import brief, milliseconds
from mesh_local._running_mesh import RunningMesh
from mesh_local.config._rules import OUTSIDER, USER
from mesh_local.observation._checks import CheckResult, Hop, workload_of
from mesh_local.processes._specs import names_at

_BODY_CHARACTERS = 300


def mesh_lines(mesh: RunningMesh, now: datetime) -> Iterator[str]:
    """The lines about the mesh: each workload's addresses, identity and certificate."""
    settings = mesh.plan.file.mesh
    yield f"The mesh {mesh.plan.file.name} runs; mutual TLS is {settings.mtls}."
    yield f"  control plane at {mesh.plan.discovery_address}"
    for workload in mesh.workloads:
        instance, status = workload.instance, workload.status
        yield f"  {instance.full_name}"
        proxyless = instance.workload.proxyless
        gateway = instance.workload.gateway
        envoy = "no Envoy" if proxyless else f"its Envoy at {instance.addresses.inbound}"
        if gateway is None:
            yield f"    program at {instance.addresses.app}, {envoy}"
        else:
            yield f"    a gateway at {gateway.address} port {', '.join(map(str, gateway.ports))}"
        yield f"    identity    {instance.spiffe_id}"
        if mesh.plan.dns_port is not None and not proxyless and gateway is None:
            yield f"    names at    {names_at(mesh.plan, instance)} (DNS)"
        if status is not None and status.serial and status.not_after:
            yield f"    certificate serial {status.serial}"
            yield (
                f"                expires {status.not_after:%Y-%m-%d %H:%M:%S} UTC, "
                f"in {brief(status.not_after - now)}"
            )


def check_lines(
    number: int, result: CheckResult, mesh: RunningMesh, now: datetime
) -> Iterator[str]:
    """The lines about one check: the request, its way, the identity seen, the answer."""
    verdict = "passed" if result.passed else "FAILED"
    yield f"Check {number}: {result.plan.check.name}: {verdict}"
    yield from (f"  {step}" for step in _steps(result, mesh, now))
    yield from (f"  wrong: {failure}" for failure in result.failures)


def _steps(result: CheckResult, mesh: RunningMesh, now: datetime) -> Iterator[str]:
    request, route = result.plan.request, f"{result.route[0]}:{result.route[1]}"
    match result.plan.check.from_:
        case _ if result.plan.check.via:
            yield f"you asked the gateway {result.plan.check.via} at {route}: {request}"
        case name if name == USER:
            yield f"you asked {request.host}'s program at {route}: {request}"
        case name if name == OUTSIDER:
            yield (
                f"a program without a certificate asked {request.host}'s Envoy at {route}: "
                f"{request}"
            )
        case name if mesh.plan.is_redirected:
            yield f"in {name}'s network, {route} was asked: {request}"
        case name:
            yield f"in place of {name}'s program, {name}'s Envoy at {route} was asked: {request}"
    if result.hop is not None:
        yield from _hop(result.hop, mesh, now)
    if result.answer is None:
        yield f"refused: {result.refusal}"
        return
    body = " ".join(result.answer.body.split())
    shown = body if len(body) <= _BODY_CHARACTERS else f"{body[:_BODY_CHARACTERS]}…"
    yield f"answer after {milliseconds(result.answer.elapsed_s)}: {result.answer.status} {shown}"


def _hop(hop: Hop, mesh: RunningMesh, now: datetime) -> Iterator[str]:
    """The lines about a mutual-TLS connection, from the header that the called Envoy set."""
    caller, callee = workload_of(hop.caller, mesh.plan), workload_of(hop.callee, mesh.plan)
    if caller is not None and callee is not None:
        yield (
            f"{caller.workload.name}'s program -> {caller.workload.name}'s Envoy "
            f"{caller.addresses.outbound} -> mutual TLS -> {callee.workload.name}'s Envoy "
            f"{callee.addresses.inbound} -> {callee.workload.name}'s program {callee.addresses.app}"
        )
    yield f"the called side saw the caller as {hop.caller}"
    if caller is None:
        return
    status = mesh.workload(caller.name).status
    if status is not None and status.serial and status.not_after:
        yield (
            f"by its certificate: serial {status.serial}, expires "
            f"{status.not_after:%Y-%m-%d %H:%M:%S} UTC (in {brief(status.not_after - now)})"
        )
