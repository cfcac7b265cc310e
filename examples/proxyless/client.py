"""The caller, in Python: asks the service by its name in the mesh, again and again.

python client.py xds:///greeter.shop:50051 [--count N] [--interval SECONDS]
"""

import argparse
import sys
import time

import grpc
import grpc.experimental
from google.protobuf.wrappers_pb2 import StringValue


def main() -> int:
    """Call, print each answer or error as a line; returns 1 if a call failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", help="xds:///HOST:PORT")
    parser.add_argument("--name", default="ada")
    parser.add_argument("--count", type=int, default=0, help="calls; 0: without end")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between calls")
    options = parser.parse_args()

    # Used where the control plane asks for no TLS; gRPC wants it said.
    plaintext = grpc.experimental.insecure_channel_credentials()
    failed = False
    with grpc.secure_channel(options.target, grpc.xds_channel_credentials(plaintext)) as channel:
        say_hello = channel.unary_unary(
            "/greeter.Greeter/SayHello",
            request_serializer=StringValue.SerializeToString,
            response_deserializer=StringValue.FromString,
        )
        calls = 0
        while not options.count or calls < options.count:
            if calls:
                time.sleep(options.interval)
            calls += 1
            try:
                # wait_for_ready: the configuration may not have come yet.
                answer = say_hello(StringValue(value=options.name), timeout=20, wait_for_ready=True)
            except grpc.RpcError as error:
                failed = True
                print(f"{error.code().name}: {error.details()}", flush=True)
            else:
                print(answer.value, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
