"""Gateways with servers of every protocol and TLS mode."""

from hypothesis import strategies as st

from drawn_meshes._draws import Json, document, fields

_hosts = st.lists(
    st.sampled_from(
        ("*", "x.example.com", "*.example.com", "b/s.b.svc.cluster.local", "./y.example.com")
    ),
    min_size=1,
    max_size=2,
    unique=True,
)
_certificate = st.sampled_from(
    (
        {"credentialName": "shop"},
        {"serverCertificate": "/etc/cert.pem", "privateKey": "/etc/key.pem"},
    )
)
_versions = fields(
    minProtocolVersion=st.sampled_from(("TLSV1_2", "TLSV1_3")),
    cipherSuites=st.just(["ECDHE-RSA-AES128-GCM-SHA256"]),
    subjectAltNames=st.just(["spiffe://cluster.local/ns/a/sa/c"]),
)
_ending = st.one_of(
    st.builds(lambda key, more: {"mode": "SIMPLE", **key, **more}, _certificate, _versions),
    st.builds(
        lambda mode, more: {"mode": mode, "credentialName": "mutual", **more},
        st.sampled_from(("MUTUAL", "OPTIONAL_MUTUAL")),
        _versions,
    ),
    st.just(
        {
            "mode": "MUTUAL",
            "serverCertificate": "/etc/cert.pem",
            "privateKey": "/etc/key.pem",
            "caCertificates": "/etc/ca.pem",
        }
    ),
    st.just({"mode": "ISTIO_MUTUAL"}),
)


@st.composite
def gateways(draw: st.DrawFn, *, most: int = 3) -> list[Json]:
    """Draw Gateways of the router of namespace b."""
    documents = []
    for index in range(draw(st.integers(0, most))):
        count = draw(st.integers(1, 3))
        spec = {
            "selector": {"istio": "ingressgateway"},
            "servers": [draw(_server(number)) for number in range(count)],
        }
        documents.append(document("Gateway", f"gw-{index}", draw(st.sampled_from("bba")), spec))
    return documents


@st.composite
def _server(draw: st.DrawFn, index: int) -> Json:
    protocol = draw(
        st.sampled_from(("HTTP", "HTTP", "HTTP2", "GRPC", "HTTPS", "HTTPS", "TLS", "TCP"))
    )
    number = draw(st.sampled_from((80, 443, 8080, 15443, 31400)))
    server: Json = {
        "port": {"number": number, "name": f"{protocol.lower()}-{index}", "protocol": protocol},
        "hosts": draw(_hosts),
    }
    if protocol == "HTTPS":
        server["tls"] = draw(_ending)
    elif protocol == "TLS":
        server["tls"] = draw(
            st.one_of(
                _ending, st.just({"mode": "PASSTHROUGH"}), st.just({"mode": "AUTO_PASSTHROUGH"})
            )
        )
    elif protocol == "HTTP" and draw(st.booleans()):
        server["tls"] = {"httpsRedirect": True}
    if draw(st.integers(0, 5)) == 0:
        server["bind"] = "127.0.0.9"
    return server
