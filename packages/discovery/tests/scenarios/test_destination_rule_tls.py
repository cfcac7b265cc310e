"""The TLS of clients, as DestinationRules have it."""

import ssl

import pytest

from destination_rules import policy
from scenarios import MeshEnvoy, Scene

STRICT = """\
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: istio-system}
spec: {mtls: {mode: STRICT}}
"""
INSIDE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: s, namespace: b}}
spec:
  hosts: [s.b.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{{number: 80, name: http, protocol: HTTP, targetPort: 8080}}]
  endpoints: [{{address: {address}, serviceAccount: s}}]
"""
OUTSIDE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: outside, namespace: a}}
spec:
  hosts: [outside.example]
  resolution: STATIC
  ports: [{{number: 80, name: http, protocol: HTTP, targetPort: {port}}}]
  endpoints: [{{address: {address}}}]
"""


async def mesh(scene: Scene) -> MeshEnvoy:
    """Start a server that takes mutual TLS only, and return a client."""
    server = scene.network.address()
    await scene.apply(service=INSIDE.format(address=server), strict=STRICT)
    s = await scene.sidecar("s", namespace="b", service_account="s", address=server)
    await scene.echo("v1", address=s.app_address)
    return await scene.sidecar("c", namespace="a", service_account="c")


async def test_plaintext_does_not_reach_a_strict_server(scene: Scene) -> None:
    client = await mesh(scene)
    assert (await client.get("http://s.b/")).status == 200

    await scene.apply(rule=policy("{tls: {mode: DISABLE}}"))

    assert (await client.get("http://s.b/off")).status == 503
    assert (await client.logged(path="/off"))["response_flags"] in ("UC", "UF", "UF,URX", "UC,URX")


async def test_mutual_tls_of_the_mesh_checks_the_names_that_a_rule_gives(scene: Scene) -> None:
    client = await mesh(scene)
    await scene.apply(rule=policy("{tls: {mode: ISTIO_MUTUAL}}"))
    answer = await client.get("http://s.b/")
    assert answer.status == 200
    assert "x-forwarded-client-cert" in answer.seen.headers

    other = "spiffe://cluster.local/ns/b/sa/other"
    await scene.apply(rule=policy(f"{{tls: {{mode: ISTIO_MUTUAL, subjectAltNames: ['{other}']}}}}"))

    assert (await client.get("http://s.b/")).status == 503
    cluster = "cluster.outbound|80||s.b.svc.cluster.local;"
    assert await client.stat(f"{cluster}.ssl.fail_verify_san") > 0


async def test_a_proxy_asks_a_server_outside_by_the_name_and_roots_of_a_rule(scene: Scene) -> None:
    roots = scene.tmp_path / "roots.pem"
    roots.write_bytes(scene.authority.root_pem)
    echo = await scene.echo("out", tls=scene.tls("outside.example"))
    client = await scene.sidecar("c", namespace="a", service_account="c")
    await scene.apply(service=OUTSIDE.format(port=echo.port, address=echo.address))
    names = {"name": "outside", "namespace": "a", "host": "outside.example"}

    def tls(fields: str) -> str:
        return policy(f"{{tls: {{mode: SIMPLE, {fields}}}}}", **names)

    await scene.apply(rule=tls(f"caCertificates: {roots}, sni: outside.example"))
    assert (await client.get("http://outside.example/")).version == "out"
    assert echo.server_names == ["outside.example"]

    # Without names in the rule, the host of the request is asked for, and expected.
    await scene.apply(rule=tls(f"caCertificates: {roots}"))
    assert (await client.get("http://outside.example/")).version == "out"
    assert echo.server_names[-1] == "outside.example"

    await scene.apply(rule=tls(f"caCertificates: {roots}, subjectAltNames: [other.example]"))
    assert (await client.get("http://outside.example/")).status == 503
    assert await client.stat("cluster.outbound|80||outside.example;.ssl.fail_verify_san") > 0

    # The machine's own roots do not know that authority.
    await scene.apply(rule=tls("sni: outside.example"))
    assert (await client.get("http://outside.example/system")).status == 503

    await scene.apply(rule=tls("insecureSkipVerify: true, sni: outside.example"))
    assert (await client.get("http://outside.example/")).version == "out"


