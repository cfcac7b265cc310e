"""Runs a mesh file's checks: each sends one request and compares the answer."""

import re
from dataclasses import dataclass

from mesh_local._errors import NoAnswer
from mesh_local.config._addresses import Inside
from mesh_local.config._mesh_file import CheckPlan
from mesh_local.config._plan import Instance, MeshPlan
from mesh_local.config._rules import OUTSIDER, USER
from mesh_local.config._shapes import Expectation
from mesh_local.observation._http import Answer, fetch
from mesh_local.observation._missing_service import UNREACHED, missing_service

FORWARDED_CERTIFICATE = "x-forwarded-client-cert"

_IDENTITY = r"(spiffe://[^;,\"'\s\\]+)"
_HOP = re.compile(rf"By={_IDENTITY}[^,]*?URI={_IDENTITY}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One mutual-TLS connection, as the called side's Envoy saw it."""

    callee: str
    caller: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The outcome of a check; it passed if there are no failures.

    route: the host and port that the request was sent to.
    hop: the mutual-TLS connection that the answer shows, if it shows one.
    """

    plan: CheckPlan
    route: tuple[str, int]
    answer: Answer | None
    refusal: str | None
    hop: Hop | None
    failures: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.failures


async def run_check(check: CheckPlan, mesh: MeshPlan) -> CheckResult:
    """Send a check's request and compare the answer with the expected one."""
    host, port, target = _route(check, mesh)
    answer, refusal = None, None
    try:
        answer = await fetch(
            host,
            port,
            method=check.request.method,
            target=target,
            authority=check.request.authority,
        )
    except NoAnswer as error:
        refusal = str(error)
    failures = unmet(check.check.expect, answer, refusal)
    if failures and (answer is None or answer.status == UNREACHED):
        failures += _missing(check, mesh)
    return CheckResult(
        plan=check,
        route=(str(host), port),
        answer=answer,
        refusal=refusal,
        hop=None if answer is None else find_hop(answer),
        failures=tuple(failures),
    )


def _missing(check: CheckPlan, mesh: MeshPlan) -> list[str]:
    """Return why a workload's request leads nowhere, if the mesh file tells."""
    if check.check.via or check.check.from_ in (USER, OUTSIDER):
        return []
    namespace = mesh.instances_of(check.check.from_)[0].workload.namespace
    sentence = missing_service(mesh, namespace, check.request.host, check.request.port)
    return [] if sentence is None else [sentence]


def _route(check: CheckPlan, mesh: MeshPlan) -> tuple[str | Inside, int, str]:
    """Return host, port and request target; Envoy's HTTP proxy takes whole URLs as target."""
    request = check.request
    if check.check.via:
        gateway = mesh.instances_of(check.check.via)[0].workload.gateway
        if gateway is not None:
            return gateway.address, request.port, request.path
    if check.check.from_ in (USER, OUTSIDER):
        addresses = mesh.serving(request.host, request.port)[0].addresses
        host = addresses.program if check.check.from_ == USER else addresses.inbound
        return host, request.port, request.path
    source = mesh.instances_of(check.check.from_)[0]
    if source.addresses.network is not None:
        return Inside(source.addresses.network, request.host), request.port, request.path
    return source.addresses.outbound, mesh.file.mesh.http_proxy_port, request.url


def unmet(expect: Expectation, answer: Answer | None, refusal: str | None) -> list[str]:
    """Return a sentence for everything that is not as expected."""
    if answer is None:
        return [] if expect.refused else [f"expected an answer, but the request failed: {refusal}"]
    if expect.refused:
        return [f"expected the request to be refused, but it was answered with {answer.status}"]
    failures = []
    if expect.status is not None and answer.status != expect.status:
        failures.append(f"expected status {expect.status}, got {answer.status}")
    if expect.text is not None and expect.text not in answer.body:
        failures.append(f'expected the text "{expect.text}" in the answer, which is not there')
    if expect.caller is not None:
        hop = find_hop(answer)
        if hop is None:
            failures.append(
                f"expected the caller {expect.caller}, but the answer shows no "
                f"{FORWARDED_CERTIFICATE} that the called program got"
            )
        elif hop.caller != expect.caller:
            failures.append(f"expected the caller {expect.caller}, but it was {hop.caller}")
    return failures


def find_hop(answer: Answer) -> Hop | None:
    """Return the hop in the x-forwarded-client-cert that the called program got and repeats.

    A program under test repeats the header in its answer, as a header or anywhere in the body.
    Envoy appends to it: only the last element is Envoy's, those before it are the caller's.
    """
    for text in (answer.headers.get(FORWARDED_CERTIFICATE, ""), answer.body):
        if found := _HOP.findall(text):
            callee, caller = found[-1]
            return Hop(callee=callee, caller=caller)
    return None


def workload_of(spiffe_id: str, mesh: MeshPlan) -> Instance | None:
    """Return the (first) replica that has this identity."""
    return next(iter(mesh.with_identity(spiffe_id)), None)
