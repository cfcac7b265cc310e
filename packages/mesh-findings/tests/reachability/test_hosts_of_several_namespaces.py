"""Of services that share a host, those are reported that other proxies pass over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from istio_config import FileContent, read_object, snapshot_of
from mesh_configfile import read_documents
from mesh_model import Facts, MeshModel, build_model, visible_services
from unreachable import unreachable

HOST = "web.one.svc.cluster.local"
NAMESPACES = ("one", "two", "three", "four", "elsewhere")


def kubernetes(exported: str, created: str) -> str:
    annotations = f"annotations: {{networking.istio.io/exportTo: '{exported}'}}"
    return (
        "apiVersion: v1\nkind: Service\n"
        f"metadata: {{name: web, namespace: one, creationTimestamp: '{created}', {annotations}}}\n"
        "spec: {clusterIP: 10.9.0.1, ports: [{port: 80, name: http}]}\n"
    )


def entry(namespace: str, exported: str, created: str) -> str:
    return (
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
        f"metadata: {{name: web, namespace: {namespace}, creationTimestamp: '{created}'}}\n"
        f"spec: {{hosts: [{HOST}], ports: [{{number: 80, name: http, protocol: HTTP}}],"
        f" resolution: STATIC, exportTo: ['{exported}']}}\n"
    )


def model_of(*texts: str) -> MeshModel:
    documents, problems = read_documents("---\n".join(texts), file="mesh.yaml")
    assert not problems
    read = [read_object(each).item for each in documents]
    objects = tuple(each for each in read if each is not None)
    assert len(objects) == len(texts)
    return build_model(Facts(snapshot=snapshot_of([FileContent(objects=objects)])))


@pytest.mark.parametrize("older", ["2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z"])
def test_a_service_entry_that_loses_to_a_kubernetes_service_is_reported(older: str) -> None:
    texts = kubernetes("*", "2026-01-02T00:00:00Z"), entry("two", "*", older)
    model = model_of(*texts)

    (problem,) = unreachable(model)

    assert visible_services(model.services, "elsewhere")[HOST].namespace == "one"
    assert problem.field == "spec.hosts[0]"
    assert f'"{HOST}" is served by Service one/web' in problem.message
    assert "of the proxies outside two" in problem.message


_exported = st.sampled_from(("*", ".", "two", "three", "elsewhere"))
_created = st.integers(1, 9).map("2026-01-0{}T00:00:00Z".format)


@given(
    service=st.tuples(_exported, _created) | st.none(),
    entries=st.dictionaries(
        st.sampled_from(("two", "three", "four")), st.tuples(_exported, _created), max_size=3
    ),
)
def test_what_is_reported_is_what_some_other_proxy_passes_over(
    service: tuple[str, str] | None, entries: dict[str, tuple[str, str]]
) -> None:
    texts = [kubernetes(*service)] if service is not None else []
    texts += [
        entry(namespace, exported, created)
        for namespace, (exported, created) in entries.items()
        if exported != namespace
    ]
    if not texts:
        return
    model = model_of(*texts)

    passed_over: set[str] = set()
    for namespace in NAMESPACES:
        taken = visible_services(model.services, namespace).get(HOST)
        for each in model.services:
            if taken is not None and each is not taken and each.visible_in(namespace):
                own = {each.namespace, taken.namespace}
                passed_over |= {each.namespace} if namespace not in own else set()

    said = [each.message for each in unreachable(model) if "of the proxies outside" in each.message]
    reported = {message.partition("proxies outside ")[2].partition(",")[0] for message in said}
    assert reported == passed_over