async def test_a_client_shows_the_certificate_that_a_rule_names(scene: Scene) -> None:
    issued = scene.authority.issue("client.example")
    roots, chain, key = (scene.tmp_path / f"{each}.pem" for each in ("roots", "chain", "key"))
    roots.write_bytes(scene.authority.root_pem)
    chain.write_bytes(issued.chain_pem)
    key.write_bytes(issued.key_pem)
    context = scene.tls("outside.example")
    context.load_verify_locations(roots)
    context.verify_mode = ssl.CERT_REQUIRED
    echo = await scene.echo("out", tls=context)
    client = await scene.sidecar("c", namespace="a", service_account="c")
    names = {"name": "outside", "namespace": "a", "host": "outside.example"}
    files = f"caCertificates: {roots}, clientCertificate: {chain}, privateKey: {key}"
    await scene.apply(
        service=OUTSIDE.format(port=echo.port, address=echo.address),
        rule=policy(f"{{tls: {{mode: SIMPLE, caCertificates: {roots}}}}}", **names),
    )
    assert (await client.get("http://outside.example/")).status == 503

    await scene.apply(rule=policy(f"{{tls: {{mode: MUTUAL, {files}}}}}", **names))

    assert (await client.get("http://outside.example/")).version == "out"


@pytest.mark.parametrize("fields", ["mode: SIMPLE, credentialName: a"])
async def test_what_can_not_be_secured_as_it_is_wanted_is_not_sent_in_plaintext(
    scene: Scene, fields: str
) -> None:
    echo = await scene.echo("out")
    client = await scene.sidecar("c", namespace="a", service_account="c")
    await scene.apply(service=OUTSIDE.format(port=echo.port, address=echo.address))
    assert (await client.get("http://outside.example/")).status == 200

    await scene.apply(
        rule=policy(f"{{tls: {{{fields}}}}}", name="outside", namespace="a", host="outside.example")
    )

    assert (await client.get("http://outside.example/")).status == 503
    assert echo.count == 1


async def test_the_server_is_given_the_port_and_subset_by_the_name_in_tls(scene: Scene) -> None:
    echo = await scene.echo("v1", tls=scene.tls("s.b.svc.cluster.local"))
    client = await scene.sidecar("c", namespace="a", service_account="c")
    service = INSIDE.format(address=echo.address)
    await scene.apply(service=service, rule=policy("{tls: {mode: ISTIO_MUTUAL}}"))

    # Its certificate is not one of the mesh: the connection fails, but it was asked for by name.
    assert (await client.get("http://s.b/")).status == 503

    assert set(echo.server_names) == {"outbound_.80_._.s.b.svc.cluster.local"}


@pytest.mark.slow
async def test_a_proxy_starts_though_a_file_that_a_rule_names_is_missing(scene: Scene) -> None:
    echo = await scene.echo("out", tls=scene.tls("outside.example"))
    reviews = await scene.echo("v1")
    await scene.apply(
        service=OUTSIDE.format(port=echo.port, address=echo.address),
        other=OUTSIDE.format(port=reviews.port, address=reviews.address).replace(
            "outside", "other"
        ),
        rule=policy(
            "{tls: {mode: SIMPLE, caCertificates: /not/there.pem}}",
            name="outside",
            namespace="a",
            host="outside.example",
        ),
    )

    client = await scene.sidecar("c", namespace="a", service_account="c")

    assert (await client.get("http://other.example/")).version == "v1"
    assert (await client.get("http://outside.example/")).status == 503
    assert echo.count == 0
