"""A greeter that knows nothing of the mesh: plaintext gRPC, an Envoy in front of it."""

import json
import os
from concurrent import futures

import grpc
from google.protobuf.wrappers_pb2 import StringValue


def say_hello(request: StringValue, context: grpc.ServicerContext) -> StringValue:
    headers = dict(context.invocation_metadata())
    answer = {
        "message": f"hello, {request.value}",
        "served-by": os.environ["MESH_WORKLOAD"],
        "caller": headers.get("x-forwarded-client-cert"),
    }
    return StringValue(value=json.dumps(answer))


def main() -> None:
    method = grpc.unary_unary_rpc_method_handler(
        say_hello,
        request_deserializer=StringValue.FromString,
        response_serializer=StringValue.SerializeToString,
    )
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("greeter.Greeter", {"SayHello": method}),)
    )
    server.add_insecure_port(f"{os.environ['HOST']}:{os.environ['PORT']}")
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
