"""A namespace's regular expressions: what does not fit into its budget is left out, and told."""

from hypothesis import given
from hypothesis import strategies as st

from mesh_configfile import read_documents
from mesh_discovery.config._objects import read_object
from mesh_discovery.model._model import MeshModel
from mesh_discovery.plan.reachability._judgement import Judgement, judge, unreachable
from virtual_services import HOST, model_of, only, virtual_service

LARGE = ".{0,200}"
"""Two of them are less than an object may have; their program is 4 000 instructions."""
NOT_ALL = "has no effect: with it and what is older, the regular expressions of namespace "


def by_path(*expressions: str) -> tuple[str, ...]:
    return tuple(f"match: [{{uri: {{regex: '{each}'}}}}], {only()}" for each in expressions)


def large(name: str, *, namespace: str = "b", hosts: str = HOST, more: str = "") -> str:
    paths = by_path(f"/{name}{LARGE}", f"/{name}x{LARGE}")
    made: str = virtual_service(*paths, name=name, namespace=namespace, hosts=hosts, more=more)
    return made


def names(model: MeshModel) -> list[str]:
    return [each.name for each in model.virtual_services.all]


def service_entry(name: str, host: str, *ports: int) -> str:
    listed = ", ".join(f"{{number: {each}, name: http-{each}, protocol: HTTP}}" for each in ports)
    return (
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
        f"metadata: {{name: {name}, namespace: b}}\n"
        f"spec: {{hosts: [{host}], ports: [{listed}], resolution: STATIC}}\n"
    )


def test_an_object_of_too_many_expressions_is_a_mistake_at_the_first_too_many() -> None:
    text = virtual_service(*by_path(*(f"/{each}{LARGE}" for each in range(20))))
    documents, _ = read_documents(text, file="mesh.yaml")

    (problem,) = read_object(documents[0]).problems

    assert "regular expressions of the object are too much for Envoy" in problem.message
    assert problem.field == "spec.http[15].match[0].uri.regex"


def test_what_is_done_on_a_match_counts_for_each_match() -> None:
    rewrite = f"uriRegexRewrite: {{match: '{LARGE}', rewrite: /x}}"
    matches = ", ".join(f"{{uri: {{exact: /{each}}}}}" for each in range(40))
    text = virtual_service(f"match: [{matches}], rewrite: {{{rewrite}}}, {only()}")
    documents, _ = read_documents(text, file="mesh.yaml")

    (problem,) = read_object(documents[0]).problems

    assert problem.field == "spec.http[0].rewrite.uriRegexRewrite.match"


def test_the_youngest_of_a_namespace_are_left_out_and_told() -> None:
    many = [large(f"v{number:03}") for number in range(40)]

    model = model_of(*many, large("other", namespace="c"))

    kept = names(model)
    assert kept[-1] == "other"
    assert kept[:-1] == [f"v{number:03}" for number in range(len(kept) - 1)]
    assert 10 < len(kept) < 41
    told = [each for each in unreachable(model) if each.message.startswith(NOT_ALL)]
    assert len(told) == 41 - len(kept)
    assert all("namespace b " in each.message and each.field == "spec" for each in told)


def test_ports_and_hosts_count_as_often_as_a_proxy_has_the_routes() -> None:
    hosts = ", ".join(f"h{number}.example" for number in range(60))
    ports = service_entry("p", "p.example", *range(1000, 1060))
    apart = [service_entry(f"w{each}", f"w{each}.wild.example", 80) for each in range(60)]

    model = model_of(
        ports,
        *apart,
        large("few", hosts="p1.example"),
        large("hosts", hosts=hosts),
        large("ports", hosts="p.example"),
        large("wild", hosts="'*.wild.example'"),
    )

    assert names(model) == ["few"]


def test_servers_of_gateways_count() -> None:
    servers = ", ".join(
        f"{{hosts: ['*'], port: {{number: {each}, name: http-{each}, protocol: HTTP}}}}"
        for each in range(1000, 1060)
    )
    gateway = (
        "apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: g, namespace: b}\n"
        f"spec: {{selector: {{app: g}}, servers: [{servers}]}}\n"
    )

    model = model_of(gateway, large("v", hosts="x.example", more="gateways: [g]"))

    assert names(model) == []


def test_small_ones_are_in_effect_beside_one_that_is_left_out() -> None:
    hosts = ", ".join(f"h{number}.example" for number in range(60))
    small = virtual_service(*by_path("/z/[0-9]+"), name="z", hosts="z.example")

    model = model_of(large("a", hosts=hosts), small)

    assert names(model) == ["z"]


@given(st.lists(st.sampled_from(("a", "b", "c", "d", "big", "wide")), unique=True, max_size=6))
def test_after_any_edit_the_same_are_left_out_as_at_a_fresh_start(chosen: list[str]) -> None:
    hosts = ", ".join(f"h{number}.example" for number in range(8))
    texts = {
        "a": large("a", hosts="a.example"),
        "b": large("b", hosts=hosts),
        "c": large("c", hosts=hosts.replace("h", "i")),
        "d": virtual_service(*by_path("/d"), name="d", hosts="d.example"),
        "big": service_entry("big", "a.example", *range(1000, 1030)),
        "wide": large("wide", namespace="c", hosts="w.example"),
    }
    before: MeshModel | None = None
    judged: Judgement | None = None
    for count in range(len(chosen) + 1):
        documents = [service_entry("s", "s.example", 80), *(texts[each] for each in chosen[:count])]
        edited = model_of(*documents, before=before)
        judged = judge(edited, judged)
        fresh = model_of(*documents)
        assert edited.virtual_services.left_out == fresh.virtual_services.left_out
        assert names(edited) == names(fresh)
        assert judged.problems == judge(fresh).problems
        before = edited
