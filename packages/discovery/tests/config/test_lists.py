"""Lists of objects, as `kubectl get -o yaml` writes them."""

from pathlib import Path

from mesh_discovery import ConfigLoader

LIST = """\
apiVersion: v1
kind: List
metadata: {resourceVersion: ""}
items:
- apiVersion: security.istio.io/v1
  kind: PeerAuthentication
  metadata: {name: default, namespace: a}
  spec: {mtls: {mode: STRICT}}
- apiVersion: networking.istio.io/v1
  kind: ServiceEntry
  metadata: {name: web, namespace: a}
  spec: {hosts: [web.a], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATICS}
"""


def test_the_objects_of_a_list_are_read_each_with_its_lines(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(LIST)
    load = ConfigLoader(tmp_path).load()
    assert [(each.line, each.field) for each in load.problems] == [(12, "spec.resolution")]

    (tmp_path / "all.yaml").write_text(LIST.replace("STATICS", "STATIC"))
    load = ConfigLoader(tmp_path).load()
    assert [(each.kind, each.line) for each in load.snapshot.objects] == [
        ("PeerAuthentication", 5),
        ("ServiceEntry", 9),
    ]
