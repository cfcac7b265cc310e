"""Kubernetes' Ingresses: rules that share hosts, certificates that are wanted twice."""

from hypothesis import strategies as st

from drawn_meshes._draws import Draws, Json, document, few, fields

GROUP = "networking.k8s.io/v1"
_hosts = st.sampled_from(("x.example.com", "y.example.com", "*.example.net", "a-b.c", "a.b-c"))
_services = st.builds(
    lambda name, port: {"service": {"name": name, "port": port}},
    st.sampled_from(("s", "t", "u", "gone")),
    st.sampled_from(({"number": 80}, {"number": 9000}, {"name": "http"}, {"name": "gone"})),
)
_backends = _services | st.just({"resource": {"kind": "Bucket", "name": "b"}})
_typed = st.sampled_from(
    (
        ("/", "Prefix"),
        ("/a", "Prefix"),
        ("/a/", "Prefix"),
        ("/a", "Exact"),
        ("/a/b", "Exact"),
        ("", "ImplementationSpecific"),
        ("/*", "ImplementationSpecific"),
        ("/a/*", "ImplementationSpecific"),
        ("/a.*", "ImplementationSpecific"),
    )
)
_paths = st.builds(
    lambda path, backend: {"path": path[0], "pathType": path[1], "backend": backend},
    _typed,
    _backends,
)
_rules = fields(
    host=_hosts, http=st.lists(_paths, min_size=1, max_size=3).map(lambda paths: {"paths": paths})
)
_tls = fields(
    hosts=st.lists(_hosts, min_size=1, max_size=2, unique=True),
    secretName=st.sampled_from(("shop", "other")),
)


@st.composite
def ingresses(draw: st.DrawFn) -> list[Json]:
    """Draw some Ingresses of either namespace, and their class, which may be another's."""
    documents = [
        _ingress(index, draw(st.sampled_from("ab")), spec)
        for index, spec in enumerate(draw(few(_specs, most=3)))
    ]
    if documents:
        controller = draw(
            st.sampled_from(("istio.io/ingress-controller",) * 3 + ("k8s.io/ingress-nginx",))
        )
        documents.append(
            document("IngressClass", "edge", "default", {"controller": controller}, group=GROUP)
        )
    return documents


_specs: Draws = fields(
    {"rules": st.lists(_rules, min_size=1, max_size=3)},
    tls=st.lists(_tls, max_size=2),
    defaultBackend=_services,
)


def _ingress(index: int, namespace: str, spec: Json) -> Json:
    return document(
        "Ingress", f"i-{index}", namespace, {**spec, "ingressClassName": "edge"}, group=GROUP
    )
