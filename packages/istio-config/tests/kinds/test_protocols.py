"""The protocols of ports."""

import pytest

from istio_config.kinds.protocol import Protocol


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("grpc-api", Protocol.GRPC),
        ("HTTP", Protocol.HTTP),
        ("http2-x", Protocol.HTTP2),
        ("grpc-web-x", Protocol.GRPC_WEB),
        ("httpx", None),
        ("admin", None),
    ],
)
def test_a_protocol_is_read_in_the_first_word_of_a_ports_name(
    name: str, wanted: Protocol | None
) -> None:
    assert Protocol.from_port_name(name) is wanted
