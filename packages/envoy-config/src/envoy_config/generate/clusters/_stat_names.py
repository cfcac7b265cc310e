"""The names of clusters in Envoy's statistics, by the patterns that mesh config has for them."""

from mesh_model import Port


def stat_name(pattern: str, host: str, port: Port, subset: str = "") -> str:
    """Fill in a pattern such as `%SERVICE%_%SERVICE_PORT%`; empty if there is none."""
    if not pattern:
        return ""
    name, *rest = host.split(".")
    # `reviews.default` of `reviews.default.svc.cluster.local`; other hosts stand whole.
    short = f"{name}.{rest[0]}" if rest[1:2] == ["svc"] else host
    values = {
        "%SERVICE%": short,
        "%SERVICE_FQDN%": host,
        "%SERVICE_NAME%": name,
        "%SERVICE_PORT%": str(port.number),
        "%SERVICE_PORT_NAME%": port.name,
        "%TARGET_PORT%": str(port.target),
        "%SUBSET_NAME%": subset,
    }
    for word, value in values.items():
        pattern = pattern.replace(word, value)
    return pattern
