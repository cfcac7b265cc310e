"""Without the libraries of an extra, an object that needs them has a mistake that names the extra.

Each test is a process of its own, in which imports can be refused and counted.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from documents import document

REFUSED = ("google", "cryptography", "envoy")
READ = """\
import json, sys
from pathlib import Path

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in json.loads(sys.argv[2]):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refusing())
from istio_config import read_folder

found = read_folder(Path(sys.argv[1]))
problems = [(Path(each.file).name, each.message) for each in found.problems]
objects = [each.name for each in found.snapshot.objects]
loaded = sorted({name.partition(".")[0] for name in sys.modules})
print(json.dumps({"problems": problems, "objects": objects, "loaded": loaded}))
"""
PATCH = """\
{configPatches: [{applyTo: CLUSTER, match: {context: SIDECAR_OUTBOUND},
  patch: {operation: MERGE, value: {connect_timeout: 3s}}}]}
"""
SECRET = """\
apiVersion: v1
kind: Secret
metadata: {name: certificate, namespace: a}
type: kubernetes.io/tls
stringData: {tls.crt: a certificate, tls.key: a key}
"""
KEY = {"kty": "EC", "crv": "P-256", "x": "AQ", "y": "AQ"}
TOKENS = f"""\
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {{name: tokens, namespace: a}}
spec: {{jwtRules: [{{issuer: https://issuer.example, jwks: '{json.dumps({"keys": [KEY]})}'}}]}}
"""


def write(directory: Path, **files: str) -> None:
    for name, text in files.items():
        (directory / f"{name}.yaml").write_text(text)


def routes() -> str:
    return document(
        "VirtualService",
        "routes",
        "{hosts: [reviews], http: [{route: [{destination: {host: reviews}}], timeout: 3s}]}",
    )


class Found(NamedTuple):
    """What a process read, and the packages that it has loaded."""

    problems: list[list[str]]
    objects: list[str]
    loaded: list[str]


def read(directory: Path, *, refused: tuple[str, ...] = ()) -> Found:
    done = subprocess.run(
        [sys.executable, "-c", READ, str(directory), json.dumps(refused)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Found(**json.loads(done.stdout))


def test_an_object_that_needs_a_missing_extra_has_one_mistake_that_names_it(
    config_dir: Path,
) -> None:
    patch = document("EnvoyFilter", "patch", PATCH).replace("io/v1\n", "io/v1alpha3\n")
    write(config_dir, filter=patch, routes=routes(), secret=SECRET, tokens=TOKENS)

    found = read(config_dir, refused=REFUSED)

    message = "can't be checked here: install istio-config[{}], which brings {}"
    assert found.problems == [
        ["filter.yaml", message.format("envoy-filters", "google")],
        ["secret.yaml", message.format("keys", "cryptography")],
        ["tokens.yaml", message.format("keys", "cryptography")],
    ]
    assert "routes" in found.objects


def test_reading_a_virtual_service_loads_no_library_of_an_extra(config_dir: Path) -> None:
    write(config_dir, routes=routes())

    found = read(config_dir)

    assert found.problems == []
    assert found.objects == ["routes"]
    assert {*REFUSED, "aiohttp", "grpc"}.isdisjoint(found.loaded)
