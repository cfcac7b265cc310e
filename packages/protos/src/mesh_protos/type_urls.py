"""Type URLs of the resources that travel over xDS.

Source: Envoy API v3 and Istio's networking and mesh APIs; each is `type.googleapis.com/` and the
message's full name.
"""

CLUSTER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
ENDPOINT = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
ROUTE = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
SECRET = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"  # noqa: S105
EXTENSION_CONFIG = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
BOOTSTRAP = "type.googleapis.com/envoy.config.bootstrap.v3.Bootstrap"

NAME_TABLE = "type.googleapis.com/istio.networking.nds.v1.NameTable"
PROXY_CONFIG = "type.googleapis.com/istio.mesh.v1alpha1.ProxyConfig"
HEALTH_INFORMATION = "type.googleapis.com/istio.v1.HealthInformation"

DEBUG = "istio.io/debug"
"""Asked for with the name of a debug page: JSON, as the page has it."""
DEBUG_SYNC = "istio.io/debug/syncz"
"""Asked for without names: an `envoy.service.status.v3.ClientConfig` for each proxy."""
DEBUG_CONFIG_DUMP = "istio.io/debug/config_dump"
"""Asked for with the id of a proxy: the sections of an `envoy.admin.v3.ConfigDump`."""
