"""The service of a provider is found by namespace and host, or by a host that only one has."""

import pytest

from envoy_config.plan._provider_services import ProviderService, provider_service
from mesh_model import Facts, build_model
from mesh_objects import service_entry, snapshot

MODEL = build_model(
    Facts(
        snapshot=snapshot(
            [
                service_entry("one", "one.example.com", namespace="a"),
                service_entry("both", "both.example.com", namespace="a"),
                service_entry("both", "both.example.com", namespace="b"),
            ]
        )
    )
)
ONE = ProviderService("outbound|80||one.example.com", "one.example.com", ("a", "one.example.com"))
BOTH = "outbound|80||both.example.com"


@pytest.mark.parametrize(
    ("service", "port", "found"),
    [
        ("one.example.com", 80, ONE),
        ("ONE.example.com", 80, ONE),
        ("a/one.example.com", 80, ONE),
        ("b/one.example.com", 80, None),
        ("one.example.com", 81, None),
        ("none.example.com", 80, None),
        ("both.example.com", 80, None),
        (
            "b/both.example.com",
            80,
            ProviderService(BOTH, "both.example.com", ("b", "both.example.com")),
        ),
    ],
)
def test_the_cluster_of_a_provider_is_that_of_its_service(
    service: str, port: int, found: ProviderService | None
) -> None:
    assert provider_service(service, port, MODEL) == found
