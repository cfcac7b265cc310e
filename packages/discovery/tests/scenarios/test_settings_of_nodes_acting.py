"""Settings in the metadata of a node, with real Envoys."""

import asyncio

from scenarios import Scene

OLD = b"GET / HTTP/1.0\r\nhost: s.b\r\n\r\n"
NEW = b"GET / HTTP/1.1\r\nhost: s.b\r\n\r\n"


async def test_a_request_of_http_1_0_is_answered_where_the_node_says_so(scene: Scene) -> None:
    reviews = await scene.reviews()
    old = await scene.sidecar("old", namespace="a", metadata={"HTTP10": "1"})

    assert (await reviews.client.send(80, OLD)).split()[1] == b"426"
    assert (await old.send(80, OLD)).split()[1] == b"200"


async def test_an_idle_connection_is_closed_after_the_time_that_the_node_says(
    scene: Scene,
) -> None:
    reviews = await scene.reviews()
    quick = await scene.sidecar("quick", namespace="a", metadata={"IDLE_TIMEOUT": "200ms"})
    usual, ending = [
        await asyncio.open_connection(each.outbound_address, 80) for each in (reviews.client, quick)
    ]
    for _, writer in (usual, ending):
        writer.write(NEW)

    # The end of a connection is all that can come after the answer.
    assert (await asyncio.wait_for(ending[0].read(), 20)).startswith(b"HTTP/1.1 200 ")
    assert await usual[0].readline() == b"HTTP/1.1 200 OK\r\n"
    assert not usual[0].at_eof()
    for _, writer in (usual, ending):
        writer.close()
