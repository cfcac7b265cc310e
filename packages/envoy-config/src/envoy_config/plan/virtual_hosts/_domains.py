"""The domains of virtual hosts: every Host header that means a service to a proxy."""

from collections.abc import Container, Iterable

from envoy_config.plan._envoy_names import short_names
from istio_config.addresses import bracketed
from mesh_model import Service


def service_domains(
    service: Service, proxy_domain: str, *, full_hosts: Container[str] = ()
) -> tuple[str, ...]:
    """Return the domains of a service for proxies of a domain, without ports.

    With `a.svc.cluster.local`, `web.a.svc.cluster.local` is also web, web.a and web.a.svc, and
    `web.b.svc.cluster.local` is web.b and web.b.svc; other names of a service count like its own.
    full_hosts: of all services that the proxies know; no short form is taken for one of them.
    """
    names: list[str] = []
    for host in (service.host, *(alias for _, alias in service.aliases)):
        names.append(host)
        if not host.startswith("*"):
            names.append(f"{host}.")
        names += (each for each in short_names(host, proxy_domain) if each not in full_hosts)
    if service.is_headless:
        # Its endpoints have names of their own, below those of the service.
        names += [f"*.{each}" for each in names if not each.startswith("*")]
    names += map(bracketed, service.virtual_addresses)
    return tuple(dict.fromkeys(names))


def with_port(domains: Iterable[str], port: int) -> tuple[str, ...]:
    """Return the domains as clients of an HTTP proxy name them.

    They leave out the port if it is 80, so that without one no other can be meant.
    """
    if port != _HTTP_PORT:
        return tuple(f"{each}:{port}" for each in domains)
    return tuple(name for each in domains for name in (each, f"{each}:{port}"))


_HTTP_PORT = 80
