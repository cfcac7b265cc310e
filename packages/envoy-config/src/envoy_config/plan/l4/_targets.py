"""The clusters that connections go to, with what DestinationRules say of connections."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from envoy_config.plan import _envoy_names as names
from envoy_config.plan.l4._chains import Origin, TcpTarget, Tunnel, WeightedCluster
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.service_entry import Resolution
from istio_config.kinds.virtual_service import Destination, RouteDestination
from mesh_configfile import Duration
from mesh_model import Port, Service, ServicesByName


class ConnectionSettings(NamedTuple):
    """The settings of a cluster that act where connections are accepted."""

    idle_timeout: Duration | None = None
    max_duration: Duration | None = None
    by_source_address: bool = False
    tunnel: Tunnel | None = None


NO_SETTINGS = ConnectionSettings()

SettingsOf = Callable[[Service, int, str], ConnectionSettings]
"""The settings of a service's port and subset."""


def no_settings(service: Service, port: int, subset: str) -> ConnectionSettings:  # noqa: ARG001
    """Return the settings where no DestinationRule says any."""
    return NO_SETTINGS


class Targets:
    """Makes the targets of the connections of a proxy that knows these services, by host."""

    def __init__(self, services: Mapping[str, Service], settings: SettingsOf = no_settings) -> None:
        self._services = ServicesByName(services)
        self._settings = settings

    def settings(self, service: Service, port: Port) -> ConnectionSettings:
        """Return the settings of a service's own port."""
        return self._settings(service, port.number, "")

    def service(self, service: Service, port: Port) -> TcpTarget:
        """Return the target of a service's own port."""
        cluster = names.outbound_cluster(service, port)
        settings = self.settings(service, port)
        by_name = service.resolution is Resolution.DYNAMIC_DNS
        return TcpTarget(
            stat_prefix=cluster,
            clusters=(WeightedCluster(cluster),),
            is_mongo=port.protocol is Protocol.MONGO,
            looked_up_port=port.number if by_name else None,
            **settings._asdict(),
        )

    def routed(
        self, origin: Origin, destinations: Sequence[RouteDestination], port: int
    ) -> TcpTarget:
        """Return the target of a route for connections to a port."""
        single = len(destinations) == 1
        clusters = tuple(
            WeightedCluster(self._cluster(each.destination, port), each.weight)
            for each in destinations
            if each.destination is not None and (each.weight or single)
        )
        first = destinations[0].destination
        prefix = clusters[0].name if single and clusters else f"{origin.name}.{origin.namespace}"
        return TcpTarget(
            stat_prefix=prefix,
            clusters=clusters or (WeightedCluster(names.BLACK_HOLE),),
            **self._settings_of(first, port)._asdict(),
        )

    def _cluster(self, destination: Destination, port: int) -> str:
        number = self._port(destination, port)
        found = self._services.find(destination.host)
        host = found.service.host if found is not None else destination.host
        return f"outbound|{number}|{destination.subset}|{host}"

    def _port(self, destination: Destination, port: int) -> int:
        """Return the port that a destination means: its own, the service's only one, this one."""
        if destination.port_number is not None:
            return destination.port_number
        found = self._services.find(destination.host)
        return (found.only_port if found is not None else None) or port

    def _settings_of(self, destination: Destination | None, port: int) -> ConnectionSettings:
        found = self._services.find(destination.host) if destination is not None else None
        if destination is None or found is None:
            return NO_SETTINGS
        return self._settings(found.service, self._port(destination, port), destination.subset)
