"""The called service, in Python: greets, and tells who asked.

It takes its configuration from its agent: whether callers have to show a certificate, and its own
certificate. GRPC_XDS_BOOTSTRAP names the file by which gRPC finds the agent.
"""

import json
import os
import signal
import threading
from concurrent import futures

import grpc
from google.protobuf.wrappers_pb2 import StringValue

NAME = os.environ.get("MESH_WORKLOAD", "server")


def say_hello(request: StringValue, context: grpc.ServicerContext) -> StringValue:
    """Greet by name, and tell the SPIFFE id in the caller's certificate."""
    ids = context.auth_context().get("peer_spiffe_id", [])
    answer = {
        "message": f"hello, {request.value}",
        "served-by": NAME,
        "caller": ids[0].decode() if ids else None,
    }
    return StringValue(value=json.dumps(answer))


def main() -> None:
    """Serve until told to stop; then finish what is under way."""
    address = f"{os.environ.get('HOST', '127.0.0.1')}:{os.environ.get('PORT', '50051')}"
    method = grpc.unary_unary_rpc_method_handler(
        say_hello,
        request_deserializer=StringValue.FromString,
        response_serializer=StringValue.SerializeToString,
    )
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8), xds=True)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("greeter.Greeter", {"SayHello": method}),)
    )
    # Used where the control plane asks for no TLS; gRPC wants it said.
    plaintext = grpc.insecure_server_credentials()
    server.add_secure_port(address, grpc.xds_server_credentials(plaintext))
    server.start()
    print(f"{NAME} listens on {address}", flush=True)

    stop_requested = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop_requested.set())
    stop_requested.wait()
    server.stop(grace=5).wait()


if __name__ == "__main__":
    main()
