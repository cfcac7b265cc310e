"""VirtualServices as gRPC's own xDS client follows them."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from virtual_services import virtual_service

MESH = (
    Path(__file__).parents[3] / "envoy-config" / "tests" / "generate" / "proxyless" / "mesh.yaml"
).read_text()
HOST = "greeter.shop.svc.cluster.local"

# Prints the status of a call for each method and header given.
CLIENT = """
import json, sys
import grpc, grpc.experimental

plaintext = grpc.experimental.insecure_channel_credentials()
credentials = grpc.xds_channel_credentials(plaintext)
channel = grpc.secure_channel("xds:///greeter:50051", credentials)
found = []
for method, headers in json.loads(sys.argv[1]):
    call = channel.unary_unary(method, None, None)
    try:
        call(b"", timeout=20, metadata=list(headers.items()))
        found.append("OK")
    except grpc.RpcError as error:
        found.append(error.code().name)
print(json.dumps(found))
"""


async def statuses(server: str, calls: list[tuple[str, dict[str, str]]]) -> list[str]:
    """Return the statuses of calls, by method and headers, of a client of this control plane."""
    bootstrap = {
        "xds_servers": [
            {
                "server_uri": server,
                "channel_creds": [{"type": "insecure"}],
                "server_features": ["xds_v3"],
            }
        ],
        "node": {
            "id": "sidecar~10.0.0.9~caller.shop~shop.svc.cluster.local",
            "metadata": {"GENERATOR": "grpc", "NAMESPACE": "shop"},
        },
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CLIENT, json.dumps(calls)),
        env={
            **os.environ,
            "GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(bootstrap),
            "no_grpc_proxy": "*",
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, errors = await process.communicate()
    assert printed, errors.decode(errors="replace")[-2000:]
    return [str(each) for each in json.loads(printed)]


def abort(status: str) -> str:
    return f"fault: {{abort: {{{status}, percentage: {{value: 100}}}}}}, "


async def test_a_client_follows_matches_and_faults_of_the_service_it_calls(
    config_dir: Path, *, start_plane: Callable[..., Awaitable[Any]]
) -> None:
    (config_dir / "mesh.yaml").write_text(MESH)
    route = f"route: [{{destination: {{host: {HOST}}}}}]"
    (config_dir / "disable.yaml").write_text(
        "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\n"
        "metadata: {name: default, namespace: istio-system}\nspec: {mtls: {mode: DISABLE}}\n"
    )
    (config_dir / "routes.yaml").write_text(
        virtual_service(
            "match: [{headers: {x: {exact: a}}}], " + abort("grpcStatus: ABORTED") + route,
            "match: [{uri: {prefix: /x.X/}, withoutHeaders: {x: {}}}], "
            + abort("httpStatus: 403")
            + route,
            "match: [{queryParams: {q: {}}}], " + abort("grpcStatus: INTERNAL") + route,
            abort("grpcStatus: DATA_LOSS") + route,
            name="greeter",
            namespace="shop",
            hosts="greeter",
        )
    )
    plane = await start_plane(config_dir)

    found = await statuses(
        plane.grpc,
        [("/x.X/Y", {"x": "a"}), ("/x.X/Y", {}), ("/x.X/Y", {"x": "b"}), ("/z.Z/Y", {})],
    )

    assert found == ["ABORTED", "PERMISSION_DENIED", "DATA_LOSS", "DATA_LOSS"]
