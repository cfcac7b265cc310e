"""HTTP probes against servers on real sockets."""

import asyncio
from typing import Literal

import pytest

from mesh_probes import HttpGet, Outcome, Probe, check
from probe_peers import Application, Http2Application, MakeTls, Serve


async def get(
    port: int,
    path: str = "/",
    *,
    host: str = "127.0.0.1",
    scheme: Literal["http", "https"] = "http",
    http2: bool = False,
    sources: tuple[str, ...] = (),
) -> Outcome:
    action = HttpGet(port=port, path=path, scheme=scheme, http2=http2)
    return await check(Probe(action=action, timeout_s=10), host=host, sources=sources)


@pytest.mark.parametrize(
    ("answered", "status"),
    [
        *((200, 200), (204, 204), (299, 299)),
        *((300, 200), (304, 200), (399, 200)),
        *((400, 400), (404, 404), (503, 503)),
    ],
)
async def test_the_status_decides_and_is_passed_on(
    serve: Serve, application: Application, answered: int, status: int
) -> None:
    application.answers["/live"] = (answered, {}, b"" if answered in (204, 304) else b"body")
    port = await serve(application)
    outcome = await get(port, "/live")
    assert (outcome.healthy, outcome.status) == (answered < 400, status)
    reason = "" if answered < 400 else f"GET http://127.0.0.1:{port}/live: status {status}"
    assert outcome.reason == reason


async def test_responses_before_the_final_one_are_not_it(serve: Serve) -> None:
    async def early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        writer.write(b"HTTP/1.0 503 Down\r\n\r\nuntil the end")
        writer.close()

    outcome = await get(await serve(early))
    assert (outcome.status, outcome.body) == (503, b"until the end")


async def test_ten_kibibytes_of_the_body_are_returned(
    serve: Serve, application: Application
) -> None:
    application.answers["/"] = (200, {}, b"x" * 500_000)
    outcome = await get(await serve(application))
    assert outcome.healthy
    assert outcome.body == b"x" * 10240


@pytest.mark.parametrize(
    "location", ["/b", "b", "http://127.0.0.1:{port}/b", "//127.0.0.1:{port}/b"]
)
async def test_redirects_on_the_same_host_are_followed(
    serve: Serve, application: Application, location: str
) -> None:
    port = await serve(application)
    application.answers["/a"] = (302, {"Location": location.format(port=port)}, b"")
    application.answers["/b"] = (503, {}, b"there")
    outcome = await get(port, "/a")
    assert (outcome.status, outcome.body) == (503, b"there")


async def test_a_redirect_to_another_port_of_the_host_is_followed(
    serve: Serve, application: Application
) -> None:
    application.answers["/b"] = (503, {}, b"")
    other = await serve(application)
    application.answers["/a"] = (307, {"Location": f"http://127.0.0.1:{other}/b"}, b"")
    assert (await get(await serve(application), "/a")).status == 503


@pytest.mark.parametrize(
    "location", ["http://other.example/b", "https://127.0.0.9/", "mailto:a@b.example"]
)
async def test_redirects_to_other_hosts_are_healthy_and_not_followed(
    serve: Serve, application: Application, location: str
) -> None:
    application.answers["/a"] = (301, {"Location": location}, b"moved")
    outcome = await get(await serve(application), "/a")
    assert outcome == Outcome(healthy=True, status=200, body=b"moved")


async def test_a_redirect_to_nowhere_in_particular_is_healthy(
    serve: Serve, application: Application
) -> None:
    application.answers["/a"] = (301, {}, b"")
    assert (await get(await serve(application), "/a")).status == 200


@pytest.mark.parametrize("location", ["http://[", "http://127.0.0.1:99999/", "ftp://127.0.0.1/"])
async def test_redirects_that_no_request_can_follow_are_unhealthy(
    serve: Serve, application: Application, location: str
) -> None:
    application.answers["/a"] = (301, {"Location": location}, b"")
    outcome = await get(await serve(application), "/a")
    assert (outcome.healthy, outcome.status) == (False, 500)
    assert "it redirects to" in outcome.reason


