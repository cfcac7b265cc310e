"""Answers an operator's questions to the control plane, asked over the agent's own stream.

Istio's agents have this at port 15004: `/debug/NAME` asks with the type `istio.io/debug/NAME`.
"""

import base64
import importlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qs

import xds_proxy
from mesh_agent.config._status_server import DebugTap
from mesh_status_server import (
    Endpoint,
    Endpoints,
    Handler,
    ListenError,
    Request,
    Response,
    http_server,
)

if TYPE_CHECKING:
    from google.protobuf.any_pb2 import Any as AnyMessage

log = logging.getLogger(__name__)

_TAP_PATH = "/debug"
_TYPE = "istio.io/debug"
_ANSWER_S = 5.0
_MODULES = {
    "envoy.service.status.v3.ClientConfig": "envoy.service.status.v3.csds_pb2",
    "envoy.admin.v3.ConfigDump": "envoy.admin.v3.config_dump_pb2",
}
"""Where the messages are that Istio's control plane answers with, besides JSON."""


class Ask(Protocol):
    """Asks the control plane; `xds_proxy.Relay.ask`, with its errors."""

    def __call__(
        self, type_url: str, names: Sequence[str], /, *, timeout_s: float
    ) -> Awaitable[bytes]: ...


def control_plane_debug(ask: Ask, *, path: str) -> Handler:
    """Return the handler of `path` and of the paths below it."""

    async def answer(request: Request) -> Response:
        name = request.path.removeprefix(path).strip("/")
        names = parse_qs(request.query).get("resourceName", [])
        type_url = f"{_TYPE}/{name}" if name else _TYPE
        try:
            response = await ask(type_url, names, timeout_s=_ANSWER_S)
        except xds_proxy.NotConnected as error:
            return Response.text(f"{error}\n", HTTPStatus.SERVICE_UNAVAILABLE)
        except xds_proxy.NoAnswer as error:
            reason = f"{error}: it may not know {type_url}, or not tell this workload of it\n"
            return Response.text(reason, HTTPStatus.GATEWAY_TIMEOUT)
        return Response.json(described(response))

    return answer


@asynccontextmanager
async def debug_tap(ask: Ask, tap: DebugTap | None) -> AsyncIterator[None]:
    """Answer at the port of Istio's agents, on loopback, while the block runs; None: does not.

    Raises `ListenError` if the port is asked for and taken.
    """
    if tap is None:
        yield
        return
    endpoint = Endpoint(control_plane_debug(ask, path=_TAP_PATH), loopback_only=True)
    endpoints = Endpoints({_TAP_PATH: endpoint}, beginnings={f"{_TAP_PATH}/": endpoint})
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(http_server(tap.host, tap.port, endpoints))
        except ListenError as error:
            if tap.is_asked_for:
                raise
            log.info(
                "questions to the control plane are answered on the status port alone",
                extra={"reason": str(error), "change": "PROXY_XDS_DEBUG_VIA_AGENT_PORT"},
            )
        yield


def described(response: bytes) -> Mapping[str, object]:
    """Return a discovery response as JSON; a resource of an unknown type is in Base64."""
    from envoy.service.discovery.v3 import discovery_pb2  # wanted by few

    message = discovery_pb2.DiscoveryResponse.FromString(response)
    return {
        "typeUrl": message.type_url,
        "versionInfo": message.version_info,
        "resources": [_described_resource(resource) for resource in message.resources],
    }


def _described_resource(resource: "AnyMessage") -> Mapping[str, object]:
    known = {"@type": resource.type_url}
    try:
        return {**known, "value": json.loads(resource.value)}
    except (ValueError, RecursionError):
        pass  # it is a message, then
    name = resource.type_url.rpartition("/")[2]
    if name in _MODULES:
        from google.protobuf import json_format
        from google.protobuf.message import DecodeError

        message = getattr(importlib.import_module(_MODULES[name]), name.rpartition(".")[2])()
        try:
            message.ParseFromString(resource.value)
            return {**known, **json_format.MessageToDict(message)}
        except (DecodeError, TypeError):
            pass  # damaged, or with a message inside that is not known here
    return {**known, "value": base64.b64encode(resource.value).decode("ascii")}
