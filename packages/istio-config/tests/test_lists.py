"""Lists of objects, as `kubectl get -o yaml` writes them."""

from pathlib import Path

from istio_config import read_folder

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
    found = read_folder(tmp_path)
    assert [(each.line, each.field) for each in found.problems] == [(12, "spec.resolution")]

    (tmp_path / "all.yaml").write_text(LIST.replace("STATICS", "STATIC"))
    found = read_folder(tmp_path)
    assert [(each.kind, each.line) for each in found.snapshot.objects] == [
        ("PeerAuthentication", 5),
        ("ServiceEntry", 9),
    ]
