"""Of VirtualServices of one host at a Gateway, those that are reported get no request."""

from gateway_documents import gateway, server, virtual_service
from mesh_findings import review
from scenarios import Scene

ROUTES = (("/api", 201), ("/api/v1", 202), ("/", 203), ("/", 204))
"""The prefix and the status of each VirtualService, the oldest first."""
REPORTED = [202, 204]


async def test_what_is_reported_gets_no_request(scene: Scene) -> None:
    router, port = await scene.router(), scene.port()
    statuses = {f"vs-{status}": status for _, status in ROUTES}
    rules: dict[str, str | None] = {
        name.replace("-", ""): virtual_service(
            "a.example",
            name=name,
            created=f"2020-01-01T00:00:0{at}Z",
            http=[
                {
                    "match": [{"uri": {"prefix": ROUTES[at][0]}}],
                    "directResponse": {"status": status},
                }
            ],
        )
        for at, (name, status) in enumerate(statuses.items())
    }
    await scene.apply(
        mistaken=False, wait=True, gw=gateway(server("HTTP", port, "a.example")), **rules
    )

    answers = {
        path: (await router.get(f"http://a.example:{port}{path}")).status
        for path in ("/", "/api", "/api/v1", "/other")
    }
    problems = review(scene.plane.context.model).problems

    assert answers == {"/": 203, "/api": 201, "/api/v1": 201, "/other": 203}
    assert {each.field for each in problems} == {"spec.hosts[0]"}
    assert sorted(int(each.file[-8:-5]) for each in problems) == REPORTED


async def test_what_is_warned_of_gets_no_request_and_the_rest_does(scene: Scene) -> None:
    """The hosts of both meet at that of the Gateway."""
    router, port = await scene.router(), scene.port()
    routes = {"first": {"/api": 201, "/": 202}, "second": {"/api/v1": 203, "/own": 204, "/": 205}}
    rules: dict[str, str | None] = {
        name: virtual_service(
            host,
            name=name,
            created=f"2020-01-01T00:00:0{at}Z",
            http=[
                {"match": [{"uri": {"prefix": prefix}}], "directResponse": {"status": status}}
                for prefix, status in routes[name].items()
            ],
        )
        for at, (name, host) in enumerate({"first": "*.example", "second": "a.example"}.items())
    }
    await scene.apply(
        mistaken=False, wait=True, gw=gateway(server("HTTP", port, "a.example")), **rules
    )

    answers = {
        path: (await router.get(f"http://a.example:{port}{path}")).status
        for path in ("/", "/api/v1", "/own", "/other")
    }
    found = review(scene.plane.context.model)

    assert answers == {"/": 202, "/api/v1": 201, "/own": 204, "/other": 202}
    assert found.problems == ()
    (warning,) = found.warnings
    assert warning.field == "spec.http[0].match[0]"
    assert "VirtualService b/first" in warning.message
    assert "this and http[2].match[0] would" in warning.message
