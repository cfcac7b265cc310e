"""Short host names in rules: `reviews` in namespace `a` means `reviews.a.svc.cluster.local`."""

from istio_config.addresses import is_ip


def full_host(host: str, namespace: str, domain: str) -> str:
    """Return the host that a rule of a namespace means, in small letters.

    domain: the DNS suffix of the mesh. A name with a dot in it, a wildcard and an
    IP address are taken as they are.
    """
    host = host.lower()
    if not host or "." in host or host.startswith("*") or is_ip(host):
        return host
    return f"{host}.{namespace}.svc.{domain}"
