"""The debug pages of a running control plane, as JSON for people and tools."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import TypeAlias

import msgspec

from envoy_config import NodeError, Proxy, as_stranger, parse_proxy
from istio_config.kinds.kubernetes import SecretFields
from istio_config.kinds.mesh_config import InterceptionMode
from mesh_configfile import Duration, Problem
from mesh_discovery._version import version
from mesh_discovery.debug._config_dump import Given
from mesh_discovery.debug._proxies import is_named, kind_of, proxies
from mesh_discovery.debug._sync_status import sync_status
from mesh_discovery.push._config_store import ConfigStore
from mesh_discovery.push._secrets import SecretsGenerator
from mesh_discovery.push._served_context import ServedContext
from mesh_discovery.serve._distribution import DistributionDocument
from mesh_discovery.serve._status import (
    LastGoodStatus,
    NotServedStatus,
    ProblemStatus,
    StatusDocument,
    WrongFileStatus,
)
from mesh_discovery.sources._reading import WrongFile
from mesh_discovery.sources._source import ObjectSource
from mesh_findings import left_out_problems, places_taken, reached_by_http_proxy
from mesh_listening import out_of_files
from mesh_model import ObjectStatus
from mesh_protos import type_urls
from xds_server import ClientStatus, PushStatus, TypeStatus

_SHORT = {
    type_urls.CLUSTER: "cluster",
    type_urls.ENDPOINT: "endpoint",
    type_urls.LISTENER: "listener",
    type_urls.ROUTE: "route",
    type_urls.NAME_TABLE: "names",
    type_urls.SECRET: "secret",
    type_urls.EXTENSION_CONFIG: "extension",
}


Page: TypeAlias = dict[str, object]
"""One JSON object."""


class DebugPages:
    """Makes each page from the configuration and the clients as they are at the moment."""

    def __init__(
        self,
        store: ConfigStore,
        objects: ObjectSource,
        *,
        clients: Callable[[], Iterable[ClientStatus]],
        domain_suffix: str,
        plaintext_secrets: bool = False,
        believe_plaintext: bool = False,
    ) -> None:
        """Tell of a store, where its objects come from, and the `clients` that it is served to."""
        self._objects = objects
        self._believe_plaintext = believe_plaintext
        self._secrets = SecretsGenerator(store.served, over_plaintext=plaintext_secrets)
        self._store = store
        self._clients = clients
        self._domain_suffix = domain_suffix

    @property
    def _served(self) -> ServedContext:
        return self._store.served

    def _proxies(self) -> Iterator[ClientStatus]:
        return proxies(self._clients())

    def syncz(self, *, namespace: str | None = None) -> list[Page]:
        """Return for every proxy what it was sent, accepted and refused, and its last push.

        The fields are those of Istio's page, and ours. namespace: of the proxies; None: all.
        """
        return [
            {**_client(client), **sync_status(client)}
            for client in self.proxies(namespace=namespace)
        ]

    async def distribution(self) -> DistributionDocument:
        """Return whether what is saved at this moment is with every connected proxy."""
        read = await self._objects.is_current()
        clients = list(self._proxies())
        waiting = [client.node.id for client in clients if _waits(client)]
        return {"read": read, "proxies": len(clients), "waiting": waiting}

    def configz(self) -> Page:
        """Return what is served and since when, and what is wrong with the files as they are."""
        store, reading = self._store, self._objects.reading
        return {
            "loaded_at": store.loaded_at,
            "looked_at": reading.looked_at,
            "up_to_date": not reading.wrong,
            "problems": [str(problem) for each in reading.wrong for problem in each.problems],
            "notes": [str(note) for note in store.snapshot.notes],
            "warnings": [str(warning) for warning in store.warnings],
            "files": list(reading.files),
            "mesh": _plain(store.snapshot.mesh_config),
            "gateway_api": [
                _conditions(each) for each in self._served.current.model.gateway_api.statuses
            ],
            "objects": [
                {
                    "kind": each.kind,
                    "namespace": each.namespace,
                    "name": each.name,
                    "file": each.file,
                    "line": each.line,
                    "origin": asdict(each.origin),
                    "spec": _spec(each.spec),
                }
                for each in store.snapshot.objects
            ],
        }

    def status(self) -> StatusDocument:
        """Return what is wrong, since when, and what is served in its place."""
        store, reading = self._store, self._objects.reading
        connected = list(self._proxies())
        return {
            "version": version(),
            "loaded_at": store.loaded_at,
            "looked_at": reading.looked_at,
            "wrong_files": [_wrong_file(each) for each in reading.wrong],
            "unsupported": [_problem(note) for note in store.snapshot.notes],
            "warnings": [_problem(warning) for warning in store.warnings],
            "unreachable": [_problem(each) for each in store.unreachable],
            "taken": [_problem(each) for each in self._taken()],
            "only_by_http_proxy": [_problem(each) for each in self._only_by_http_proxy()],
            "patches": [_problem(each) for each in self._patches()],
            "open_files": out_of_files() or "",
            "proxies": len(connected),
            "not_served": [each for client in connected for each in self._not_served(client)],
            "without_metrics": self._without_metrics(connected),
            "refused": [
                {
                    "proxy": client.node.id,
                    "type": _SHORT.get(url, url),
                    "message": each.nack.message,
                    "since": each.nack.since,
                }
                for client in connected
                for url, each in client.types.items()
                if each.nack is not None
            ],
        }

    def _taken(self) -> list[Problem]:
        """Return the places taken at some proxy, without those that are listed as unreachable."""
        unreachable = {(each.file, each.line, each.field) for each in self._store.unreachable}
        context = self._served.current
        found = set(places_taken(context.conflicts, context.model))
        found.update(left_out_problems(context.left_out, context.model.gateways))
        return sorted(
            each for each in found if (each.file, each.line, each.field) not in unreachable
        )

    def _only_by_http_proxy(self) -> Iterable[Problem]:
        """Return what is said of services that some proxy reaches through its HTTP proxy alone."""
        context = self._served.current
        return reached_by_http_proxy(
            context.only_by_http_proxy, context.model.mesh_config.proxy_http_port
        )

    def _patches(self) -> list[Problem]:
        """Return the patches that some proxy goes without."""
        context = self._served.current
        found = []
        for each in context.failed_patches:
            item = context.model.workload_rules.object_of(each.patch.rule)
            found.append(
                Problem(
                    file=item.file,
                    line=item.line,
                    field=f"spec.configPatches[{each.patch.index}]",
                    message=f"{each.reason}, at {each.resource}",
                )
            )
        return sorted(found)

    def _not_served(self, client: ClientStatus) -> list[NotServedStatus]:
        """Return the listeners and secrets that a proxy asks for and gets nothing for."""
        proxy = self._proxy(client)
        secrets = client.types.get(type_urls.SECRET)
        if proxy is not None and secrets is not None:
            missing = self._secrets.not_served(proxy, client.identities, secrets.names)
            return [{"proxy": client.node.id, "name": name, "reason": why} for name, why in missing]
        listeners = client.types.get(type_urls.LISTENER)
        if proxy is None or not proxy.is_proxyless or listeners is None:
            return []
        found = self._served.current.proxyless.not_served(proxy, listeners.names)
        return [{"proxy": client.node.id, "name": name, "reason": why} for name, why in found]

    def _without_metrics(self, connected: Iterable[ClientStatus]) -> str:
        """Return a sentence that names the Envoys too old to make Istio's metrics, or nothing."""
        if self._store.snapshot.mesh_config.default_providers.metrics == ():
            return ""
        old = [
            client.node
            for client in connected
            if client.node.user_agent.startswith("envoy/")
            and (proxy := self._proxy(client)) is not None
            and not (proxy.can_make_metrics or proxy.is_proxyless)
        ]
        if not old:
            return ""
        first, others = old[0], len(old) - 1
        and_others = f" (and {others} others)" if others else ""
        return f"{first.id} is {first.user_agent}{and_others}: Envoy makes them from 1.37 on"

    def _proxy(self, client: ClientStatus) -> Proxy | None:
        try:
            is_believed = bool(client.identities) or self._believe_plaintext
            of_mesh = self._store.snapshot.mesh_config.default_config.interception_mode
            proxy = parse_proxy(
                client.node,
                domain_suffix=self._domain_suffix,
                source="",
                mesh_interception=of_mesh if is_believed else InterceptionMode.NONE,
            )
            return proxy if is_believed else as_stranger(proxy)
        except NodeError:
            return None

    def registryz(self) -> list[Page]:
        """List the services with their endpoints."""
        return [
            {
                "host": service.host,
                "namespace": service.namespace,
                "addresses": service.addresses,
                "auto_addresses": service.auto_addresses,
                "resolution": service.resolution.value,
                "external": service.external,
                "export_to": service.export_to,
                "ports": [asdict(port) for port in service.ports],
                "endpoints": [asdict(endpoint) for endpoint in service.endpoints],
            }
            for service in self._served.current.model.services
        ]

    def given(self, proxy_id: str, *, namespace: str | None = None) -> Given | None:
        """Return a connected proxy, by its node id or the `name.namespace` in it; None without one.

        namespace: the one that it must be of.
        """
        for client in self._proxies():
            if is_named(client, proxy_id):
                proxy = self._proxy(client)
                if proxy is not None and namespace in (None, proxy.namespace):
                    return Given(client, proxy, self._served.current, self._secrets)
        return None

    def proxies(self, *, namespace: str | None = None) -> list[ClientStatus]:
        """Return the connected proxies, of one namespace or of all."""
        if namespace is None:
            return list(self._proxies())
        found = ((client, self._proxy(client)) for client in self._proxies())
        return [
            client for client, proxy in found if proxy is not None and proxy.namespace == namespace
        ]

    def without_service(self) -> list[str]:
        """Return the node ids of connected sidecars that are no endpoint of any service."""
        known = self._served.current.model.by_address
        return [
            client.node.id
            for client in self._proxies()
            if (proxy := self._proxy(client)) is not None
            and kind_of(client.node.id) == "sidecar"
            and not any((proxy.namespace, each) in known for each in proxy.addresses)
        ]

    def mesh(self) -> object:
        """Return the mesh config that is served."""
        return _plain(self._store.snapshot.mesh_config)


