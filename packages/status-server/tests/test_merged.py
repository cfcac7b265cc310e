"""Scrapes of several sources, over real sockets, and what goes wrong in them."""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as read_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as read_text

from mesh_status_server import (
    FetchError,
    MergedMetrics,
    Metric,
    TcpAddress,
    application_source,
    envoy_source,
    gauge,
    http_server,
)
from mesh_status_server.metrics._negotiation import Format
from mesh_status_server.metrics._pages import opened
from mesh_testkit import idle_connections, until
from scrape_peers import (
    ENVOY_LINES,
    OPENMETRICS,
    PROMETHEUS,
    TEXT,
    Merging,
    Peer,
    Scraped,
    Serve,
    answer,
    chunked,
    get,
    own_metrics,
)

ENVOY = answer(ENVOY_LINES)
APP_TEXT = b"# TYPE app_up gauge\napp_up 1\n"
APP_OPEN = (
    b"# TYPE app_requests counter\n# HELP app_requests Requests.\n"
    b'app_requests_total{path="/a # {b}"} 7.0 1700000000.5 # {trace_id="x"} 1.0\n# EOF\n'
)


def samples(scraped: Scraped) -> dict[str, float]:
    """Every sample, as a parser of the format that the answer says reads it."""
    is_open = "openmetrics" in scraped.content_type
    parsed = (read_openmetrics if is_open else read_text)(scraped.body.decode())
    found = {sample.name: float(sample.value) for metric in parsed for sample in metric.samples}
    # The parser of text adds the ending to counters that lack it.
    names = {
        line.partition(b"{")[0].partition(b" ")[0].decode() for line in scraped.body.split(b"\n")
    }
    return {
        name if name in names else name.removesuffix("_total"): value
        for name, value in found.items()
    }


async def test_own_metrics_envoys_and_the_applications_come_in_this_order(
    serve: Serve,
) -> None:
    merging = Merging(
        envoy=await serve(Peer(ENVOY)), applications=[await serve(Peer(answer(APP_TEXT)))]
    )
    failures, scraped = await merging.scrape_and_count()
    assert (scraped.status, scraped.content_type, failures) == (200, TEXT, {})
    assert [line for line in scraped.lines if line and line[0] != "#"] == [
        "own_up 1",
        "envoy_cx{} 4",
        "envoy_rq_total 5",
        "app_up 1",
    ]
    assert samples(scraped)["app_up"] == 1


async def test_a_name_that_two_sources_have_is_kept_twice(serve: Serve) -> None:
    first = await serve(Peer(answer(b"same 1\n")))
    second = await serve(Peer(answer(b"same 2\n")))
    scraped = await Merging(applications=[first, second]).scrape()
    assert [line for line in scraped.lines if "same" in line] == ["same 1", "same 2"]


