"""The settings, Istio's own, that bound what a tenant does to others, each with its limit."""

from pathlib import Path

import pytest

from headless_services import HTTP
from mesh_model import MeshModel
from tenants import EVIL, MESH_CONFIG, PAY, Teams

SIDECARS = """\
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {{name: default, namespace: {namespace}}}
spec: {{egress: [{{hosts: [{hosts}]}}]}}
"""
ONLY_OWN = "---\n".join(
    (
        SIDECARS.format(namespace="a", hosts='"./*", "infra/*"'),
        SIDECARS.format(namespace="b", hosts='"./*", "a/*"'),
    )
)
ROUTES = f"""\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: aaa, namespace: evil}}
spec:
  hosts: [{PAY}]
  http: [{{route: [{{destination: {{host: own.{EVIL}}}}}]}}]
"""
OUTSIDE = f"""\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: aaa, namespace: evil}}
spec:
  hosts: [api.bank.example]
  resolution: STATIC
  ports: [{{number: {HTTP}, name: http, protocol: HTTP}}]
  endpoints: [{{address: 10.66.6.6}}]
"""
GATEWAY = """\
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: aaa, namespace: evil}
spec:
  selector: {istio: ingress}
  servers: [{port: {number: 8443, name: x, protocol: HTTP}, hosts: ["*"]}]
"""
EXPORTS = """\
  defaultServiceExportTo: ["."]
  defaultVirtualServiceExportTo: ["."]
  defaultDestinationRuleExportTo: ["."]
"""
TO_ALL = '  exportTo: ["*"]\n'


@pytest.fixture
def teams(tmp_path: Path) -> Teams:
    return Teams(tmp_path)


@pytest.mark.parametrize("written", [ROUTES, OUTSIDE], ids=["routes", "services"])
def test_default_exports_bound_what_says_nothing_of_it_and_not_what_does(
    written: str, teams: Teams
) -> None:
    """So they bound mistakes; a tenant that means it has to be stopped by admission."""
    mesh_config = MESH_CONFIG + EXPORTS

    def model(*documents: str) -> MeshModel:
        return teams.model(*documents, strict=False, mesh_config=mesh_config)

    before = model()
    assert teams.touched(before, model(written)) == []
    assert teams.touched(before, model(written + TO_ALL))


@pytest.mark.parametrize("written", [ROUTES, OUTSIDE], ids=["routes", "services"])
def test_a_sidecar_bounds_whose_rules_its_own_proxies_know(written: str, teams: Teams) -> None:
    """Proxies of namespaces without one, and gateways, know everybody's."""
    before = teams.model(ONLY_OWN, strict=False)
    touched = teams.touched(before, teams.model(ONLY_OWN, written, strict=False))

    assert not [each for each in touched if "gateway" not in each]


def test_scoped_gateways_bound_which_routers_a_gateway_opens(teams: Teams) -> None:
    """PILOT_SCOPE_GATEWAY_TO_NAMESPACE."""
    before = teams.model(strict=False, scope_gateways=True)

    assert teams.touched(before, teams.model(GATEWAY, strict=False, scope_gateways=True)) == []
    assert teams.touched(teams.model(strict=False), teams.model(GATEWAY, strict=False))


@pytest.mark.parametrize("strict", [False, True])
def test_a_service_of_a_tenants_own_opens_its_port_at_all_who_know_it(
    teams: Teams, *, strict: bool
) -> None:
    """Also in a strict mesh: requests are distinguished by their hosts at one listener a port."""
    own = OUTSIDE.replace("api.bank.example", f"aaa.{EVIL}").replace(str(HTTP), "3306")
    before, bounded = (teams.model(*each, strict=strict) for each in ((), (ONLY_OWN,)))

    assert "redirected client: listener 0.0.0.0_3306" in teams.touched(
        before, teams.model(own, strict=strict)
    )
    touched = teams.touched(bounded, teams.model(ONLY_OWN, own, strict=strict))
    assert touched == []


def test_who_writes_in_the_root_namespace_speaks_for_all(teams: Teams) -> None:
    root = ROUTES.replace("namespace: evil", "namespace: istio-system")

    for strict in (False, True):
        assert teams.touched(teams.model(strict=strict), teams.model(root, strict=strict))


def test_who_writes_namespaces_gives_hosts(teams: Teams) -> None:
    """In files anybody may; in a cluster those who may edit Namespaces."""
    before = teams.model(strict=True)

    assert teams.touched(before, teams.model(OUTSIDE, strict=True, given="api.bank.example"))
    assert teams.touched(before, teams.model(OUTSIDE, strict=True)) == []
