"""BackendTLSPolicies at real Envoys: TLS to backends, validated by the roots of a ConfigMap."""

import pytest

from gateway_api_scenes import API, ROUTER_LABEL, gateway, route, service
from mesh_testkit.certificates import Authority
from scenarios import Scene

POLICY = (
    API
    + """\
kind: BackendTLSPolicy
metadata: {name: web, namespace: b}
spec:
  targetRefs: [{group: networking.istio.io, kind: ServiceEntry, name: web}]
  validation:
    hostname: web.example
    caCertificateRefs: [{group: "", kind: ConfigMap, name: roots}]
"""
)


def roots(authority: Authority) -> str:
    lines = "".join(f"    {line}\n" for line in authority.root_pem.decode().splitlines())
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: roots, namespace: b}\n"
    return f"{head}data:\n  ca.crt: |\n{lines}"


@pytest.mark.parametrize("kind", ["router", "sidecar"])
async def test_backends_are_spoken_to_in_tls_that_the_policy_validates(
    scene: Scene, kind: str
) -> None:
    echo = await scene.echo("web", tls=scene.tls("web.example"))
    port = scene.port()
    await scene.apply(
        web=service("web", echo),
        gateway=gateway(f"{{name: http, port: {port}, protocol: HTTP}}"),
        routes=route(
            "{backendRefs: [{group: networking.istio.io, kind: ServiceEntry, name: web, port: 80}]}"
        ),
    )
    if kind == "router":
        envoy = await scene.router(namespace="b", labels={ROUTER_LABEL: "gw"})
        url = f"http://shop.example:{port}/"
    else:
        envoy = await scene.sidecar(namespace="b")
        url = "http://web.b/"
    assert (await envoy.get(url)).status != 200

    await scene.apply(policy=POLICY, roots=roots(scene.authority))
    answer = await envoy.get(url)
    assert (answer.status, answer.version) == (200, "web")

    # An edit of the ConfigMap alone is pushed, and holds for the next connection.
    other = Authority()
    await scene.apply(policy=POLICY.replace("web.example", "other.example"))
    assert (await envoy.get(url)).status == 503
    await scene.apply(policy=POLICY, roots=roots(other))
    assert (await envoy.get(url)).status == 503
