"""The extensions of a proxy, resolved: equal ones make the same listeners.

Modules and scripts are no part of them: Envoy takes them by ECDS, while its listeners stay.
"""

from typing import NamedTuple

from istio_config.kinds.traffic_extension import ExtensionPhase


class ExtensionMatch(NamedTuple):
    """Traffic that an extension works on."""

    of_calls: bool = True
    """What the workload calls, and all that comes to a gateway."""
    of_callers: bool = True
    """What the workload is called with."""
    ports: tuple[int, ...] = ()
    """None: all."""


class Extension(NamedTuple):
    """One extension; see `plan/_extensions` for the order of several."""

    name: str
    """Of its filters, and of the resource by which its program comes."""
    phase: ExtensionPhase = ExtensionPhase.UNSPECIFIED
    is_network: bool = False
    """Whether it works on connections, not on requests."""
    is_script: bool = False
    """Whether it is a script in Lua, not a module."""
    matches: tuple[ExtensionMatch, ...] = ()
    """None: all traffic."""

    def works_on(self, port: int, *, inbound: bool) -> bool:
        """Return whether it works on what comes to a port; 0: one that is none of a service's."""
        return not self.matches or any(
            (each.of_callers if inbound else each.of_calls)
            and (not each.ports or port in each.ports)
            for each in self.matches
        )
