"""A namespace's regular expressions: what does not fit into its budget is left out."""

from hypothesis import given
from hypothesis import strategies as st

from large_expressions import EDITED, SERVICE, by_path, large, service_entry
from mesh_model import MeshModel
from virtual_services import model_of, virtual_service


def names(model: MeshModel) -> list[str]:
    return [each.name for each in model.virtual_services.all]


def test_the_youngest_of_a_namespace_are_left_out() -> None:
    many = [large(f"v{number:03}") for number in range(40)]

    model = model_of(*many, large("other", namespace="c"))

    kept = names(model)
    assert kept[-1] == "other"
    assert kept[:-1] == [f"v{number:03}" for number in range(len(kept) - 1)]
    assert 10 < len(kept) < 41


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


@given(st.lists(st.sampled_from(sorted(EDITED)), unique=True, max_size=6))
def test_after_any_edit_the_same_are_left_out_as_at_a_fresh_start(chosen: list[str]) -> None:
    before: MeshModel | None = None
    for count in range(len(chosen) + 1):
        documents = [SERVICE, *(EDITED[each] for each in chosen[:count])]
        edited = model_of(*documents, before=before)
        fresh = model_of(*documents)
        assert edited.virtual_services.left_out == fresh.virtual_services.left_out
        assert names(edited) == names(fresh)
        before = edited
