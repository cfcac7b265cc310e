import socket
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

from mesh_local import AddressError, Block, MeshFile, prepared
from mesh_local.config._addresses import BLOCKS, choose_block, is_free, reservations


def nothing(_: Block) -> Iterable[tuple[str, int]]:
    return ()


def test_a_workload_s_addresses_lie_in_a_network_of_its_own() -> None:
    addresses = Block(number=70).workload(3)
    assert (addresses.inbound, addresses.app, addresses.outbound) == (
        "127.70.3.1",
        "127.70.3.2",
        "127.70.3.3",
    )


def test_the_first_block_that_can_be_reserved_is_chosen() -> None:
    assert choose_block(nothing, reserve=lambda block: block.number == 67) == Block(number=67)


def test_two_meshes_get_different_blocks() -> None:
    with reservations() as first, reservations() as second:
        assert choose_block(nothing, reserve=first) != choose_block(nothing, reserve=second)


def test_a_reservation_ends_with_its_context() -> None:
    with reservations() as reserve:
        taken = choose_block(nothing, reserve=reserve)
    with reservations() as reserve:
        assert choose_block(nothing, reserve=reserve) == taken


def test_a_block_with_a_port_in_use_is_passed_over() -> None:
    with socket.create_server(("127.64.9.1", 0)) as server:
        port = server.getsockname()[1]
        chosen = choose_block(
            lambda block: [(block.workload(9).inbound, port)], reserve=lambda _: True
        )
    assert chosen == Block(number=65)


def test_a_port_taken_on_all_addresses_is_named() -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:  # noqa: S104 - that is the case tested
        port = server.getsockname()[1]
        with pytest.raises(AddressError, match=f"port {port} is in use on every address"):
            choose_block(lambda block: [(block.control_plane, port)], reserve=lambda _: True)


def test_a_program_on_port_8080_does_not_keep_a_mesh_from_starting(
    parse: Callable[[str], MeshFile], tmp_path: Path
) -> None:
    with ExitStack() as stack:
        for number in BLOCKS:
            control_plane = Block(number=number).control_plane
            if is_free(control_plane, 8080):
                stack.enter_context(socket.create_server((control_plane, 8080)))
        with prepared(parse("workloads: [{name: a}]"), tmp_path) as (plan, _):
            assert plan.http_port == 15080


def test_when_all_blocks_are_reserved_the_error_says_so() -> None:
    with pytest.raises(AddressError, match=f"{len(BLOCKS)} meshes run on this machine"):
        choose_block(nothing, reserve=lambda _: False)


def test_an_address_that_is_not_ours_is_an_error_with_the_way_out() -> None:
    with pytest.raises(AddressError, match="run it on Linux"):
        is_free("192.0.2.1", 8080)
