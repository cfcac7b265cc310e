"""What differs between two models, as a push request."""

from collections.abc import Callable

from documents import WEB, Documents, entry, workload
from envoy_config.changes._difference import difference
from mesh_model import MeshModel
from xds_server import ConfigKey

Build = Callable[..., MeshModel]


def test_an_endpoint_more_is_incremental_and_names_service_and_address(
    model_of: Build,
) -> None:
    one = WEB + ", endpoints: [{address: 10.0.0.1}"
    old = model_of(entry("web", one + "]"))
    new = model_of(entry("web", one + ", {address: 10.0.0.2}]"))

    request = difference(old, new)

    assert request is not None
    assert request.incremental
    assert request.configs_updated == {
        ConfigKey("ServiceEntry", "web.a", "default"),
        ConfigKey("Address", "10.0.0.2", "default"),
    }
    assert request.described_reasons() == ("ServiceEntry/default/web.a",)


def test_another_service_account_is_no_incremental_push(model_of: Build) -> None:
    endpoint = WEB + ", endpoints: [{address: 10.0.0.1, serviceAccount: %s}]"

    request = difference(
        model_of(entry("web", endpoint % "a")), model_of(entry("web", endpoint % "b"))
    )

    assert request is not None
    assert not request.incremental


def test_another_mesh_config_may_change_everything(model_of: Build) -> None:
    mesh = "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\nspec: {connectTimeout: 1s}\n"

    request = difference(model_of(entry("web", WEB)), model_of(entry("web", WEB), mesh))

    assert request is not None
    assert not request.incremental
    assert not request.configs_updated


def test_a_workload_that_no_service_selects_changes_nothing(model_of: Build) -> None:
    old = model_of(entry("web", WEB))

    assert difference(old, model_of(entry("web", WEB), workload("w", "address: 10.0.0.9"))) is None


def test_a_policy_is_named_as_the_object_that_changed(model_of: Build, yaml: Documents) -> None:
    kept = yaml.peer_authentication("STRICT", namespace="kept")
    old = model_of(kept, yaml.peer_authentication("STRICT", namespace="shop"))
    new = model_of(kept, yaml.peer_authentication("DISABLE", namespace="shop"))

    request = difference(old, new)

    assert request is not None
    assert not request.incremental
    assert request.configs_updated == {ConfigKey("PeerAuthentication", "default", "shop")}
    assert request.described_reasons() == ("PeerAuthentication/shop/default",)
