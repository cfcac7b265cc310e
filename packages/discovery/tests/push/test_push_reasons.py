"""Why a proxy was pushed: in the responses of the push, and on the control plane's debug page."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from envoy.service.discovery.v3 import discovery_pb2

from documents import Documents
from mesh_protos import type_urls
from xds_server.testing import over_grpc

Start = Callable[..., Awaitable[Any]]
REQUEST = discovery_pb2.DiscoveryRequest


async def test_a_push_says_which_object_changed(
    config_dir: Path, start_plane: Start, yaml: Documents, eventually: Start
) -> None:
    (config_dir / "web.yaml").write_text(yaml.service("web", "127.1.7.1", 80, 8080))
    plane = await start_plane(config_dir)
    async with over_grpc(plane.grpc) as wire:
        request = REQUEST(type_url=type_urls.CLUSTER)
        request.node.id = "sidecar~127.1.8.1~client.default~default.svc.cluster.local"
        await wire.send(request.SerializeToString())
        answer = discovery_pb2.DiscoveryResponse.FromString(await wire.receive())
        ack = REQUEST(
            type_url=type_urls.CLUSTER,
            version_info=answer.version_info,
            response_nonce=answer.nonce,
        )
        await wire.send(ack.SerializeToString())

        (config_dir / "db.yaml").write_text(yaml.service("db", "127.1.7.2", 5432, 5432, "tcp"))
        pushed = discovery_pb2.DiscoveryResponse.FromString(await wire.receive())

        first = json.loads(answer.control_plane.identifier)
        assert first["Component"] == "mesh-discovery"
        assert first["ID"]
        assert first["Info"]["version"]
        assert "Push" not in first
        reasons = ["ServiceEntry/default/db.default.svc.cluster.local"]
        assert json.loads(pushed.control_plane.identifier)["Push"] == {"Reasons": reasons}

        async def last_push() -> Any:
            (connection,) = await plane.get("/debug/syncz")
            return connection["last_push"]

        push = await eventually(last_push, what="the push on the debug page")
        assert push["reasons"] == reasons
        assert push["types"]["cluster"]["sent"] >= 1
        (connection,) = await plane.get("/debug/syncz")
        assert connection["behind"] is False
