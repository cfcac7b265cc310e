"""`check -o json` and `-o sarif` say of each finding what it is, how grave, and where."""

import json
from pathlib import Path
from typing import Any

import pytest

from planes import run_command

MESH = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: cart, namespace: shop}
spec:
  hosts: [cart.test]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.0.0.1, labels: {app: cart}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: cart, namespace: shop}
spec:
  hosts: [cart.test]
  http:
  - route:
    - destination: {host: card.test}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: closed, namespace: shop}
spec:
  selector: {matchLabels: {app: card}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cart, namespace: shop}
"""
WRONG = """\
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: public, namespace: shop}
spec:
  servers:
  - hosts: ["*"]
    port: {number: 80, name: http, protocol: HTTPP}
"""
EXPECTED = [
    ("IST0106", "error", "wrong.yaml", 7, 36, "Gateway shop/public"),
    ("IST0101", "error", "mesh.yaml", 17, 21, "VirtualService shop/cart"),
    ("IST0127", "warning", "mesh.yaml", 23, 14, "AuthorizationPolicy shop/closed"),
]


@pytest.fixture
def mesh(tmp_path: Path) -> Path:
    directory = tmp_path / "the mesh"
    directory.mkdir()
    (directory / "mesh.yaml").write_text(MESH)
    (directory / "wrong.yaml").write_text(WRONG)
    return directory


async def test_json_has_code_severity_place_object_and_sentence(mesh: Path) -> None:
    code, output = await run_command(mesh.parent, "check", mesh.name, "-o", "json")

    found = json.loads(output)["findings"]
    keys = ("code", "severity", "file", "line", "column", "object")
    coded = [each for each in found if each["code"]]
    findings = [tuple(each[key] for key in keys) for each in coded]
    assert [(*each[:2], Path(each[2]).name, *each[3:]) for each in findings] == EXPECTED
    assert [each["path"] for each in coded] == [
        "spec.servers[0].port.protocol",
        "spec.http[0].route[0].destination.host",
        "spec.selector.matchLabels",
    ]
    assert coded[1]["sentence"].startswith("there is no service card.test")
    assert [each["severity"] for each in found if not each["code"]] == ["info"]
    assert code == 1


async def test_people_see_the_codes(mesh: Path) -> None:
    _, output = await run_command(mesh.parent, "check", mesh.name)

    coded = [line for line in output.splitlines() if line.endswith("]")]
    assert {line[-8:-1] for line in coded} == {"IST0101", "IST0127"}


async def test_sarif_is_what_its_schema_demands(mesh: Path) -> None:
    code, output = await run_command(mesh.parent, "check", mesh.name, "-o", "sarif")

    log = json.loads(output)
    assert_is_sarif(log)
    (run,) = log["runs"]
    results = run["results"]
    assert [each["level"] for each in results] == ["error", "error", "warning", "note"]
    first = results[0]["locations"][0]
    assert first["physicalLocation"] == {
        "artifactLocation": {"uri": "the%20mesh/wrong.yaml"},
        "region": {"startLine": 7, "startColumn": 36},
    }
    assert first["logicalLocations"][0]["fullyQualifiedName"] == "Gateway shop/public"
    assert code == 1


async def test_sarif_of_a_good_mesh_has_no_result(tmp_path: Path) -> None:
    (tmp_path / "mesh").mkdir()
    (tmp_path / "mesh" / "cart.yaml").write_text(MESH.partition("---")[0])

    code, output = await run_command(tmp_path, "check", "mesh", "-o", "sarif")

    assert_is_sarif(json.loads(output))
    assert json.loads(output)["runs"][0]["results"] == []
    assert code == 0


def assert_is_sarif(log: dict[str, Any]) -> None:
    """Assert what the schema of SARIF 2.1.0 demands of the parts that are here."""
    assert log["version"] == "2.1.0"
    assert set(log) <= {"$schema", "version", "runs"}
    for run in log["runs"]:
        driver = run["tool"]["driver"]
        assert driver["name"]
        ids = [each["id"] for each in driver["rules"]]
        assert len(ids) == len(set(ids))
        assert all(each["shortDescription"]["text"] for each in driver["rules"])
        for result in run["results"]:
            assert ids[result["ruleIndex"]] == result["ruleId"]
            assert result["level"] in ("none", "note", "warning", "error")
            assert result["message"]["text"]
            for location in result["locations"]:
                physical = location["physicalLocation"]
                assert " " not in physical["artifactLocation"]["uri"]
                region = physical["region"]
                assert region["startLine"] >= 1
                assert region.get("startColumn", 1) >= 1