def _spec(spec: msgspec.Struct) -> object:
    """Return a spec as data; of a Secret only the names of its values."""
    if isinstance(spec, SecretFields):
        return {"type": spec.type, "keys": sorted(spec.values)}
    return _plain(spec)


def _problem(problem: Problem) -> ProblemStatus:
    return {
        "file": problem.file,
        "line": problem.line,
        "field": problem.field,
        "message": problem.message,
        "code": problem.code,
    }


def _wrong_file(wrong: WrongFile) -> WrongFileStatus:
    kept: LastGoodStatus | None = None
    if wrong.kept_from is not None:
        kept = {"objects": wrong.kept_objects, "read_at": wrong.kept_from}
    return {
        "file": wrong.file,
        "since": wrong.since,
        "problems": [_problem(problem) for problem in wrong.problems],
        "kept": kept,
    }


def _waits(client: ClientStatus) -> bool:
    """Return whether there is something that a client has neither accepted nor refused."""
    answered = all(each.in_sync or each.nack is not None for each in client.types.values())
    return client.behind or not answered


def _client(client: ClientStatus) -> Page:
    return {
        "node": client.node.id,
        "address": client.address,
        "identities": list(client.identities),
        "delta": client.delta,
        "connected_since": client.connected_since,
        "connected_s": round(time.time() - client.connected_since, 3),
        "behind": client.behind,
        "types": {
            _SHORT.get(url, url): _type_status(status) for url, status in client.types.items()
        },
        "last_push": _push(client.last_push) if client.last_push is not None else None,
    }


