"""Small draws that the strategies share: names, hosts, ports, durations, labels."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from hypothesis import strategies as st

Json: TypeAlias = dict[str, Any]
Draws: TypeAlias = st.SearchStrategy[Any]

NAMESPACES = ("a", "b", "istio-system")
LOCAL_HOSTS = tuple(
    f"{name}.{space}.svc.cluster.local" for space in "ab" for name in ("s", "t", "u")
)
EXTERNAL_HOSTS = ("x.example.com", "y.example.com", "db.example.org")
WILDCARD_HOSTS = ("*.example.net", "*.wild.example.org")
HOSTS = (*LOCAL_HOSTS, *EXTERNAL_HOSTS)
VERSIONS = ("v1", "v2", "v3")
LOCALITIES = ("r1/z1/s1", "r1/z2", "r2/z1", "r3")
PORTS = (
    {"number": 80, "name": "http", "protocol": "HTTP"},
    {"number": 81, "name": "http-admin", "protocol": "HTTP", "targetPort": 8081},
    {"number": 443, "name": "https", "protocol": "HTTPS"},
    {"number": 7000, "name": "grpc", "protocol": "GRPC"},
    {"number": 7001, "name": "web", "protocol": "HTTP2"},
    {"number": 9000, "name": "tcp", "protocol": "TCP"},
    {"number": 9001, "name": "anything"},
    {"number": 9443, "name": "tls", "protocol": "TLS"},
    {"number": 27017, "name": "mongo", "protocol": "MONGO"},
    {"number": 53, "name": "dns", "protocol": "UDP"},
)
PORT_NUMBERS = tuple(each["number"] for each in PORTS if each["name"] != "dns")

namespaces = st.sampled_from(NAMESPACES)
durations = st.sampled_from(("1ms", "0.5s", "1s", "10s", "1m", "1h30m"))
seconds = st.sampled_from(("1s", "10s", "1m"))
percents = st.sampled_from((0.0, 0.01, 1.5, 33.3, 50.0, 100.0)).map(lambda value: {"value": value})
counts = st.sampled_from((0, 1, 7, 1024, 2**31 - 1))
_label_names = st.sampled_from(("app", "version", "tier"))
_label_values = st.sampled_from(("s", "t", "v1", "v2"))
labels = st.dictionaries(_label_names, _label_values, max_size=2)
some_labels = st.dictionaries(_label_names, _label_values, min_size=1, max_size=2)
hosts = st.sampled_from(HOSTS)
short_hosts = st.sampled_from((*HOSTS, "s", "t.b", "u.a.svc"))
export_to = st.sampled_from((["*"], ["."], ["a"], ["a", "b"], ["~"]))


def fields(required: Mapping[str, Draws] | None = None, **optional: Draws) -> Draws:
    """Draw a mapping with the required fields, and some of the others."""
    return _mapping(dict(required or {}), optional, 0)


def filled(**optional: Draws) -> Draws:
    """Draw a mapping with at least one of the fields."""
    return _mapping({}, optional, 1)


@st.composite
def _mapping(
    draw: st.DrawFn, required: Mapping[str, Draws], optional: Mapping[str, Draws], least: int
) -> Json:
    names = draw(
        st.lists(
            st.sampled_from(sorted(optional)),
            unique=True,
            min_size=least,
            max_size=min(len(optional), 4),
        )
        if optional
        else st.just([])
    )
    chosen = {**required, **{name: optional[name] for name in names}}
    return {name: draw(value) for name, value in chosen.items()}


def document(
    kind: str, name: str, namespace: str, spec: Json, *, group: str = "networking.istio.io/v1"
) -> Json:
    """Return an object as a user writes it."""
    return {
        "apiVersion": group,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


@st.composite
def few(draw: st.DrawFn, objects: Draws, *, most: int) -> list[Any]:
    """Draw a list that is short more often than long."""
    return [draw(objects) for _ in range(draw(st.integers(0, most)))]
