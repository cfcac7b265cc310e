"""The values that several settings make together, for people who look at the configuration."""

from collections.abc import Mapping

import certclient
import envoy_supervisor
import xds_proxy
from envoy_supervisor import JSON
from istio_settings import NodeIdentity


def results(
    *,
    identity: NodeIdentity,
    spiffe_id: certclient.SpiffeId,
    envoy: envoy_supervisor.EnvoyConfig,
    relay: xds_proxy.RelayConfig,
    authority: certclient.IstioCaConfig | None,
    files: certclient.FilesConfig | None,
) -> Mapping[str, tuple[JSON, str]]:
    """Return each value, and the settings that it comes from."""
    found: dict[str, tuple[JSON, str]] = {
        "node_id": (identity.node_id, "type, INSTANCE_IP, POD_NAME, POD_NAMESPACE, --domain"),
        "spiffe_id": (str(spiffe_id), "TRUST_DOMAIN, POD_NAMESPACE, SERVICE_ACCOUNT"),
        "control_plane": (relay.upstream.address, "discoveryAddress"),
        "control_plane_roots": (_roots(relay.upstream.root_certificate), "XDS_ROOT_CA"),
        "control_plane_name": (relay.upstream.server_name or "", "discoveryAddress, ISTIOD_SAN"),
        "token": (str(relay.upstream.token_path or ""), "default"),
        "envoy": (str(envoy.binary), "--envoy-path, ENVOY_PATH, binaryPath, PATH"),
        "envoy_log_level": (envoy.log_level, "--proxyLogLevel"),
        "envoy_concurrency": (envoy.concurrency, "concurrency, ISTIO_CPU_LIMIT"),
    }
    if authority is not None:
        found["authority"] = (authority.address, "CA_ADDR, discoveryAddress")
        found["authority_roots"] = (_roots(authority.root_certificate), "CA_ROOT_CA")
    if files is not None:
        found["certificate"] = (str(files.certificate_path), "FILE_MOUNTED_CERTS")
    if isinstance(bootstrap := envoy.bootstrap, envoy_supervisor.BootstrapConfig):
        found["node_cluster"] = (
            bootstrap.node_cluster,
            "serviceCluster, labels, tracingServiceName",
        )
        locality = bootstrap.locality
        places = (locality.region, locality.zone, locality.sub_zone)
        found["locality"] = ("/".join(places).rstrip("/"), "label topology.istio.io/locality")
    else:
        found["bootstrap"] = (str(bootstrap), "ISTIO_BOOTSTRAP, customConfigFile, --templateFile")
    return found


def _roots(roots: object) -> str:
    if roots is None:
        return "none, the connection is plaintext"
    return "SYSTEM" if roots is certclient.SYSTEM else str(roots)
