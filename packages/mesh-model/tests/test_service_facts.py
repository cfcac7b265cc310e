"""The facts of all services: after any edits they are those that a fresh start finds."""

from hypothesis import given
from hypothesis import strategies as st

from istio_config.kinds.service_entry import Resolution
from mesh_model._service_facts import ServiceFacts, compared
from mesh_model._services import Endpoint, Service

NAMES = [(f"ns{n % 2}", f"s{n}.example") for n in range(4)]


def service(
    key: tuple[str, str], addresses: tuple[str, ...], distribution: str, *, is_node_local: bool
) -> Service:
    return Service(
        name=key[1],
        namespace=key[0],
        host=key[1],
        ports=(),
        resolution=Resolution.STATIC,
        external=False,
        endpoints=tuple(Endpoint(address=each, namespace=key[0], ports=()) for each in addresses),
        traffic_distribution=distribution,
        is_node_local=is_node_local,
    )


@st.composite
def meshes(draw: st.DrawFn) -> dict[tuple[str, str], Service]:
    keys = draw(st.lists(st.sampled_from(NAMES), unique=True))
    return {
        key: service(
            key,
            tuple(draw(st.lists(st.sampled_from(["10.0.0.1", "10.0.0.2"]), unique=True))),
            draw(st.sampled_from(["", "", "PreferClose", "PreferSameNode"])),
            is_node_local=draw(st.sampled_from([False, False, True])),
        )
        for key in keys
    }


@given(st.lists(meshes(), min_size=2, max_size=4), st.sets(st.sampled_from(range(3))))
def test_facts_after_edits_are_those_of_a_fresh_start(
    steps: list[dict[tuple[str, str], Service]], asked: set[int]
) -> None:
    facts, known = ServiceFacts(steps[0]), steps[0]
    for step in steps[1:]:
        for index in asked:
            _ = (facts.by_address, facts.use_location, facts.use_nodes)[index]
        later = ServiceFacts(step)
        changed = compared(known, step, (*known.values(), *step.values()))
        later.take_over(facts, changed)
        facts, known = later, step
        fresh = ServiceFacts(step)
        assert facts.use_location == fresh.use_location
        assert facts.use_nodes == fresh.use_nodes
        assert facts.by_address == fresh.by_address
