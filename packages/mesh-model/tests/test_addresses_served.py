"""The services at each address, found anew or changed with the services."""

from hypothesis import given
from hypothesis import strategies as st

from istio_config.kinds.service_entry import Resolution
from mesh_model._service_facts import changed_addresses, services_by_address
from mesh_model._services import Endpoint, Service

ADDRESSES = st.lists(st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.3"]), max_size=3)
MESHES = st.dictionaries(st.sampled_from("abcde"), ADDRESSES, max_size=5)


def services(mesh: dict[str, list[str]]) -> list[Service]:
    return [
        Service(
            host=host,
            namespace="n",
            name=host,
            ports=(),
            endpoints=tuple(Endpoint(address=each, ports=(), namespace="n") for each in addresses),
            resolution=Resolution.STATIC,
            external=False,
        )
        for host, addresses in mesh.items()
    ]


@given(MESHES, MESHES)
def test_changes_lead_to_what_is_found_anew(
    before: dict[str, list[str]], after: dict[str, list[str]]
) -> None:
    old = {each.host: each for each in services(before)}
    new = {each.host: each for each in services(after)}
    new = {host: old[host] if old.get(host) == each else each for host, each in new.items()}
    changed = {
        ("n", host): (old.get(host), new.get(host))
        for host in old.keys() | new.keys()
        if old.get(host) is not new.get(host)
    }
    order = [("n", host) for host in new]
    kept = [each for each in order if each[1] in old]
    if [each for each in (("n", host) for host in old) if each[1] in new] != kept:
        return  # services that stay keep their order
    found = changed_addresses(services_by_address(old.values()), changed, order)
    assert found == services_by_address(new.values())
