"""Services of every resolution, and workloads that they select."""

from collections.abc import Iterable

from hypothesis import strategies as st

from drawn_meshes._draws import (
    EXTERNAL_HOSTS,
    HOSTS,
    LOCALITIES,
    PORTS,
    VERSIONS,
    WILDCARD_HOSTS,
    Json,
    document,
    export_to,
)

_RESOLUTIONS = ("STATIC", "STATIC", "DNS", "DNS_ROUND_ROBIN", "NONE")
_ADDRESSES = tuple(f"10.4.{n // 8}.{n % 8 + 1}" for n in range(24))


@st.composite
def services(draw: st.DrawFn, *, most: int = 6) -> list[Json]:
    """Draw ServiceEntries of different hosts."""
    chosen = draw(st.lists(st.sampled_from((*HOSTS, *WILDCARD_HOSTS)), unique=True, max_size=most))
    return [draw(_service(host, index)) for index, host in enumerate(chosen)]


@st.composite
def _service(draw: st.DrawFn, host: str, index: int) -> Json:
    parts = host.split(".")
    is_local = host.endswith(".svc.cluster.local")
    namespace = parts[1] if is_local else draw(st.sampled_from(("a", "b")))
    resolution = "NONE" if host.startswith("*") else draw(st.sampled_from(_RESOLUTIONS))
    ports = [dict(each) for each in draw(_ports)]
    spec: Json = {
        "hosts": [host],
        "ports": ports,
        "resolution": resolution,
        "location": "MESH_INTERNAL" if is_local else "MESH_EXTERNAL",
    }
    if resolution == "STATIC":
        if draw(st.booleans()):
            spec["endpoints"] = draw(
                st.lists(_endpoint(st.sampled_from(_ADDRESSES), ports), max_size=4)
            )
        else:
            spec["workloadSelector"] = {"labels": {"app": parts[0]}}
    elif resolution.startswith("DNS") and draw(st.booleans()):
        most = 1 if resolution == "DNS_ROUND_ROBIN" else 2
        names = st.sampled_from((*EXTERNAL_HOSTS, *_ADDRESSES[:3]))
        spec["endpoints"] = draw(st.lists(_endpoint(names, ports), min_size=1, max_size=most))
    by_dns = resolution.startswith("DNS")
    if draw(st.booleans()):
        spec["addresses"] = [f"10.9.0.{index + 1}"]
        if resolution == "NONE" and not by_dns and draw(st.booleans()):
            spec["addresses"] = [f"10.{10 + index}.0.0/16"]
    if draw(st.integers(0, 4)) == 0:
        spec["exportTo"] = draw(export_to)
    if draw(st.integers(0, 4)) == 0:
        spec["subjectAltNames"] = [f"spiffe://cluster.local/ns/{namespace}/sa/other"]
    return document("ServiceEntry", f"{parts[0].strip('*') or 'wild'}-{index}", namespace, spec)


_ports = st.lists(
    st.sampled_from(PORTS), min_size=1, max_size=4, unique_by=lambda port: port["number"]
)


@st.composite
def _endpoint(
    draw: st.DrawFn, addresses: st.SearchStrategy[str], ports: Iterable[Json] = ()
) -> Json:
    endpoint: Json = {"address": draw(addresses)}
    names = [port["name"] for port in ports]
    if draw(st.booleans()):
        endpoint["labels"] = {"app": "s", "version": draw(st.sampled_from(VERSIONS))}
    if draw(st.integers(0, 2)) == 0:
        endpoint["locality"] = draw(st.sampled_from(LOCALITIES))
    if draw(st.integers(0, 3)) == 0:
        endpoint["weight"] = draw(st.sampled_from((1, 5, 100)))
    if draw(st.integers(0, 2)) == 0:
        endpoint["serviceAccount"] = draw(st.sampled_from(("s", "t")))
    if draw(st.integers(0, 5)) == 0:
        endpoint["network"] = "n2"
    if names and draw(st.integers(0, 3)) == 0:
        endpoint["ports"] = {draw(st.sampled_from(names)): 8443}
    return endpoint


@st.composite
def workloads(draw: st.DrawFn, *, most: int = 3) -> list[Json]:
    """Draw WorkloadEntries that services may select."""
    documents = []
    for index in range(draw(st.integers(0, most))):
        spec = draw(_endpoint(st.sampled_from(_ADDRESSES)))
        spec["labels"] = {
            "app": draw(st.sampled_from(("s", "t"))),
            "version": draw(st.sampled_from(VERSIONS)),
        }
        documents.append(document("WorkloadEntry", f"w-{index}", draw(st.sampled_from("ab")), spec))
    return documents