async def test_a_loop_of_redirects_is_unhealthy_after_ten(
    serve: Serve, application: Application
) -> None:
    application.answers["/a"] = (302, {"Location": "/a"}, b"")
    port = await serve(application)
    outcome = await get(port, "/a")
    assert (outcome.healthy, outcome.status) == (False, 500)
    assert outcome.reason.endswith(f"more than 10 redirects, the last to http://127.0.0.1:{port}/a")
    assert len(application.requests) == 11


async def test_what_no_request_line_can_hold_is_encoded(
    serve: Serve, application: Application
) -> None:
    port = await serve(application)
    await get(port, "a b?c=\r\nX: é#fragment")
    assert application.requests[0].splitlines()[0] == "GET /a%20b?c=%0D%0AX:%20%C3%A9 HTTP/1.1"


async def test_headers_are_passed_through_but_for_those_of_one_connection(
    serve: Serve, application: Application
) -> None:
    port = await serve(application)
    action = HttpGet(port=port, headers=(("X-Own", "1"), ("X-Own", "2"), ("x-both", "probe")))
    await check(
        Probe(action=action, timeout_s=10),
        host="127.0.0.1",
        headers=(
            ("User-Agent", "kube-probe/1.31"),
            ("X-Both", "kubelet"),
            ("X-Latin", "caf\xe9"),
            ("Connection", "keep-alive, X-Hop"),
            ("X-Hop", "gone"),
            ("Transfer-Encoding", "chunked"),
            ("Host", "app.example:15020"),
        ),
        status_port=15020,
    )
    assert application.header("x-own") == ["1", "2"]
    assert application.header("x-both") == ["probe"]
    assert application.header("x-latin") == ["caf\xe9"]
    assert application.header("x-hop") == application.header("transfer-encoding") == []
    assert application.header("user-agent") == ["kube-probe/1.31"]
    assert application.header("connection") == ["close"]
    assert application.header("host") == [f"app.example:{port}"]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("app.example:15020", "app.example:{port}"),
        ("app.example:8000", "app.example:8000"),
        ("app.example", "app.example"),
        ("[fd00::15020]:15020", "[fd00::15020]:{port}"),
        ("[fd00::15020]", "[fd00::15020]"),
    ],
)
async def test_only_the_status_port_is_replaced_in_the_host(
    serve: Serve, application: Application, given: str, sent: str
) -> None:
    port = await serve(application)
    probe = Probe(action=HttpGet(port=port), timeout_s=10)
    await check(probe, host="127.0.0.1", headers=[("host", given)], status_port=15020)
    assert application.header("host") == [sent.format(port=port)]


async def test_the_host_of_the_probe_overrides_and_stays_while_redirects_are_relative(
    serve: Serve, application: Application
) -> None:
    port = await serve(application)
    application.answers["/a"] = (302, {"Location": "/b"}, b"")
    application.answers["/b"] = (302, {"Location": f"http://127.0.0.1:{port}/c"}, b"")
    action = HttpGet(port=port, path="/a", headers=(("Host", "own.example"),))
    probe = Probe(action=action, timeout_s=10)
    await check(probe, host="127.0.0.1", headers=[("Host", "kubelet.example")])
    hosts = [request.splitlines()[1] for request in application.requests]
    assert hosts == ["Host: own.example", "Host: own.example", f"Host: 127.0.0.1:{port}"]


async def test_a_request_says_who_asks(serve: Serve, application: Application) -> None:
    port = await serve(application)
    await get(port)
    assert application.header("user-agent") == ["istio-probe/1.0"]
    assert application.header("host") == [f"127.0.0.1:{port}"]


async def test_forwarded_headers_that_cannot_be_sent_are_an_outcome(
    serve: Serve, application: Application
) -> None:
    probe = Probe(action=HttpGet(port=await serve(application)), timeout_s=10)
    outcome = await check(probe, host="127.0.0.1", headers=[("X", "a\r\nY: b")])
    assert not outcome.healthy
    assert "the request can't be sent" in outcome.reason


