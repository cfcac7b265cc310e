"""Which Secrets are refused, and that nothing tells what is in them."""

import base64
from typing import Any

import pytest

from istio_config.kinds.kubernetes._secret import SECRET, SecretFields
from istio_config.kinds.metadata import Metadata
from key_material import revocation_list, small_rsa_pair
from mesh_configfile import field_name
from mesh_testkit.certificates import Authority

AUTHORITY = Authority()
ISSUED = AUTHORITY.issue("a.example")
OTHER = AUTHORITY.issue("b.example")
SMALL = small_rsa_pair()
CANARY = "c2VjcmV0LWNhbmFyeQ"


def encoded(**values: bytes) -> dict[str, str]:
    return {key.replace("_", "."): base64.b64encode(each).decode() for key, each in values.items()}


def read(**fields: Any) -> tuple[SecretFields | None, list[tuple[str, str]], list[tuple[str, str]]]:
    body = SECRET.read(fields, (), Metadata(name="x"))
    spec, mistakes, warnings = body.spec, body.mistakes, body.warnings
    return (
        spec,
        [(field_name(path), text) for path, text in mistakes],
        [(field_name(path), text) for path, text, _ in warnings],
    )


TLS = "kubernetes.io/tls"
GOOD = encoded(tls_crt=ISSUED.chain_pem, tls_key=ISSUED.key_pem)


def test_secret_of_a_certificate_gives_it_with_its_key_and_roots() -> None:
    spec, mistakes, warnings = read(
        type=TLS,
        data={**GOOD, **encoded(ca_crt=AUTHORITY.root_pem, ca_crl=revocation_list())},
    )
    assert (mistakes, warnings) == ([], [])
    assert spec is not None
    assert spec.pair == (ISSUED.chain_pem, ISSUED.key_pem)
    assert spec.roots == AUTHORITY.root_pem
    assert spec.revocations.startswith(b"-----BEGIN X509 CRL-----")


def test_opaque_secret_has_shorter_names_and_may_be_plain_text() -> None:
    spec, mistakes, _ = read(
        stringData={
            "cert": ISSUED.chain_pem.decode(),
            "key": ISSUED.key_pem.decode(),
            "cacert": AUTHORITY.root_pem.decode(),
        }
    )
    assert mistakes == []
    assert spec is not None
    assert spec.pair == (ISSUED.chain_pem, ISSUED.key_pem)
    assert spec.roots == AUTHORITY.root_pem


def test_secrets_of_other_programs_are_let_pass() -> None:
    spec, mistakes, warnings = read(
        type="helm.sh/release.v1", data=encoded(release=b"x", key=b"y"), immutable=True
    )
    assert (mistakes, warnings) == ([], [])
    assert spec is not None
    assert (spec.pair, spec.roots) == (None, b"")


@pytest.mark.parametrize(
    ("fields", "place", "message"),
    [
        ({"data": f"{CANARY}"}, "data", "expected a mapping"),
        ({"data": {"x": f"{CANARY}!"}}, "data.x", "is not base64"),
        ({"data": {"x": [CANARY]}}, "data.x", "is not base64"),
        ({"stringData": {"x": 5}}, "stringData.x", "expected text"),
        ({"type": TLS, "data": {"tls.crt": GOOD["tls.crt"]}}, "data.tls.key", "is missing"),
        (
            {"type": TLS, "data": {**GOOD, "tls.key": CANARY + "=="}},
            "data.tls.key",
            "no private key",
        ),
        (
            {"type": TLS, "data": {**GOOD, "tls.crt": CANARY + "=="}},
            "data.tls.crt",
            "no certificate",
        ),
        (
            {"type": TLS, "data": {**GOOD, **encoded(tls_key=OTHER.key_pem)}},
            "data.tls.key",
            "not the key of the certificate",
        ),
        (
            {"type": TLS, "data": {**GOOD, "tls.ocsp-staple": CANARY + "=="}},
            "data.tls.ocsp-staple",
            "no answer of OCSP",
        ),
        (
            {
                "type": TLS,
                "data": {
                    **GOOD,
                    **encoded(ca_crt=AUTHORITY.root_pem),
                    "ca.crl": CANARY + "==",
                },
            },
            "data.ca.crl",
            "no list of revoked certificates",
        ),
        ({"type": TLS, "data": {**GOOD, "ca.crt": CANARY + "=="}}, "data.ca.crt", "no certifi"),
    ],
)
def test_mistake_in_a_secret_is_reported_without_its_values(
    fields: dict[str, Any], place: str, message: str
) -> None:
    _, mistakes, _ = read(**fields)
    assert [name for name, _ in mistakes] == [place], mistakes
    assert message in mistakes[0][1]
    assert CANARY not in mistakes[0][1]
    assert base64.b64decode(CANARY + "==").decode() not in mistakes[0][1]


def test_opaque_secret_with_a_wrong_certificate_is_only_warned_of() -> None:
    _, mistakes, warnings = read(data=encoded(cert=b"x", key=b"y"))
    assert mistakes == []
    assert warnings == [("data.cert", "holds no certificate in PEM")]


def test_key_that_only_envoy_refuses_is_warned_of() -> None:
    _, mistakes, warnings = read(
        type=TLS, data={**GOOD, **encoded(tls_crt=SMALL[0], tls_key=SMALL[1])}
    )
    assert mistakes == []
    assert warnings == [
        ("data.tls.key", "is an RSA key of less than 2048 bits, which Envoy refuses")
    ]


def test_text_of_a_secret_has_names_of_values_alone() -> None:
    spec, _, _ = read(type=TLS, data=GOOD, stringData={"more": CANARY})
    text = repr(spec)
    assert text == "SecretFields(type='kubernetes.io/tls', keys=['more', 'tls.crt', 'tls.key'])"
