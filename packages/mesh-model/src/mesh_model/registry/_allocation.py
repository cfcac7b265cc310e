"""Decides which ServiceEntries' hosts get an auto-allocated address."""

from collections.abc import Mapping, Sequence

from istio_config import ConfigObject
from istio_config.edits import replacements
from istio_config.kinds.service_entry import Resolution, ServiceEntrySpec
from mesh_model._auto_addresses import NO_AUTO_ADDRESS_LABEL, Key, allocate


def allocated_addresses(
    entries: Sequence[ConfigObject],
    *,
    before: Mapping[Key, int] | None = None,
    entries_before: Sequence[ConfigObject] = (),
) -> Mapping[Key, int]:
    """Allocate offsets for the services that are to have an address and were given none.

    before: the offsets of the model before, and `entries_before` its ServiceEntries. The same
    mapping is returned if nothing changed that decides over addresses.
    """
    if before is not None and _want_the_same(entries_before, entries):
        return before
    wanted: dict[Key, bool] = {}
    given: list[str] = []
    for item in entries:
        spec = item.spec
        if isinstance(spec, ServiceEntrySpec):
            given += spec.addresses
            for host in spec.hosts:
                key = item.namespace, host.lower()
                wanted.setdefault(key, _wants_address(item, spec, host))
    return allocate(
        [key for key, wants in wanted.items() if wants],
        given=given,
        before=before,
    )


def _want_the_same(before: Sequence[ConfigObject], after: Sequence[ConfigObject]) -> bool:
    pairs = replacements(before, after)
    return pairs is not None and all(_wishes(old) == _wishes(new) for old, new in pairs)


def _wishes(item: ConfigObject) -> tuple[object, ...]:
    """Return everything that the addresses of a ServiceEntry's services depend on."""
    spec = item.spec
    if not isinstance(spec, ServiceEntrySpec):
        return ()
    return item.namespace, spec.hosts, spec.addresses, spec.resolution, item.labels


def _wants_address(item: ConfigObject, spec: ServiceEntrySpec, host: str) -> bool:
    return (
        not spec.addresses
        and spec.resolution is not Resolution.NONE
        and not host.startswith("*")
        and (NO_AUTO_ADDRESS_LABEL, "false") not in item.labels
    )
