"""The xDS server of a control plane: its generators, who is admitted, and its limits."""

import os
from collections.abc import Callable, Mapping
from functools import partial

from prometheus_client import CollectorRegistry

from envoy_config import Proxy
from istio_config.kinds.mesh_config import whole_seconds
from mesh_ca import Authenticator
from mesh_discovery._config import DiscoveryConfig
from mesh_discovery.push._affected import needs_push
from mesh_discovery.push._config_store import ConfigStore
from mesh_discovery.push._generators import generators
from mesh_discovery.push._push_reasons import control_plane_identifier
from mesh_discovery.serve._admission import ProxyAdmission
from mesh_protos import type_urls
from xds_server import Answerer, NullObserver, ServerConfig, StreamObserver, XdsServer

_MAX_NAME_LENGTH = 1024
"""Of a cluster, route or listener: a prefix, a port, a subset and the name of a host."""


def xds_server(
    config: DiscoveryConfig,
    store: ConfigStore,
    authenticator: Authenticator,
    *,
    bundle_pem: Callable[[], bytes],
    answerers: Mapping[str, Answerer[Proxy]],
    observer: StreamObserver[Proxy] = NullObserver(),  # noqa: B008  stateless
    registry: CollectorRegistry,
) -> XdsServer[Proxy]:
    """Return the server of the model in a store; it serves as soon as a port is opened.

    bundle_pem: returns the trust bundle. answerers: of debug pages, by type. observer: is called
    for the streams of proxies.
    """
    server = XdsServer(
        generators(
            store.served,
            bundle_pem=bundle_pem,
            plaintext_secrets=config.plaintext_secrets,
        ),
        admit=ProxyAdmission(
            authenticator,
            domain_suffix=config.domain,
            drain_time=lambda: whole_seconds(
                store.snapshot.mesh_config.default_config.drain_duration
            ),
            interception=lambda: store.snapshot.mesh_config.default_config.interception_mode,
            believe_plaintext=config.believe_plaintext,
        ),
        config=ServerConfig(
            debounce_quiet_s=config.debounce_after_s,
            debounce_maximum_s=config.debounce_max_s,
            control_plane=partial(
                control_plane_identifier, name=config.name or os.uname().nodename
            ),
            max_name_length=_MAX_NAME_LENGTH,
            **config.client_limits._asdict(),
            **config.streams._asdict(),
            # After a push to all proxies much memory is free, and would stay the process's.
            trim_memory_after_s=10.0,
            # Agents report the health of their applications, and expect no response.
            reported_types=frozenset({type_urls.HEALTH_INFORMATION}),
        ),
        build=store.served.build,
        needs_push=partial(needs_push, store.served),
        answerers=answerers,
        registry=registry,
        observer=observer,
    )
    server.set_ready()
    return server
