"""Calls a greeter of the mesh as fast as asked, over kept connections and over new ones.

    python greeter_calls.py TARGET RATE

Each line of output tells of one call: `{"new": false, "answer": {...}}`, or with `"error"`.
Every other call has a channel of its own, and so a TLS handshake. Ends when its input does.
"""

import json
import sys
import threading
import time
from typing import Any

import grpc
import grpc.experimental
from google.protobuf.wrappers_pb2 import StringValue

OWN_CONNECTIONS = (("grpc.use_local_subchannel_pool", 1),)


def channel(target: str, *, options: tuple[tuple[str, int], ...] = ()) -> grpc.Channel:
    plaintext = grpc.experimental.insecure_channel_credentials()  # type: ignore[no-untyped-call]
    return grpc.secure_channel(target, grpc.xds_channel_credentials(plaintext), options=options)


def call(opened: grpc.Channel) -> dict[str, Any]:
    say_hello = opened.unary_unary(
        "/greeter.Greeter/SayHello",
        request_serializer=StringValue.SerializeToString,
        response_deserializer=StringValue.FromString,
    )
    try:
        answer = say_hello(StringValue(value="ada"), timeout=30)
    except grpc.RpcError as error:
        return {"error": f"{error.code().name}: {error.details()}"}
    return {"answer": json.loads(answer.value)}


def wait_for_input_to_end(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


def main() -> None:
    target, rate = sys.argv[1], float(sys.argv[2])
    ended = threading.Event()
    threading.Thread(target=wait_for_input_to_end, args=(ended,), daemon=True).start()
    with channel(target) as kept:
        grpc.channel_ready_future(kept).result(timeout=60)
        calls = 0
        due = time.monotonic()
        while not ended.is_set():
            new = calls % 2 == 1
            if new:
                with channel(target, options=OWN_CONNECTIONS) as own:
                    answer = call(own)
            else:
                answer = call(kept)
            calls += 1
            print(json.dumps({"new": new, **answer}), flush=True)
            due = max(due + 1 / rate, time.monotonic() - 1)
            ended.wait(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main()
