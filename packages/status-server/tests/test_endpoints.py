from mesh_status_server import Endpoint, Endpoints, Reply, Request, Response


async def echo(request: Request) -> Reply:
    return Response.text(f"{request.method} {request.path}")


ENDPOINTS = Endpoints(
    {
        "/open": Endpoint(echo),
        "/kept": Endpoint(echo, ("GET", "POST"), loopback_only=True),
    },
    beginnings={"/open/": Endpoint(echo)},
)


async def ask(method: str, path: str, peer: str = "127.0.0.1") -> tuple[int, str]:
    reply = await ENDPOINTS(Request(method=method, path=path, peer=peer))
    assert isinstance(reply, Response)
    return int(reply.status), reply.body.decode()


async def test_exact_paths_and_beginnings_are_answered() -> None:
    assert await ask("GET", "/open") == (200, "GET /open")
    assert await ask("HEAD", "/open") == (200, "HEAD /open")
    assert await ask("GET", "/open/a/b") == (200, "GET /open/a/b")
    assert await ask("POST", "/kept") == (200, "POST /kept")


async def test_wrong_paths_methods_and_callers_are_answered_with_what_is_right() -> None:
    assert await ask("GET", "/opens") == (404, "no such path; there are /open, /kept, /open/...\n")
    assert await ask("DELETE", "/kept") == (405, "use GET or POST\n")
    for peer in ("10.0.0.1", "fe80::1%eth0", "2001:db8::1", "::ffff:10.0.0.1"):
        assert (await ask("DELETE", "/kept", peer))[0] == 403
        assert (await ask("GET", "/open", peer))[0] == 200
    for peer in ("127.9.9.9", "::1"):
        assert (await ask("GET", "/kept", peer))[0] == 200


async def test_paths_are_taken_as_they_are() -> None:
    for path in ("/open/../kept", "//kept", "/kept/", "/%6bept"):
        assert (await ask("POST", path, "10.0.0.1"))[0] in (404, 405)
