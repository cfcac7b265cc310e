"""Headless services by every host that their clients name: the pod that was called answers.

The client has looked a name up, or knows the address; the host of its request is that name.
"""

import asyncio
import ssl

import pytest

from capturing import CaptureLab, Machine, dial, get, line
from capturing_services import peer_authentication
from headless_services import HOST, HTTP, TCP, TLS, UNDECLARED, Pod, headless_service
from mesh_testkit.certificates import Authority

pytestmark = pytest.mark.slow

MODES = pytest.mark.parametrize("mode", ["DISABLE", "PERMISSIVE", "STRICT"])
NAMES = (HOST, "h.b.svc", "h.b")
SHORT = ("h",)
"""What only the service's own namespace completes."""


def hosts_of(pod: Machine, port: int, *, in_own_namespace: bool) -> list[str]:
    """Return the names of a service and of a pod of it, without a port, with it, and another."""
    names = [*NAMES, *(SHORT if in_own_namespace else ())]
    names += [f"{pod.name}.{each}" for each in names]
    return [f"{each}{end}" for each in names for end in ("", f":{port}", ":12345")]


async def stateful_set(lab: CaptureLab, mode: str) -> list[Machine]:
    """Start two pods with their sidecars, and serve each port of theirs."""
    pods = [lab.machine("h-0"), lab.machine("h-1")]
    for pod in pods:
        await lab.serve_tcp(pod, TCP)
        await lab.serve_http(pod, HTTP)
        await lab.serve_http(pod, UNDECLARED)
    lab.write(
        pods=headless_service(Pod(each.name, each.address) for each in pods),
        mode=peer_authentication(mode),
    )
    for pod in pods:
        await lab.sidecar(pod, namespace="b", service_account="h")
    return pods


@MODES
@pytest.mark.parametrize("namespace", ["a", "b"])
async def test_a_pod_is_reached_by_each_name_of_its_service_and_of_itself(
    namespace: str, mode: str, redirected: CaptureLab
) -> None:
    pods = await stateful_set(redirected, mode)
    client = await redirected.sidecar(redirected.machine("c"), namespace=namespace)
    callers = [client, pods[0]] if namespace == "b" else [client]

    for caller in callers:
        for pod in pods:
            for port in (HTTP, UNDECLARED):
                hosts = hosts_of(pod, port, in_own_namespace=namespace == "b")
                answers = {host: await asked(caller, pod, port, host) for host in hosts}
                # A call of a pod to itself never leaves it.
                known = mode != "DISABLE" and pod is not caller
                assert answers == dict.fromkeys(hosts, (pod.name, known))


@MODES
async def test_a_pod_is_reached_by_its_address(mode: str, redirected: CaptureLab) -> None:
    """Requests for an address are for no service: as in Istio, no mutual TLS is spoken there."""
    pods = await stateful_set(redirected, mode)
    client = await redirected.sidecar(redirected.machine("c"))

    for pod in pods:
        for host in (pod.address, f"{pod.address}:{UNDECLARED}"):
            wanted = (pod.name, mode != "DISABLE")
            assert await asked(client, pod, UNDECLARED, host) == wanted
        for host in (pod.address, f"{pod.address}:{HTTP}"):
            passed = (pod.name, False) if mode != "STRICT" else None
            assert await asked(client, pod, HTTP, host) == passed
        answer = await line(client.namespace, pod.address, TCP, b"x\n")
        assert answer == f"{pod.name}:x\n".encode()


async def asked(caller: Machine, pod: Machine, port: int, host: str) -> tuple[str, bool] | None:
    """Return which pod answers and whether it knows the caller by mutual TLS; None: none does."""
    reply = await get(caller.namespace, pod.address, port, host)
    if reply is None or reply.status != 200:
        return None
    found = reply.json()
    return found["app"], "x-forwarded-client-cert" in found["headers"]


@MODES
async def test_tls_of_the_applications_passes_to_the_pod_that_was_called(
    mode: str, redirected: CaptureLab
) -> None:
    """By the name of the service, of the pod, and by none."""
    pods, authority = [redirected.machine("h-0"), redirected.machine("h-1")], Authority()
    for pod in pods:
        issued = authority.issue(f"{pod.name}.{HOST}", HOST)
        file = redirected.tmp_path / f"{pod.name}.pem"
        file.write_bytes(issued.key_pem + issued.chain_pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        await redirected.serve_http(pod, TLS, tls=context)
    redirected.write(
        pods=headless_service(Pod(each.name, each.address) for each in pods),
        mode=peer_authentication(mode),
    )
    for pod in pods:
        await redirected.sidecar(pod, namespace="b", service_account="h")
    client = await redirected.sidecar(redirected.machine("c"))

    for pod in pods:
        for name in (HOST, f"{pod.name}.{HOST}", None):
            assert f'"app": "{pod.name}"'.encode() in await asked_in_tls(client, pod, name)


async def asked_in_tls(caller: Machine, pod: Machine, name: str | None) -> bytes:
    """Return the answer to a request in the application's own TLS."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await dial(caller.namespace, pod.address, TLS)
    await writer.start_tls(context, server_hostname=name or "")
    writer.write(b"GET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    finally:
        writer.close()
