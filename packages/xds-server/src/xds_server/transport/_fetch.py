"""Fetching once, without a stream: the unary form of each service, and REST-JSON.

https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#rest-json-polling-subscriptions
"""

from __future__ import annotations

import hashlib
from typing import TypeVar

import grpc
import msgspec

from xds_server._errors import Refused
from xds_server._server import XdsServer
from xds_server.protocol import _type_urls as types
from xds_server.protocol._request import SotwRequest
from xds_server.protocol._request_parsing import parse_sotw
from xds_server.protocol._response_encoding import sotw_body, sotw_tail
from xds_server.protocol._watch import Watch
from xds_server.sources._generated import Generated
from xds_server.streams._admission import Peer
from xds_server.streams._limits import check_size
from xds_server.subscriptions._subscription import WILDCARD

C = TypeVar("C")

REST_PATHS = {
    "/v3/discovery:clusters": types.CLUSTER,
    "/v3/discovery:endpoints": types.ENDPOINT,
    "/v3/discovery:listeners": types.LISTENER,
    "/v3/discovery:routes": types.ROUTE,
    "/v3/discovery:scoped-routes": types.SCOPED_ROUTE,
    "/v3/discovery:secrets": types.SECRET,
    "/v3/discovery:runtime": types.RUNTIME,
    "/v3/discovery:extension_configs": types.EXTENSION_CONFIG,
}

_HTTP_STATUS = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.UNAVAILABLE: 503,
}


class RestAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an HTTP request; the body is JSON, or a sentence if it failed."""

    status: int
    body: bytes = b""


async def fetch(server: XdsServer[C], data: bytes, peer: Peer, *, type_url: str) -> bytes:
    """Answer a serialised `DiscoveryRequest`. Raises `Refused`."""
    check_size(data, delta=False, config=server.config)
    parsed = parse_sotw(data)
    request = parsed.request
    if not isinstance(request, SotwRequest):
        raise TypeError(type(request))
    client = await server.admit_client(parsed.node, peer)
    wildcard = WILDCARD in request.names or (not request.names and type_url not in types.NAMED_ONLY)
    watch = Watch(type_url=type_url, names=request.names - {WILDCARD}, wildcard=wildcard)
    generated = server.generate(client, watch) or Generated(resources=())
    resources = tuple(generated.wanted_by(watch).values())
    version = generated.version or _version_of(Generated(resources=resources))
    return sotw_body(resources) + sotw_tail(
        type_url=type_url, version=version, nonce="", identifier=server.identifier()
    )


async def answer_rest(server: XdsServer[C], path: str, body: bytes, peer: Peer) -> RestAnswer:
    """Answer `POST /v3/discovery:…`; mount it in any HTTP server.

    304 if the request names the version that is current. The types of what is inside resources
    have to be imported in this process, or there is no JSON for them.
    """
    # Wanted by this form only.
    from envoy.service.discovery.v3 import discovery_pb2
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError

    type_url = REST_PATHS.get(path)
    most = server.config.max_request_bytes
    if type_url is None or len(body) > most:
        if type_url is None:
            answer = RestAnswer(status=404, body=f"there is no {path}".encode())
        else:
            answer = RestAnswer(status=413, body=f"{len(body)} bytes, at most {most}".encode())
        return answer
    request = discovery_pb2.DiscoveryRequest()
    try:
        json_format.Parse(body, request, ignore_unknown_fields=True)
        data = await fetch(server, request.SerializeToString(), peer, type_url=type_url)
        response = discovery_pb2.DiscoveryResponse.FromString(data)
        if response.version_info == request.version_info:
            return RestAnswer(status=304)
        return RestAnswer(
            status=200, body=json_format.MessageToJson(response, indent=None).encode()
        )
    except (json_format.ParseError, UnicodeDecodeError) as error:
        return RestAnswer(status=400, body=f"no DiscoveryRequest in JSON: {error}".encode())
    except Refused as refused:
        status = _HTTP_STATUS.get(refused.code, 500)
        return RestAnswer(status=status, body=refused.message.encode())
    except (TypeError, DecodeError, json_format.SerializeToJsonError) as error:
        return RestAnswer(status=500, body=f"no JSON for a resource: {error}".encode())


def _version_of(generated: Generated) -> str:
    """Return one version for equal resources, so that clients that poll see no change."""
    state = hashlib.sha256()
    for name, resource in sorted(generated.by_name().items()):
        state.update(f"{len(name)}:{name}:{resource.version};".encode())
    return state.hexdigest()[:16]
