"""The generators of xDS, one a type, over the push context of the moment; and who needs a push."""

from collections.abc import Callable, Mapping

from mesh_discovery.model._model import MeshModel
from mesh_discovery.plan._names import parse_outbound_cluster
from mesh_discovery.plan._proxy import Proxy
from mesh_discovery.push import _changes as kinds
from mesh_discovery.push._context import PushContext
from mesh_discovery.push._trust_bundle import TrustBundleGenerator
from mesh_protos import type_urls
from xds_server import Client, ConfigKey, Generated, Generator, PushRequest, Watch


class State:
    """The push context of the moment, replaced as a whole: every push sees one from start to end.

    `pending` is the model that the next push is to show.
    """

    def __init__(self, model: MeshModel) -> None:
        self.context = PushContext(model)
        self.pending = model
        self._told_in_full = self._before = model

    def build(self, request: PushRequest | None = None) -> None:
        """Make the pending model the one that is served.

        A change of endpoints only may be built before an older one that is not; what that one
        takes away is then still to be told to who knew it before.
        """
        if self.pending is not self.context.model:
            self.context = PushContext(self.pending, before=self.context)
        if request is None or not request.incremental:
            self._before, self._told_in_full = self._told_in_full, self.pending

    def needs_push(self, client: Client[Proxy], push: PushRequest) -> bool:
        """Tell whether a change could be seen by a client; in doubt it could."""
        if not push.configs_updated:
            return True
        return any(self._concerns(client.context, key) for key in push.configs_updated)

    def _concerns(self, proxy: Proxy, key: ConfigKey) -> bool:
        match key.kind:
            case kinds.SERVICE:
                services = [
                    model.by_key.get((key.namespace, key.name))
                    for model in (self.context.model, self._before)
                ]
                return any(
                    each is not None and each.visible_in(proxy.namespace) for each in services
                )
            case kinds.WORKLOAD:
                return _is_own(proxy, key)
            case _:
                return True


def generators(state: State, *, bundle_pem: Callable[[], bytes]) -> Mapping[str, Generator[Proxy]]:
    """Return the generator of each type, to be given to an `XdsServer`."""
    return {
        type_urls.CLUSTER: _AllOfAType(state, PushContext.clusters),
        type_urls.ENDPOINT: _Endpoints(state),
        type_urls.LISTENER: _AllOfAType(state, PushContext.listeners),
        type_urls.ROUTE: _Routes(state),
        type_urls.NAME_TABLE: _Names(state),
        type_urls.PROXY_CONFIG: TrustBundleGenerator(bundle_pem),
    }


class _AllOfAType:
    """All clusters, or all listeners, of a proxy: whenever anything that shapes them changed."""

    def __init__(
        self, state: State, resources_of: Callable[[PushContext, Proxy], Generated | None]
    ) -> None:
        self._state = state
        self._resources_of = resources_of

    def generate(
        self,
        client: Client[Proxy],
        watch: Watch,  # noqa: ARG002
        push: PushRequest | None,
    ) -> Generated | None:
        if push is not None and push.incremental and not _touches_own(client.context, push):
            return None
        return self._resources_of(self._state.context, client.context)


class _Endpoints:
    def __init__(self, state: State) -> None:
        self._state = state

    def generate(
        self, client: Client[Proxy], watch: Watch, push: PushRequest | None
    ) -> Generated | None:
        names = watch.names
        if push is not None and (hosts := _changed_hosts(push)) is not None:
            names = frozenset(
                name
                for name in names
                if (parsed := parse_outbound_cluster(name)) is not None and parsed[2] in hosts
            )
            if not names:
                return None
        return self._state.context.endpoints(client.context, names)


class _Routes:
    def __init__(self, state: State) -> None:
        self._state = state

    def generate(
        self, client: Client[Proxy], watch: Watch, push: PushRequest | None
    ) -> Generated | None:
        if push is not None and (push.incremental or _spares_services(push)):
            return None
        return self._state.context.routes(client.context, watch.names)


class _Names:
    """The name table: when a service changed, or what stands in its way at a proxy.

    The context keeps the table itself when the change has no part in it.
    """

    def __init__(self, state: State) -> None:
        self._state = state

    def generate(
        self,
        client: Client[Proxy],
        watch: Watch,  # noqa: ARG002
        push: PushRequest | None,
    ) -> Generated | None:
        if push is not None and _spares_services(push) and not _touches_own(client.context, push):
            return None
        return self._state.context.names(client.context)


def _changed_hosts(push: PushRequest) -> frozenset[str] | None:
    """Return the hosts that a push is about; None when it is about more than services."""
    if not push.configs_updated:
        return None
    if any(key.kind == kinds.POLICY for key in push.configs_updated):
        return None
    return frozenset(key.name for key in push.configs_updated if key.kind == kinds.SERVICE)


def _spares_services(push: PushRequest) -> bool:
    return bool(push.configs_updated) and all(
        key.kind != kinds.SERVICE for key in push.configs_updated
    )


def _touches_own(proxy: Proxy, push: PushRequest) -> bool:
    return not push.configs_updated or any(
        key.kind == kinds.WORKLOAD and _is_own(proxy, key) for key in push.configs_updated
    )


def _is_own(proxy: Proxy, key: ConfigKey) -> bool:
    return key.namespace == proxy.namespace and key.name in proxy.addresses
