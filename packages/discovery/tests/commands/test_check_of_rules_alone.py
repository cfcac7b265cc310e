"""`check` of a directory that has rules and no services."""

import shutil
from pathlib import Path

import pytest

from planes import run_command

BOOKSHOP = Path(__file__).parents[4] / "examples" / "bookshop"

RULE = """\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: cart, namespace: shop}
spec:
  hosts: [cart]
  http:
  - route: [{destination: {host: cart%s}}]
"""
SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %s, namespace: shop}
spec:
  hosts: [%s.shop.svc.cluster.local]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "cart.yaml").write_text(RULE % "")
    return tmp_path / "rules"


async def test_names_of_services_are_counted_in_a_note(rules: Path, tmp_path: Path) -> None:
    code, output = await run_command(tmp_path, "check", str(rules))

    assert code == 0
    assert output.splitlines() == [
        (
            "note: no service is defined here, so the name of a service in these rules can't be "
            "checked; --with PATH reads services that are defined elsewhere"
        ),
        "1 object in 1 file is good",
    ]


async def test_subsets_are_checked_all_the_same(rules: Path, tmp_path: Path) -> None:
    (rules / "cart.yaml").write_text(RULE % ", subset: v9")
    code, output = await run_command(tmp_path, "check", str(rules))

    assert code == 1
    assert "spec.http[0].route[0].destination.subset: no DestinationRule for cart" in output


@pytest.mark.parametrize(("name", "code"), [("cart", 0), ("basket", 1)])
@pytest.mark.parametrize("with_file", [False, True])
async def test_services_of_elsewhere_count(
    rules: Path, tmp_path: Path, name: str, code: int, *, with_file: bool
) -> None:
    (tmp_path / "services").mkdir()
    file = tmp_path / "services" / "all.yaml"
    file.write_text(SERVICE % (name, name) + "---\nkind: Broken\n")

    ended, output = await run_command(
        tmp_path, "check", str(rules), "--with", str(file if with_file else file.parent)
    )

    assert ended == code, output
    assert "Broken" not in output  # the others' mistakes are not reported
    assert ("there is no service cart.shop.svc.cluster.local" in output) == bool(code)


async def test_one_service_makes_it_a_mesh(rules: Path, tmp_path: Path) -> None:
    (rules / "basket.yaml").write_text(SERVICE % ("basket", "basket"))

    assert (await run_command(tmp_path, "check", str(rules)))[0] == 1


async def test_rules_of_mesh_local_name_its_file_and_its_command(tmp_path: Path) -> None:
    shutil.copytree(BOOKSHOP, tmp_path / "shop")
    code, output = await run_command(tmp_path, "check", "--config-dir", "shop/rules")

    assert code == 0
    assert "mesh-local check shop/mesh.yaml" in output
    code, output = await run_command(tmp_path, "check", "shop/rules", "--with", "shop/mesh.yaml")
    assert (code, len(output.splitlines())) == (1, 1)
    assert "is a file of mesh-local" in output
