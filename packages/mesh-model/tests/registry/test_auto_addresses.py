"""The addresses that are allocated to services: each keeps its own, whatever comes and goes."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from documents import WEB, entry
from mesh_model import MeshModel
from mesh_model.registry._auto_addresses import allocate, auto_addresses

keys = st.tuples(st.sampled_from("abc"), st.text("xyz", min_size=1, max_size=3))


@given(st.lists(st.lists(keys, unique=True), min_size=1, max_size=6))
def test_an_edit_to_one_service_never_moves_the_address_of_another(
    edits: list[list[tuple[str, str]]],
) -> None:
    held: dict[tuple[str, str], int] = {}
    for wanted in edits:
        found = dict(allocate(wanted, before=held))
        assert set(found) == set(wanted)
        assert len(set(found.values())) == len(found)
        assert all(found[key] == held[key] for key in found.keys() & held.keys())
        held = found


def test_allocation_follows_from_names_alone_and_survives_a_restart() -> None:
    wanted = [("default", f"s{number}.test") for number in range(2000)]

    found = allocate(wanted)

    assert found == allocate(wanted)
    alone = [next(iter(allocate([key]).values())) for key in wanted]
    same = sum(found[key] == place for key, place in zip(wanted, alone, strict=True))
    assert same > len(wanted) * 0.97  # only those whose first choice an older one has differ


def test_an_address_that_a_user_gave_is_always_theirs() -> None:
    key = ("default", "a.test")
    (place,) = allocate([key]).values()

    for given_address in auto_addresses(place):
        assert allocate([key], given=[given_address], before={key: place})[key] != place


def test_no_allocated_address_ends_in_0_or_255_and_all_of_them_can_be_had() -> None:
    wanted = [("n", str(number)) for number in range(65_030)]

    found = allocate(wanted)

    assert len(set(found.values())) == len(found) == 65_024
    for place in (0, 253, 254, 65_023):
        first, second = auto_addresses(place)
        assert first.rpartition(".")[2] not in ("0", "255")
        assert second.startswith("2001:2::f0f0:")


def test_addresses_stay_when_configuration_is_read_again(
    model_of: Callable[..., MeshModel],
) -> None:
    first = model_of(entry("web", WEB))
    second = model_of(
        entry("another", WEB.replace("web.a", "another.a")), entry("web", WEB), before=first
    )

    key = ("default", "web.a")
    assert second.by_key[key].auto_addresses == first.by_key[key].auto_addresses != ()