async def test_the_source_of_the_targets_family_is_used(
    serve: Serve, application: Application
) -> None:
    port = await serve(application)
    await get(port, sources=("::6", "127.0.0.6"))
    assert application.peers == ["127.0.0.6"]


async def test_ipv6_is_spoken(serve: Serve, application: Application) -> None:
    application.answers["/"] = (200, {}, b"six")
    port = await serve(application, host="::1")
    for host in ("::1", "[::1]", "localhost"):
        outcome = await get(port, host=host, sources=("127.0.0.6", "::1"))
        assert outcome == Outcome(healthy=True, status=200, body=b"six")
    assert application.peers == ["::1"] * 3
    assert application.requests[0].splitlines()[1] == f"Host: [::1]:{port}"


async def test_a_source_that_is_not_here_is_passed_over(
    serve: Serve, application: Application
) -> None:
    application.answers["/"] = (200, {}, b"")
    port = await serve(application)
    assert (await get(port, sources=("192.0.2.1", "127.0.0.7"))).healthy
    assert (await get(port, sources=("192.0.2.1",))).healthy
    assert application.peers == ["127.0.0.7", "127.0.0.1"]


async def test_a_source_that_is_no_address_is_named(serve: Serve, application: Application) -> None:
    outcome = await get(await serve(application), sources=("nowhere.invalid",))
    assert "it can't be done from nowhere.invalid, " in outcome.reason


async def test_any_certificate_is_taken(
    serve: Serve, application: Application, tls: MakeTls
) -> None:
    application.answers["/"] = (200, {}, b"secret")
    port = await serve(application, tls=tls())
    outcome = await get(port, scheme="https", http2=True)
    assert outcome == Outcome(healthy=True, status=200, body=b"secret")
    assert (await get(port, scheme="https", host="localhost")).healthy


async def test_http2_is_spoken_if_both_want_it(
    serve: Serve, http2_application: Http2Application, tls: MakeTls
) -> None:
    port = await serve(http2_application, tls=tls("h2"))
    action = HttpGet(
        port=port, path="/h2", scheme="https", http2=True, headers=(("X-Own", "1"), ("Host", "me"))
    )
    outcome = await check(Probe(action=action, timeout_s=10), host="127.0.0.1")
    assert outcome == Outcome(healthy=True, status=200, body=b"fine")
    assert http2_application.headers == {
        ":method": "GET",
        ":scheme": "https",
        ":authority": "me",
        ":path": "/h2",
        "x-own": "1",
        "user-agent": "istio-probe/1.0",
        "accept": "*/*",
    }


@pytest.mark.parametrize(("answered", "status"), [(204, 204), (503, 503), (304, 200)])
async def test_the_status_decides_over_http2(
    serve: Serve,
    http2_application: Http2Application,
    tls: MakeTls,
    answered: int,
    status: int,
) -> None:
    http2_application.status = str(answered)
    http2_application.body = b""
    outcome = await get(await serve(http2_application, tls=tls("h2")), scheme="https", http2=True)
    assert (outcome.healthy, outcome.status) == (answered < 400, status)


async def test_ten_kibibytes_of_the_body_are_returned_over_http2(
    serve: Serve, http2_application: Http2Application, tls: MakeTls
) -> None:
    http2_application.body = b"x" * 100_000
    outcome = await get(await serve(http2_application, tls=tls("h2")), scheme="https", http2=True)
    assert outcome.body == b"x" * 10240


async def test_a_loop_of_redirects_ends_over_http2(
    serve: Serve, http2_application: Http2Application, tls: MakeTls
) -> None:
    http2_application.status = "302"
    outcome = await get(await serve(http2_application, tls=tls("h2")), scheme="https", http2=True)
    assert (outcome.healthy, outcome.status) == (False, 500)
    assert "more than 10 redirects" in outcome.reason
