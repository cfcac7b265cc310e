import socket

import pytest

from mesh_listening import ListenError, format_address, listening_on, loopback_host


def test_a_name_is_listened_on_at_all_its_addresses_on_one_port() -> None:
    with listening_on("localhost", 0) as sockets:
        ports = {each.getsockname()[1] for each in sockets}
        assert len(ports) == 1
        for each in sockets:
            socket.create_connection(each.getsockname()[:2]).close()


def test_an_empty_host_is_listened_on_at_every_address() -> None:
    with listening_on("", 0) as (listening,):
        port = listening.getsockname()[1]
        socket.create_connection(("127.0.0.1", port)).close()
        assert format_address(listening) in {f"[::]:{port}", f"0.0.0.0:{port}"}


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_that_is_not_ours_is_named(host: str) -> None:
    with pytest.raises(ListenError, match=f"cannot listen on {host}:1: "):
        with listening_on(host, 1):
            pass


def test_a_port_that_is_taken_is_named_and_nothing_stays_open() -> None:
    with listening_on("127.0.0.1", 0) as (first,):
        port = first.getsockname()[1]
        with pytest.raises(ListenError, match=rf"cannot listen on 127\.0\.0\.1:{port}: Address"):
            with listening_on("127.0.0.1", port):
                pass


def test_the_loopback_host_is_127_0_0_1_where_that_works() -> None:
    assert loopback_host() == "127.0.0.1"
