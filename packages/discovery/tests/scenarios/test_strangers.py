"""A stranger gets none of a mesh's traffic, whatever it says of itself, and a workload does."""

import grpc
import pytest

from documents import entry, peer_authentication, workload
from planes import eventually
from registering import connected, shown
from scenarios import MeshEnvoy, Scene
from xds_server.testing import StreamEnded

GROUP = """\
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: pay, namespace: b}
spec:
  metadata: {labels: {app: pay}}
  template: {serviceAccount: pay}
"""
FOR_DEFAULT = GROUP.replace("serviceAccount: pay", "labels: {}")
"""A template without an account is for `default`, and not for every account of its namespace."""
SERVICE = entry(
    "pay",
    "hosts: [pay.b.svc.cluster.local], location: MESH_INTERNAL, resolution: STATIC, "
    "ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}], "
    "workloadSelector: {labels: {app: pay}}",
    namespace="b",
)
CLAIMS = {
    "AUTO_REGISTER_GROUP": "pay",
    "NAMESPACE": "b",
    "LABELS": {"app": "pay", "security.istio.io/tlsMode": "disabled"},
}
SECRET = {"authorization": "Bearer secret"}

every_mode = pytest.mark.parametrize("mode", ["STRICT", "PERMISSIVE"])


async def mesh(scene: Scene, mode: str, group: str = GROUP) -> MeshEnvoy:
    """Return the caller in a mesh with the service, which has no endpoint yet."""
    await scene.apply(service=SERVICE, group=group, mode=peer_authentication(mode))
    return await scene.sidecar("c", namespace="a", service_account="c")


async def calls(caller: MeshEnvoy, *, times: int = 20) -> list[int]:
    return [
        (await caller.get("http://pay.b/transfer", headers=SECRET)).status for _ in range(times)
    ]


@every_mode
@pytest.mark.parametrize(
    ("account", "group"),
    [("", GROUP), ("thief", GROUP), ("thief", FOR_DEFAULT)],
    ids=["in plaintext", "another account", "another account, the group names none"],
)
async def test_a_stranger_joins_no_service(
    scene: Scene, mode: str, account: str, group: str
) -> None:
    """In plaintext, and over TLS as another service account of the group's namespace."""
    caller = await mesh(scene, mode, group)
    thief = await scene.echo("thief")
    credentials = shown(scene.plane.authority, "b", account) if account else None

    with pytest.raises(StreamEnded) as refused:
        async with connected(
            scene.plane.secure_grpc if account else scene.plane.grpc,
            thief.address,
            namespace="b",
            credentials=credentials,
            metadata=CLAIMS,
        ):
            pass

    codes = grpc.StatusCode
    assert refused.value.code is (codes.PERMISSION_DENIED if account else codes.UNAUTHENTICATED)
    await scene.settled()
    assert await calls(caller) == [503] * 20
    assert thief.requests == []


@every_mode
async def test_a_workload_that_says_it_takes_no_mutual_tls_is_spoken_to_in_no_other_way(
    scene: Scene, mode: str
) -> None:
    """Its own account lets it register, but its labels say nothing to others."""
    caller = await mesh(scene, mode)
    plaintext = await scene.echo("clear")
    async with connected(
        scene.plane.secure_grpc,
        plaintext.address,
        namespace="b",
        credentials=shown(scene.plane.authority, "b", "pay"),
        metadata=CLAIMS,
    ):

        async def known() -> bool:
            found = await caller.envoy.get("/clusters?format=json")
            return plaintext.address in str(found)

        await eventually(known, what="the registered endpoint")
        assert set(await calls(caller)) == {503}
        assert plaintext.requests == []


@every_mode
async def test_a_workload_with_the_identity_of_its_group_is_reached_in_mutual_tls(
    scene: Scene, mode: str
) -> None:
    caller = await mesh(scene, mode)
    server = await scene.sidecar("vm", namespace="b", service_account="pay", labels={"app": "pay"})
    await scene.echo("vm", address=server.app_address)
    async with connected(
        scene.plane.secure_grpc,
        server.address,
        namespace="b",
        credentials=shown(scene.plane.authority, "b", "pay"),
        metadata=CLAIMS,
    ):

        async def reached() -> bool:
            return (await caller.get("http://pay.b/")).status == 200

        await eventually(reached, what="the registered workload")
        answer = await caller.get("http://pay.b/")
        certificate = answer.seen.headers["x-forwarded-client-cert"]
        assert "URI=spiffe://cluster.local/ns/a/sa/c" in certificate


async def test_the_files_word_for_plaintext_is_kept(scene: Scene) -> None:
    """As in Istio, a WorkloadEntry's own label says that no sidecar is there."""
    echo = await scene.echo("v1")
    labels = "labels: {app: pay, security.istio.io/tlsMode: disabled}"
    await scene.apply(
        service=SERVICE,
        entry=workload(
            "v1", f"address: {echo.address}, {labels}, serviceAccount: pay", namespace="b"
        ),
        mode=peer_authentication("STRICT"),
    )
    caller = await scene.sidecar("c", namespace="a", service_account="c")

    assert set(await calls(caller, times=1)) == {200}