@pytest.mark.parametrize(
    ("says", "kept"),
    [
        (b"", b""),
        (answer(b"a 1\n", status="500 Down"), b""),
        (answer(b"a 1\n", status="301 Moved", more="location: http://elsewhere/\r\n"), b""),
        (answer(b"a 1\n", status="301 Moved", more="location: http://[\r\n"), b""),
        (answer(b"a 1\n", status="301 Moved", more="location: /metrics\r\n"), b""),
        (answer(b"a 1\n", status="301 Moved"), b""),
        (answer(b"<html>\n", "text/html"), b""),
        (answer(b"<html>\n"), b""),
        (answer(b'{"up": 1}\n'), b""),
        (answer(b"not found\n"), b""),
        (answer(b"a 1\n", "application/vnd.google.protobuf"), b""),
        (answer(b"\x1f\x8b" + b"\0" * 1000, more="content-encoding: gzip\r\n"), b""),
        (answer(b"a 1\nb 2\nc")[:-2] + b"", b"a 1\n"),
        (b"HTTP/1.1 200 OK\r\n\r\na 1\nb 2\nc 3", b"a 1\nb 2\n"),
        (answer(b"a 1\n" * 30_000 + b"<html>\n" + b"b 1\n" * 30_000), None),
        (answer(b"a 1\n")[:-4] + b"a 1\n" + b"trailing", b"a 1\n"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2_000_000, b""),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\na 1\n\r\nrubbish", b"a 1\n"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000, b""),
        (b"HTTP/1.1 103 Early\r\n\r\n" + answer(b"a 1\n"), b"a 1\n"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000, b""),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b""),
    ],
)
async def test_an_application_costs_no_metrics_but_its_own(
    serve: Serve, says: bytes, kept: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    good = await serve(Peer(answer(APP_TEXT)))
    merging = Merging(envoy=await serve(Peer(ENVOY)), applications=[await serve(Peer(says)), good])
    failures, scraped = await merging.scrape_and_count()
    assert scraped.status == 200
    found = samples(scraped)
    assert found["own_up"] == found["app_up"] == 1
    assert found["envoy_rq_total"] == 5
    if kept is not None:
        between = scraped.body.partition(b"envoy_rq_total 5\n")[2].removesuffix(APP_TEXT)
        assert between == kept
    assert b"html" not in scraped.body
    if b"103 Early" in says or b"trailing" in says:
        assert failures == {}
    else:
        assert failures == {"application": 1}
        (record,) = caplog.records
        assert "without all metrics" in record.getMessage()


METADATA = ["169.254.169.254", "2852039166", "::ffff:169.254.169.254", "fd00:ec2::254"]


@pytest.mark.parametrize("host", METADATA)
async def test_no_source_is_at_a_metadata_service(host: str) -> None:
    source = application_source(80, host=host)
    with pytest.raises(FetchError, match="is a blocked address"):
        async with opened(source, query="", headers=(), max_bytes=1000):
            pass


async def test_a_refused_connection_is_counted(serve: Serve, free_port: Callable[[], int]) -> None:
    merging = Merging(envoy=await serve(Peer(ENVOY)), applications=[free_port()])
    failures, scraped = await merging.scrape_and_count()
    assert (failures, samples(scraped)["envoy_cx"]) == ({"application": 1}, 4)


@pytest.mark.parametrize("accept", [PROMETHEUS, "text/plain"])
@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 200 OK\r\n\r\napp_first 1\n"])
async def test_envoys_metrics_arrive_before_the_time_of_a_hanging_application_is_up(
    serve: Serve, accept: str, says: bytes
) -> None:
    merging = Merging(
        envoy=await serve(Peer(ENVOY)), applications=[await serve(Peer(says, hang=True))]
    )
    failures, scraped = await merging.scrape_and_count(
        accept=accept, X_Prometheus_Scrape_Timeout_Seconds="1"
    )
    assert failures == {"application": 1}
    assert samples(scraped)["envoy_rq_total"] == 5


async def test_an_envoy_that_hangs_leaves_time_for_the_applications(
    serve: Serve,
) -> None:
    hanging = await serve(Peer(hang=True))
    good = await serve(Peer(answer(APP_TEXT)))
    merging = Merging(envoy=hanging, applications=[hanging, good])
    failures, scraped = await merging.scrape_and_count(X_Prometheus_Scrape_Timeout_Seconds="4")
    assert failures == {"envoy": 1, "application": 1}
    assert samples(scraped) == {"own_up": 1, "app_up": 1}


async def test_of_three_targets_one_is_broken(serve: Serve) -> None:
    targets = [await serve(Peer(answer(b"app_%d 1\n" % number))) for number in range(3)]
    targets[1] = await serve(Peer(answer(b"", status="404 Not Found")))
    failures, scraped = await Merging(applications=targets).scrape_and_count()
    assert failures == {"application": 1}
    assert samples(scraped) == {"own_up": 1, "app_0": 1, "app_2": 1}


async def test_one_of_several_targets_may_have_ten_mebibytes_and_a_single_one_more(
    serve: Serve,
) -> None:
    line = b'app{path="/a/b/c/d/e/f"} 1\n'
    page = line * (11 * 1024 * 1024 // len(line))
    large, small = await serve(Peer(chunked(page))), await serve(Peer(answer(APP_TEXT)))
    failures, scraped = await Merging(applications=[large, small]).scrape_and_count()
    assert failures == {"application": 1}
    assert 9 * 1024 * 1024 < len(scraped.body) <= 10 * 1024 * 1024 + 1000
    assert scraped.body.endswith(APP_TEXT)
    failures, scraped = await Merging(applications=[large]).scrape_and_count()
    assert (failures, len(scraped.body) > len(page)) == ({}, True)


async def test_thirty_megabytes_of_an_application_come_whole(serve: Serve) -> None:
    line = b'app_requests_total{method="GET",path="/api/v1/things/%07d"} 1\n'
    page = b"".join(line % number for number in range(480_000))
    assert len(page) > 29_000_000
    merging = Merging(
        envoy=await serve(Peer(ENVOY)), applications=[await serve(Peer(chunked(page, size=65536)))]
    )
    failures, scraped = await merging.scrape_and_count(accept_encoding="gzip", accept=PROMETHEUS)
    assert failures == {}
    assert scraped.body.endswith(page)
    assert scraped.headers["content-encoding"] == "gzip"


@pytest.mark.parametrize("accept", [PROMETHEUS, "*/*", "application/*", "", "rubbish;;,=", TEXT])
async def test_the_answer_has_the_format_of_the_application(serve: Serve, accept: str) -> None:
    envoy = Peer(ENVOY)
    envoy_port = await serve(envoy)
    for page, content_type in ((APP_OPEN, OPENMETRICS), (APP_TEXT, TEXT)):
        application = Peer(answer(page, content_type))
        merging = Merging(envoy=envoy_port, applications=[await serve(application)])
        scraped = await merging.scrape(accept=accept)
        wants = "openmetrics" in accept or accept == "application/*"
        expected = OPENMETRICS if wants and page is APP_OPEN else TEXT
        assert scraped.content_type == expected
        assert scraped.lines.count("# EOF") == (expected == OPENMETRICS)
        found = samples(scraped)
        assert found["own_up"] == 1
        assert found["envoy_cx"] == 4
        assert found["envoy_rq_total"] == 5
        assert "protobuf" not in application.headers["accept"]
        assert "*" not in application.headers["accept"]
        assert envoy.headers["accept"].startswith("text/plain")


async def test_openmetrics_beside_text_is_converted(serve: Serve) -> None:
    opened = await serve(Peer(answer(APP_OPEN, OPENMETRICS)))
    text = await serve(Peer(answer(APP_TEXT)))
    scraped = await Merging(applications=[opened, text]).scrape(accept=PROMETHEUS)
    assert scraped.content_type == TEXT
    assert 'app_requests_total{path="/a # {b}"} 7.0 1700000000500' in scraped.lines
    assert "# EOF" not in scraped.lines
    assert samples(scraped) == {"own_up": 1, "app_requests_total": 7, "app_up": 1}


async def test_the_lower_version_of_openmetrics_is_declared(serve: Serve) -> None:
    older = OPENMETRICS.replace("1.0.0", "0.0.1")
    ports = [
        await serve(Peer(answer(b"# TYPE a gauge\na 1\n# EOF\n", OPENMETRICS))),
        await serve(Peer(answer(b"# TYPE b gauge\nb 1\n# EOF", older))),
    ]
    scraped = await Merging(applications=ports).scrape(accept=PROMETHEUS)
    assert scraped.content_type == older
    assert samples(scraped) == {"own_up": 1, "a": 1, "b": 1}
    assert scraped.body.endswith(b"a 1\n# TYPE b gauge\nb 1\n# EOF\n")


async def test_a_broken_target_does_not_decide_the_format(
    serve: Serve, free_port: Callable[[], int]
) -> None:
    opened = await serve(Peer(answer(APP_OPEN, OPENMETRICS)))
    scraped = await Merging(applications=[free_port(), opened]).scrape(accept=PROMETHEUS)
    assert scraped.content_type == OPENMETRICS
    assert samples(scraped)["app_requests_total"] == 7


async def test_what_the_scraper_says_of_itself_reaches_the_application(serve: Serve) -> None:
    application, envoy = Peer(answer(APP_TEXT)), Peer(ENVOY)
    merging = Merging(envoy=await serve(envoy), applications=[await serve(application)])
    await merging.scrape(
        User_Agent="Prometheus/3",
        X_Prometheus_Scrape_Timeout_Seconds="30",
        Accept_Encoding="gzip",
        Authorization="Bearer secret",
        Cookie="secret",
    )
    for peer in (application, envoy):
        assert peer.headers["user-agent"] == "Prometheus/3"
        assert peer.headers["accept-encoding"] == "identity"
        assert float(peer.headers["x-prometheus-scrape-timeout-seconds"]) == 29.5
        assert "secret" not in peer.requests[0]


ISTIOS = (
    b"# TYPE envoy_istio_requests_total counter\n"
    b'envoy_istio_requests_total{reporter="source",text="envoy_istio_requests_total"} 2\n'
    b"# TYPE envoy_istio_request_bytes histogram\n"
    b'envoy_istio_request_bytes_bucket{le="+Inf"} 1\n'
    b"envoy_istio_request_bytes_sum{} 3\n"
    b"envoy_istio_request_bytes_count{} 1\n"
    b"envoy_istio_requests_total_of_others{} 4\n"
)


@pytest.mark.parametrize("accept", [Format.TEXT, Format.OPENMETRICS_1])
async def test_istios_metrics_of_an_envoy_have_istios_names(serve: Serve, accept: Format) -> None:
    application = Peer(answer(ISTIOS))
    merging = Merging(
        envoy=await serve(Peer(answer(ISTIOS))), applications=[await serve(application)]
    )
    body = (await merging.scrape(accept=accept)).body

    renamed = ISTIOS.replace(b"envoy_istio_request", b"istio_request")
    renamed = renamed.replace(b'text="istio', b'text="envoy_istio')
    renamed = renamed.replace(b"istio_requests_total_of", b"envoy_istio_requests_total_of")
    for page in (renamed, ISTIOS):
        for line in page.splitlines():
            if not line.startswith(b"#"):
                assert line in body.splitlines()


async def test_a_query_is_for_envoy_only(serve: Serve) -> None:
    application, envoy = Peer(answer(APP_TEXT)), Peer(ENVOY)
    merging = Merging(envoy=await serve(envoy), applications=[await serve(application)])
    merged = MergedMetrics(own_metrics, sources=merging.sources)
    async with http_server("127.0.0.1", 0, merged.answer) as (port, _):
        await get(port, "/metrics?usedonly&filter=a")
    assert envoy.requests[0].startswith("GET /stats/prometheus?usedonly&filter=a HTTP/1.1\r\n")
    assert application.requests[0].startswith("GET /metrics HTTP/1.1\r\n")


async def test_a_redirect_on_the_same_port_is_followed(serve: Serve) -> None:
    application = Peer()
    application.answers = {
        "/metrics": answer(b"", status="307 Elsewhere", more="location: /metrics/?all=1\r\n"),
        "/metrics/?all=1": answer(APP_TEXT),
    }
    failures, scraped = await Merging(applications=[await serve(application)]).scrape_and_count()
    assert (failures, samples(scraped)["app_up"]) == ({}, 1)


async def test_a_page_without_a_last_newline_is_whole_if_its_length_was_given(
    serve: Serve,
) -> None:
    ports = [await serve(Peer(answer(b"a 1\nb 2"))), await serve(Peer(chunked(b"c 1\nd 2")))]
    failures, scraped = await Merging(applications=ports).scrape_and_count()
    assert (failures, samples(scraped)) == ({}, {"own_up": 1, "a": 1, "b": 2, "c": 1, "d": 2})


async def test_an_application_on_ipv6_is_found() -> None:
    server = await asyncio.start_server(Peer(answer(APP_TEXT)), "::1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        failures, scraped = await Merging(applications=[port]).scrape_and_count()
    assert (failures, samples(scraped)["app_up"]) == ({}, 1)


async def test_a_source_on_a_unix_socket_is_asked_too(socket_dir: Path) -> None:
    path = socket_dir / "admin"
    server = await asyncio.start_unix_server(Peer(ENVOY), path)
    try:
        merged = MergedMetrics(own_metrics, sources=lambda: [envoy_source(path)])
        async with http_server("127.0.0.1", 0, merged.answer) as (port, _):
            assert samples(await get(port))["envoy_cx"] == 4
    finally:
        server.close()
        await server.wait_closed()
        path.unlink(missing_ok=True)


async def test_own_metrics_that_fail_are_counted_and_the_others_arrive(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> Iterable[Metric]:
        yield gauge("half", "Half.", 1)
        raise RuntimeError("secret detail")

    source = envoy_source(TcpAddress("127.0.0.1", await serve(Peer(ENVOY))))
    merged = MergedMetrics(broken, sources=lambda: [source])
    async with http_server("127.0.0.1", 0, merged.answer) as (port, _):
        scraped = await get(port)
    assert samples(scraped) == {"envoy_cx": 4, "envoy_rq_total": 5}
    assert merged.counts.failures == {"agent": 1, "envoy": 0, "application": 0}
    caplog.clear()  # the logged traceback holds on to this test's event loop


async def test_a_failure_that_goes_on_is_logged_once_and_counted_each_time(
    free_port: Callable[[], int], caplog: pytest.LogCaptureFixture
) -> None:
    source = application_source(free_port())
    merged = MergedMetrics(own_metrics, sources=lambda: [source])
    async with http_server("127.0.0.1", 0, merged.answer) as (port, _):
        for _ in range(3):
            await get(port)
    assert merged.counts.failures["application"] == 3
    assert merged.counts.served == 3
    assert len(caplog.records) == 1


async def test_a_slow_scraper_gets_everything(serve: Serve) -> None:
    page = b"app 1\n" * 500_000
    source = application_source(await serve(Peer(chunked(page))))
    merged = MergedMetrics(own_metrics, sources=lambda: [source])
    async with http_server("127.0.0.1", 0, merged.answer) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
        writer.write(b"GET / HTTP/1.0\r\nX-Prometheus-Scrape-Timeout-Seconds: 0.5\r\n\r\n")
        received = b""
        while piece := await reader.read(100_000):
            received += piece
            if len(received) < 600_000:
                await asyncio.sleep(0.02)
        writer.close()
        await writer.wait_closed()
    assert received.endswith(page)
    assert merged.counts.failures["application"] == 0


async def test_a_scraper_that_leaves_is_no_fault_of_the_sources(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    source = application_source(await serve(Peer(chunked(b"app 1\n" * 1_000_000))))
    merged = MergedMetrics(own_metrics, sources=lambda: [source])
    async with http_server("127.0.0.1", 0, merged.answer) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        await reader.readline()
        writer.transport.abort()
        writer.close()
    assert merged.counts.failures["application"] == 0
    assert caplog.records == []


async def test_a_hundred_scrapers_that_never_read_keep_no_other_out(serve: Serve) -> None:
    application = Peer(chunked(b"app 1\n" * 1_000_000))
    source = application_source(await serve(application))
    merged = MergedMetrics(own_metrics, sources=lambda: [source])
    async with http_server("127.0.0.1", 0, merged.answer) as (port, _):
        asking = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
        with idle_connections(("127.0.0.1", port), 100, said=asking):
            # As many as one address may have are being answered, and no more.
            await until(lambda: len(application.requests) >= 8, what="eight scrapes")
            scraped = await get(port, host="127.0.0.2")
            assert scraped.body.count(b"app 1\n") == 1_000_000
            assert len(application.requests) == 9
            refused = await get(port, X_Prometheus_Scrape_Timeout_Seconds="0.2")
            assert (refused.status, b"too many scrapes" in refused.body) == (503, True)


async def test_head_is_answered_without_a_body(serve: Serve) -> None:
    merging = Merging(applications=[await serve(Peer(answer(APP_TEXT)))])
    merged = MergedMetrics(own_metrics, sources=merging.sources)
    async with http_server("127.0.0.1", 0, merged.answer) as (port, _):
        scraped = await get(port, method="HEAD")
    assert (scraped.status, scraped.content_type, scraped.body) == (200, TEXT, b"")


async def test_a_real_envoys_metrics_are_read_in_both_formats(
    serve: Serve, envoy_binary: Path, free_port: Callable[[], int]
) -> None:
    admin = free_port()
    address = f'{{"socket_address": {{"address": "127.0.0.1", "port_value": {admin}}}}}'
    process = await asyncio.create_subprocess_exec(
        *(str(envoy_binary), "--base-id", str(admin), "--log-level", "off", "--config-yaml"),
        f'{{"admin": {{"address": {address}}}}}',
    )
    try:
        application = await serve(Peer(answer(APP_OPEN, OPENMETRICS)))
        merging = Merging(envoy=admin, applications=[application])

        async def scraped(accept: str) -> bool:
            failures, found = await merging.scrape_and_count(accept=accept)
            assert ("openmetrics" in found.content_type) == (accept == PROMETHEUS)
            if failures:
                return False
            text = found.body.decode()
            if accept == PROMETHEUS:
                # Stricter than Prometheus, the parser takes no `le="1"`; labels are not changed.
                text = re.sub(r'le="(\d+)"', r'le="\1.0"', text)
                found = replace(found, body=text.encode())
            return samples(found)["envoy_server_live"] == 1

        for accept in (PROMETHEUS, TEXT):
            await until(partial(scraped, accept), what="metrics of Envoy")
    finally:
        process.terminate()
        await process.wait()


async def test_a_page_without_end_ends_at_its_bound(serve: Serve) -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"app 1\n" * 100)
            await writer.drain()

    source = application_source(await serve(endless))
    async with opened(source, query="", headers=[], max_bytes=100_000) as page:
        received = 0
        with pytest.raises(FetchError, match="its page is longer than 100000 bytes"):
            while lines := await page.read(Format.TEXT):
                received += len(lines)
    assert 0 < received <= 100_000


async def test_a_line_in_many_small_pieces_is_one_line(serve: Serve) -> None:
    page = b'app{path="/some/where"} 1\n' * 1000
    scraped = await Merging(applications=[await serve(Peer(chunked(page, size=1)))]).scrape()
    assert scraped.body.endswith(page)
