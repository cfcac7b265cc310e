"""The sides of traffic that entries are about, and the providers that they name."""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from istio_config.kinds.fields import SpecFields
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding


class WorkloadMode(StrEnum):
    """The side of a request or connection that a workload is on."""

    CLIENT_AND_SERVER = "CLIENT_AND_SERVER"
    CLIENT = "CLIENT"
    """It calls, or is a gateway."""
    SERVER = "SERVER"
    """It is called."""


class ProviderRef(SpecFields, frozen=True):
    """One of the mesh config's `extensionProviders`, by its name."""

    name: str = ""


class ModeMatch(SpecFields, frozen=True):
    """The side of traffic that an entry is about."""

    mode: WorkloadMode = WorkloadMode.CLIENT_AND_SERVER


def provider_ref_mistakes(providers: Sequence[ProviderRef], path: FieldPath) -> Iterator[Finding]:
    """Yield the references that name nothing."""
    for index, each in enumerate(providers):
        if not each.name:
            yield (*path, "providers", index, "name"), "is empty: name one of extensionProviders"
