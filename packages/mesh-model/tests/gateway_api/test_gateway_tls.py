"""The TLS of a whole Gateway, and Istio's options of a listener, as servers of Istio's Gateway."""

import pytest

from gateway_api_meshes import mesh_facts, translated
from istio_config import ConfigObject, InFile
from istio_config.kinds.gateway import ServerTlsSettings, TlsMode
from istio_config.kinds.kubernetes import ConfigMapFields
from mesh_configfile.shapes import decode
from mesh_model.gateway_api._surroundings import MeshFacts
from mesh_model.secrets import Secrets
from mesh_testkit.certificates import Authority

ROOTS = "caCertificateRefs: [{group: '', kind: ConfigMap, name: roots}]"


def facts() -> MeshFacts:
    found = mesh_facts()
    spec = decode({"data": {"ca.crt": Authority().root_pem.decode()}}, ConfigMapFields)
    item = ConfigObject(
        kind="ConfigMap", namespace="shop", name="roots", spec=spec, origin=InFile("r.yaml", 1)
    )
    found._secrets = Secrets.build((*found._secrets.derived.objects, item))
    return found


def gateway(tls: str = "", *, options: str = "") -> str:
    listener = f"tls: {{certificateRefs: [{{name: shop}}], options: {{{options}}}}}"
    return f"""
kind: Gateway
metadata: {{name: gw}}
spec:
  gatewayClassName: istio
  tls: {{{tls}}}
  listeners:
  - {{name: a, port: 443, protocol: HTTPS, {listener}}}
  - {{name: b, port: 444, protocol: HTTPS, {listener}}}
  - name: c
    port: 445
    protocol: TLS
    tls: {{mode: Terminate, certificateRefs: [{{name: shop}}]}}
"""


def frontend(validation: str) -> str:
    return f"frontend: {{default: {{validation: {{{validation}}}}}}}"


def tls_of(text: str, listener: str = "a") -> ServerTlsSettings:
    (server,) = translated(text, facts()).servers()[listener].servers
    assert server.tls is not None
    return server.tls


def test_clients_of_https_listeners_are_validated_by_the_roots_of_the_gateway() -> None:
    text = gateway(frontend(ROOTS))
    for each in ("a", "b"):
        found = tls_of(text, each)
        assert found.mode is TlsMode.MUTUAL
        assert found.ca_cert_credential_name == "configmap://shop/roots"
        assert found.credentials == ("kubernetes-gateway://shop/shop",)
    assert tls_of(text, "c").mode is TlsMode.SIMPLE
    assert translated(text, facts()).warnings == []


def test_a_port_may_have_its_own_validation_or_none() -> None:
    own = f"frontend: {{default: {{}}, perPort: [{{port: 443, tls: {{validation: {{{ROOTS}}}}}}}]}}"
    assert tls_of(gateway(own)).mode is TlsMode.MUTUAL
    assert tls_of(gateway(own), "b").mode is TlsMode.SIMPLE


def test_insecure_fallback_accepts_all_clients_unless_the_listener_says_else() -> None:
    text = frontend(f"{ROOTS}, mode: AllowInsecureFallback")
    found = tls_of(gateway(text))
    assert (found.mode, found.insecure_skip_verify) == (TlsMode.OPTIONAL_MUTUAL, True)

    strict = tls_of(gateway(text, options="gateway.istio.io/tls-terminate-mode: MUTUAL"))
    assert (strict.mode, strict.insecure_skip_verify) == (TlsMode.MUTUAL, False)


@pytest.mark.parametrize(
    ("roots", "served", "wanted"),
    [
        (
            ROOTS.replace("roots", "gone"),
            True,
            "there is no ConfigMap shop/gone with certificates in ca.crt (InvalidCACertificateRef)",
        ),
        (
            ROOTS.replace("ConfigMap", "Service"),
            False,
            "a Service has no roots; use a ConfigMap or a Secret (InvalidCACertificateKind)",
        ),
        (
            ROOTS.replace("name: roots", "name: roots, namespace: certs"),
            False,
            (
                "ConfigMap certs/roots is in another namespace, and no ReferenceGrant there "
                "allows it (RefNotPermitted)"
            ),
        ),
        (
            "caCertificateRefs: [{group: '', kind: ConfigMap, name: roots}, {name: shop}]",
            False,
            (
                "several caCertificateRefs are not supported: put all roots into one ConfigMap "
                "(InvalidCACertificateRef)"
            ),
        ),
    ],
)
def test_roots_that_can_not_be_used_let_no_client_in(
    roots: str, wanted: str, *, served: bool
) -> None:
    found = translated(gateway(frontend(roots)), facts())
    assert ("a" in found.servers()) is served
    assert any(wanted in each for each in found.warnings), found.warnings
    if served:
        (server,) = found.servers()["a"].servers
        assert server.tls is not None
        assert server.tls.mode is TlsMode.MUTUAL


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        ("OPTIONAL_MUTUAL", (TlsMode.OPTIONAL_MUTUAL, "kubernetes-gateway://shop/shop")),
        ("MUTUAL", (TlsMode.MUTUAL, "kubernetes-gateway://shop/shop")),
        ("ISTIO_SIMPLE", (TlsMode.SIMPLE, "builtin://")),
        ("ISTIO_MUTUAL", (TlsMode.ISTIO_MUTUAL, "")),
    ],
)
def test_an_option_of_istios_says_how_tls_ends(mode: str, wanted: tuple[TlsMode, str]) -> None:
    found = tls_of(gateway(options=f"gateway.istio.io/tls-terminate-mode: {mode}"))
    assert (found.mode, found.credential_name) == wanted


def test_ciphers_that_envoy_knows_are_those_of_the_option() -> None:
    options = "gateway.istio.io/tls-cipher-suites: 'AES128-SHA, NONE, AES256-SHA'"
    assert tls_of(gateway(options=options)).cipher_suites == ("AES128-SHA", "AES256-SHA")
