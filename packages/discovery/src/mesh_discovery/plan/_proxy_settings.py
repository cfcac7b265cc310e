"""The settings that a proxy's own ProxyConfig has, where they decide what it is sent.

Agents send theirs in the node metadata PROXY_CONFIG, merged from files, annotations and
environment; what a proxy leaves out is as in mesh config's `defaultConfig`.
"""

import logging
from collections.abc import Mapping

from mesh_configfile import Value, field_name
from mesh_configfile.shapes import decode, differences
from mesh_discovery.config.kinds.mesh_config._proxy_config import (
    ProxyConfig,
    proxy_config_mistakes,
)

log = logging.getLogger(__name__)

_READ = ("proxyHeaders", "gatewayTopology", "connectionSettings")
NO_SETTINGS = ProxyConfig()


def proxy_settings(metadata: Mapping[str, object], *, node: str) -> ProxyConfig:
    """Return the settings in a node's metadata; a part that can't be read is left out, and told.

    Agents of other versions may have fields that are not known here.
    """
    config = metadata.get("PROXY_CONFIG")
    if not isinstance(config, dict):
        return NO_SETTINGS
    given: dict[str, Value] = config
    good: dict[str, Value] = {}
    for name in _READ:
        value = given.get(name)
        if value is None:
            continue
        part: dict[str, Value] = {name: value}
        findings = list(differences(part, ProxyConfig))
        findings = findings or list(proxy_config_mistakes(decode(part, ProxyConfig)))
        if not findings:
            good |= part
            continue
        log.warning(
            "a part of a proxy's ProxyConfig can't be read, that of the mesh is taken",
            extra={
                "node": node,
                "part": name,
                "problems": [f"{field_name(path)}: {text}" for path, text in findings],
            },
        )
    return decode(good, ProxyConfig) if good else NO_SETTINGS