def _push(push: PushStatus) -> Page:
    return {
        "reasons": list(push.reasons),
        "at": push.at.timestamp(),
        "types": {
            _SHORT.get(url, url): msgspec.structs.asdict(each) for url, each in push.types.items()
        },
    }


def _type_status(status: TypeStatus) -> Page:
    return {
        "status": "SYNCED" if status.in_sync else "NACKED" if status.nack else "STALE",
        "resources": status.resources,
        "version_sent": status.version_sent,
        "nonce_sent": status.nonce_sent,
        "version_acked": status.version_acked,
        "nonce_acked": status.nonce_acked,
        "nacks": status.nacks,
        "nack": msgspec.structs.asdict(status.nack) if status.nack is not None else None,
    }


def _conditions(status: ObjectStatus) -> Page:
    """Return the status of a Gateway API object in the names of the API."""
    return {
        "kind": status.kind,
        "namespace": status.namespace,
        "name": status.name,
        "conditions": [each._asdict() for each in status.conditions],
        "parents": [
            {"parent": each.parent, "conditions": [one._asdict() for one in each.conditions]}
            for each in status.parents
        ],
        "listeners": [
            {
                "name": each.name,
                "attachedRoutes": each.attached_routes,
                "supportedKinds": list(each.supported_kinds),
                "conditions": [one._asdict() for one in each.conditions],
            }
            for each in status.listeners
        ],
    }


def _plain(value: object) -> object:
    return msgspec.to_builtins(
        value, enc_hook=lambda each: float(each) if isinstance(each, Duration) else str(each)
    )
