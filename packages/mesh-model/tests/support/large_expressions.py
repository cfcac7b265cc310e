"""VirtualServices with regular expressions that are large, in a namespace and another."""

from virtual_services import HOST, only, virtual_service

LARGE = ".{0,200}"
"""Two of them are less than an object may have; their program is 4 000 instructions."""


def by_path(*expressions: str) -> tuple[str, ...]:
    return tuple(f"match: [{{uri: {{regex: '{each}'}}}}], {only()}" for each in expressions)


def large(name: str, *, namespace: str = "b", hosts: str = HOST, more: str = "") -> str:
    paths = by_path(f"/{name}{LARGE}", f"/{name}x{LARGE}")
    return virtual_service(*paths, name=name, namespace=namespace, hosts=hosts, more=more)


def service_entry(name: str, host: str, *ports: int) -> str:
    listed = ", ".join(f"{{number: {each}, name: http-{each}, protocol: HTTP}}" for each in ports)
    return (
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
        f"metadata: {{name: {name}, namespace: b}}\n"
        f"spec: {{hosts: [{host}], ports: [{listed}], resolution: STATIC}}\n"
    )


SERVICE = service_entry("s", "s.example", 80)
_HOSTS = ", ".join(f"h{number}.example" for number in range(8))
EDITED = {
    "a": large("a", hosts="a.example"),
    "b": large("b", hosts=_HOSTS),
    "c": large("c", hosts=_HOSTS.replace("h", "i")),
    "d": virtual_service(*by_path("/d"), name="d", hosts="d.example"),
    "big": service_entry("big", "a.example", *range(1000, 1030)),
    "wide": large("wide", namespace="c", hosts="w.example"),
}
"""Objects that change what others of the namespace may have, by their names."""
