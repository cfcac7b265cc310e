"""One `check` reports all mistakes of all stages, each at its field and none that follows."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from mesh_discovery import check_configuration
from planes import run_command

PLANTED = Path(__file__).parent / "planted"
_FINDING = re.compile(r"(?:warning|mesh-discovery): (\S+?):(\d+): (?:(\S+): )?")
_PLANTED = re.compile(r"#!(?: (\S+))?\s*$")


def planted() -> set[tuple[str, int, str]]:
    """Return file, line and field of each mistake, by the comments beside them."""
    return {
        (file.name, number, found[1] or "")
        for file in PLANTED.glob("*.yaml")
        for number, line in enumerate(file.read_text().splitlines(), start=1)
        if (found := _PLANTED.search(line)) and not line.startswith("#")
    }


async def test_one_round_tells_every_mistake_at_its_field_and_nothing_else(tmp_path: Path) -> None:
    code, output = await run_command(tmp_path, "check", str(PLANTED), "--interception-mode=NONE")

    matches = [_FINDING.match(line) for line in output.splitlines()]
    assert all(matches), output
    found = [(Path(each[1]).name, int(each[2]), each[3] or "") for each in matches if each]
    # A syntax error has no field, and the words of the parser.
    found = [(file, line, "" if "YAML" in field else field) for file, line, field in found]
    assert len(planted()) >= 30
    assert set(found) == planted()
    assert len(found) == len(set(found))
    assert code == 1


async def test_programs_get_the_same_findings(tmp_path: Path) -> None:
    _, output = await run_command(
        tmp_path, "check", str(PLANTED), "--interception-mode=NONE", "-o", "json"
    )

    page = json.loads(output)
    entries = [*page["problems"], *page["unreachable"], *page["warnings"]]
    assert {(Path(each["file"]).name, each["line"], each["field"]) for each in entries} == planted()


GOOD = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: cart, namespace: shop}
spec:
  hosts: [cart.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 8080, name: http, protocol: HTTP}]
  endpoints: [{address: 10.1.1.1, labels: {app: cart, version: v1}, serviceAccount: cart}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: cart, namespace: shop}
spec:
  host: cart.shop.svc.cluster.local
  trafficPolicy:
    connectionPool: {tcp: {connectTimeout: 5s, maxConnections: 10}}
    loadBalancer: {simple: ROUND_ROBIN}
  subsets: [{name: v1, labels: {version: v1}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: cart, namespace: shop}
spec:
  hosts: [cart.shop.svc.cluster.local]
  http:
  - match: [{uri: {prefix: /new}, headers: {reader: {exact: jason}}}]
    route: [{destination: {host: cart.shop.svc.cluster.local, subset: v1}, weight: 100}]
    timeout: 2s
    retries: {attempts: 2, perTryTimeout: 1s, retryOn: 5xx}
  - route: [{destination: {host: cart.shop.svc.cluster.local, port: {number: 8080}}}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: cart, namespace: shop}
spec:
  selector: {matchLabels: {app: cart}}
  action: ALLOW
  rules:
  - from: [{source: {principals: [cluster.local/ns/shop/sa/page]}}]
    to: [{operation: {methods: [GET], paths: [/new*]}}]
"""
_DOCUMENTS: list[Any] = list(yaml.safe_load_all(GOOD))


def paths(value: Any, path: tuple[str | int, ...]) -> list[tuple[str | int, ...]]:
    """Return the path of each value below `spec`, leaves and what they are in."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(found for key, each in inner for found in paths(each, (*path, key)))]


PLACES = [
    (index, path)
    for index, document in enumerate(_DOCUMENTS)
    for path in paths(document["spec"], ("spec",))[1:]
]


def field_name(path: tuple[str | int, ...]) -> str:
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path)[1:]


def with_value(value: Any, path: tuple[str | int, ...], given: object) -> Any:
    first, *rest = path
    changed = with_value(value[first], tuple(rest), given) if rest else given
    if isinstance(value, dict):
        return {**value, first: changed}
    return [changed if at == first else each for at, each in enumerate(value)]


def test_the_mesh_without_a_mistake_is_good(tmp_path: Path) -> None:
    (tmp_path / "mesh.yaml").write_text(GOOD)

    checked = check_configuration(tmp_path)

    assert (checked.is_good, checked.warnings, checked.notes) == (True, (), ())


@given(place=st.sampled_from(PLACES), wrong=st.sampled_from([-7.5, [[]], {"?": 1}]))
def test_a_value_of_the_wrong_type_is_reported_and_nothing_that_follows_from_it(
    place: tuple[int, tuple[str | int, ...]],
    wrong: object,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    index, path = place
    documents = [*_DOCUMENTS]
    documents[index] = with_value(documents[index], path, wrong)
    directory = tmp_path_factory.mktemp("mesh")
    (directory / "mesh.yaml").write_text(yaml.safe_dump_all(documents, sort_keys=False))

    checked = check_configuration(directory)

    assume(checked.problems)  # a mapping of labels may have any key
    name = field_name(path)
    for each in (*checked.problems, *checked.unreachable, *checked.warnings):
        assert each.field.startswith(name) or name.startswith(each.field), each
