"""Where the keys come from that callers' tokens are checked with, by flags and environment."""

from dataclasses import replace
from pathlib import Path

import pytest

from mesh_discovery._config import Flags, SettingsError, read_config
from mesh_discovery.settings._tokens import TokenRule

ISSUER = "https://issuer.example"
AUDIENCES = ("istio-ca",)
FLAGS = Flags(
    config_dir=Path("mesh"),
    mesh_config=None,
    ca_dir=None,
    jwks_file=None,
    jwks_url="",
    jwt_issuer="",
    jwt_audiences=AUDIENCES,
    http_addr="",
    grpc_addr="",
    secure_grpc_addr=":15012",
    monitoring_addr="",
    domain="cluster.local",
    shutdown_duration="10s",
)


@pytest.mark.parametrize(
    ("url", "issuer", "rule", "expected"),
    [
        ("", "", "", None),
        ("", ISSUER, "", TokenRule(issuer=ISSUER, audiences=AUDIENCES)),
        (
            "https://keys.example/",
            "any",
            "",
            TokenRule(issuer="any", audiences=AUDIENCES, jwks_url="https://keys.example/"),
        ),
        (
            "",
            "",
            '{"issuer": "any", "jwksUri": "https://keys.example/", "audiences": ["a"]}',
            TokenRule(issuer="any", audiences=("a",), jwks_url="https://keys.example/"),
        ),
        (
            "",
            "",
            '{"issuer": "https://issuer.example"}',
            TokenRule(issuer=ISSUER, audiences=AUDIENCES),
        ),
        (
            "",
            "",
            '{"issuer": "any", "jwksUri": "file:///keys.json"}',
            TokenRule(issuer="any", audiences=AUDIENCES, jwks_file=Path("/keys.json")),
        ),
    ],
)
def test_keys_are_named_or_found(
    url: str, issuer: str, rule: str, expected: TokenRule | None
) -> None:
    flags = replace(FLAGS, jwks_url=url, jwt_issuer=issuer)
    assert read_config(flags, {"JWT_RULE": rule}).tokens == expected


@pytest.mark.parametrize(
    ("flags", "environ", "problems"),
    [
        (
            replace(FLAGS, jwks_url="https://k/", jwks_file=Path("k.json")),
            {},
            (
                "--jwks-url and --jwks-file are both given: leave one out",
                "--jwt-issuer is missing: --jwks-url needs it",
            ),
        ),
        (
            FLAGS,
            {"JWT_RULE": '{"issuer": "any"}'},
            (
                (
                    "JWT_RULE: keys are read from jwks (inline), from jwksUri (file:// or "
                    "https://), or found by an issuer that is an https:// URL; give one of them"
                ),
            ),
        ),
        (
            FLAGS,
            {"CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE": "120"},
            (
                (
                    "CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE is '120': "
                    "expected a whole number from 0 to 100"
                ),
            ),
        ),
    ],
)
def test_what_contradicts_itself_is_reported(
    flags: Flags, environ: dict[str, str], problems: tuple[str, ...]
) -> None:
    with pytest.raises(SettingsError) as caught:
        read_config(flags, environ)
    assert caught.value.problems == problems


def test_root_follows_istios_variables() -> None:
    config = read_config(
        FLAGS,
        {
            "CITADEL_SELF_SIGNED_CA_CERT_TTL": "240h",
            "CITADEL_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL": "30m",
            "CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE": "50",
        },
    )
    assert config.root_lifetime.days == 10
    assert config.root_check_interval.total_seconds() == 1800
    assert config.root_grace == 0.5
