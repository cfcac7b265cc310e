"""What a program sets on a context that follows holds on each connection, or is refused."""

import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest

from certclient import (
    Certificates,
    InvalidConfig,
    RotationConfig,
    client_context,
    keep_fresh,
    server_context,
)
from certclient.testing import FakeAuthority

Contexts = tuple[ssl.SSLContext, ssl.SSLContext]
Connected = tuple[ssl.SSLObject, ssl.SSLObject]

HELD = {
    "check_hostname",
    "hostname_checks_common_name",
    "keylog_filename",
    "maximum_version",
    "minimum_version",
    "num_tickets",
    "options",
    "post_handshake_auth",
    "set_alpn_protocols",
    "set_ciphers",
    "set_ecdh_curve",
    "verify_flags",
    "verify_mode",
}
REFUSED_CALLS = {
    "load_cert_chain": ("cert.pem",),
    "load_default_certs": (),
    "load_dh_params": ("dh.pem",),
    "load_verify_locations": ("roots.pem",),
    "set_default_verify_paths": (),
    "set_npn_protocols": (["h2"],),
    "set_psk_client_callback": (lambda _: (None, b""),),
    "set_psk_server_callback": (lambda _: b"",),
    "set_servername_callback": (lambda *_: None,),
}
REFUSED_VALUES = {
    "sni_callback": lambda *_: None,
    "sslobject_class": ssl.SSLObject,
    "sslsocket_class": ssl.SSLSocket,
}
READ = {
    "cert_store_stats",
    "get_ca_certs",
    "get_ciphers",
    "protocol",
    "security_level",
    "session_stats",
}
MAKE_CONNECTIONS = {"wrap_bio", "wrap_socket"}


@pytest.fixture
async def certificates(
    config: RotationConfig, real_authority: FakeAuthority
) -> AsyncIterator[Certificates]:
    async with keep_fresh(config, real_authority) as certificates:
        await certificates.wait_for_first()
        yield certificates


@pytest.fixture
def contexts(certificates: Certificates) -> Contexts:
    """A server's and a client's."""
    return server_context(certificates), client_context(certificates)


def shake(contexts: Contexts, *, server_hostname: str = "anything") -> Connected:
    """Do a real handshake in memory; return both ends. Raises what either end raises."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = contexts[1].wrap_bio(to_client, to_server, server_hostname=server_hostname)
    server = contexts[0].wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server]
    while waiting:
        for side in tuple(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
    return server, client


def test_each_attribute_and_method_of_a_context_is_accounted_for() -> None:
    there_are = {name for name in dir(ssl.SSLContext) if not name.startswith("_")}
    accounted_for = HELD | set(REFUSED_CALLS) | set(REFUSED_VALUES) | READ | MAKE_CONNECTIONS
    assert there_are <= accounted_for


@pytest.mark.parametrize("side", [0, 1], ids=["server", "client"])
@pytest.mark.parametrize("name", sorted(REFUSED_CALLS))
def test_what_would_bring_in_another_certificate_or_root_is_refused(
    contexts: Contexts, name: str, side: int
) -> None:
    if not hasattr(ssl.SSLContext, name):
        pytest.skip(f"this Python has no {name}")
    with pytest.raises(InvalidConfig, match=r" can't be .* context that follows.*: "):
        getattr(contexts[side], name)(*REFUSED_CALLS[name])
    shake(contexts)


@pytest.mark.parametrize("side", [0, 1], ids=["server", "client"])
@pytest.mark.parametrize("name", sorted(REFUSED_VALUES))
def test_what_would_take_the_check_of_the_peer_away_is_refused(
    contexts: Contexts, name: str, side: int
) -> None:
    with pytest.raises(InvalidConfig, match=f"{name} can't be .*: "):
        setattr(contexts[side], name, REFUSED_VALUES[name])


@pytest.mark.parametrize("side", [0, 1], ids=["server", "client"])
def test_each_settable_attribute_that_is_not_held_is_refused(contexts: Contexts, side: int) -> None:
    refused = set()
    for name in dir(ssl.SSLContext):
        descriptor = getattr(ssl.SSLContext, name)
        if name.startswith("_") or callable(descriptor) or name in HELD:
            continue
        try:
            setattr(contexts[side], name, object())
        except InvalidConfig:
            refused.add(name)
    assert refused == {"protocol", "security_level", "sni_callback"}


def test_an_unknown_attribute_is_refused(contexts: Contexts) -> None:
    for context in contexts:
        with pytest.raises(InvalidConfig, match="not known here"):
            context.minimum_verison = ssl.TLSVersion.TLSv1_3  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", [ssl.CERT_NONE, ssl.CERT_OPTIONAL])
def test_a_peer_without_a_certificate_can_not_be_allowed(
    contexts: Contexts, mode: ssl.VerifyMode
) -> None:
    for context in contexts:
        with pytest.raises(InvalidConfig, match="CERT_REQUIRED is the only choice"):
            context.verify_mode = mode
        assert context.verify_mode is ssl.CERT_REQUIRED
        context.verify_mode = ssl.CERT_REQUIRED


@pytest.mark.parametrize("side", [0, 1], ids=["server", "client"])
def test_the_oldest_version_that_is_set_is_the_oldest_that_is_spoken(
    contexts: Contexts, side: int
) -> None:
    contexts[1 - side].maximum_version = ssl.TLSVersion.TLSv1_2
    assert shake(contexts)[0].version() == "TLSv1.2"
    contexts[side].minimum_version = ssl.TLSVersion.TLSv1_3
    assert contexts[side].minimum_version is ssl.TLSVersion.TLSv1_3
    with pytest.raises(ssl.SSLError):
        shake(contexts)


@pytest.mark.parametrize("side", [0, 1], ids=["server", "client"])
async def test_what_is_set_holds_after_a_rotation_too(
    contexts: Contexts, certificates: Certificates, side: int
) -> None:
    contexts[side].maximum_version = ssl.TLSVersion.TLSv1_2
    contexts[side].set_alpn_protocols(each for each in ["h2"])
    contexts[1 - side].set_alpn_protocols(["h2"])
    for _ in range(2):
        for end in shake(contexts):
            assert end.version() == "TLSv1.2"
            assert end.selected_alpn_protocol() == "h2"
        await certificates.renew()


@pytest.mark.parametrize(
    "version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.MINIMUM_SUPPORTED]
)
def test_versions_before_tls_1_2_are_refused(contexts: Contexts, version: ssl.TLSVersion) -> None:
    for context in contexts:
        for name in ("minimum_version", "maximum_version"):
            with pytest.raises(InvalidConfig, match=r"TLS 1\.2 is the oldest"):
                setattr(context, name, version)


@pytest.mark.parametrize("side", [0, 1], ids=["server", "client"])
def test_ciphers_hold(contexts: Contexts, side: int) -> None:
    contexts[1].maximum_version = ssl.TLSVersion.TLSv1_2
    contexts[side].set_ciphers("ECDHE-ECDSA-CHACHA20-POLY1305")
    for end in shake(contexts):
        assert (end.cipher() or ("",))[0] == "ECDHE-ECDSA-CHACHA20-POLY1305"
    contexts[1 - side].set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    with pytest.raises(ssl.SSLError):
        shake(contexts)
    with pytest.raises(ssl.SSLError):
        contexts[side].set_ciphers("no such cipher")


def test_the_curve_holds(contexts: Contexts) -> None:
    contexts[0].set_ecdh_curve("secp384r1")
    contexts[1].set_ecdh_curve("prime256v1")
    with pytest.raises(ssl.SSLError):
        shake(contexts)
    contexts[1].set_ecdh_curve("secp384r1")
    shake(contexts)


@pytest.mark.parametrize("side", [0, 1], ids=["server", "client"])
@pytest.mark.filterwarnings("ignore:ssl.OP_NO_:DeprecationWarning")
def test_options_hold(contexts: Contexts, side: int) -> None:
    contexts[side].options |= ssl.OP_NO_TLSv1_3
    assert shake(contexts)[0].version() == "TLSv1.2"


@pytest.mark.parametrize("side", [0, 1], ids=["server", "client"])
def test_flags_of_verification_hold(contexts: Contexts, side: int) -> None:
    contexts[side].verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_CHAIN
    with pytest.raises(ssl.SSLCertVerificationError, match="CRL"):
        shake(contexts)


def test_a_host_name_is_checked_if_a_client_wants_it(contexts: Contexts) -> None:
    server, client = contexts
    assert client.check_hostname is False
    client.check_hostname = True
    # SPIFFE certificates have none, so nothing passes: but it is what was asked for.
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake(contexts)
    client.hostname_checks_common_name = False
    connection = client.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="x")
    assert connection.context.hostname_checks_common_name is False
    with pytest.raises(InvalidConfig, match="a client has no host name"):
        server.check_hostname = True


@pytest.mark.parametrize("side", [0, 1], ids=["server", "client"])
def test_keys_are_logged_where_it_is_asked_for(
    contexts: Contexts, side: int, tmp_path: Path
) -> None:
    contexts[side].keylog_filename = str(tmp_path / "keys")
    shake(contexts)
    assert "CLIENT_HANDSHAKE_TRAFFIC_SECRET" in (tmp_path / "keys").read_text()
    contexts[side].keylog_filename = None  # type: ignore[assignment]  # closes the file


def test_the_peer_is_checked_in_the_handshake_only(contexts: Contexts) -> None:
    server, client = contexts
    with pytest.raises(InvalidConfig, match="shows its certificate in the handshake"):
        server.post_handshake_auth = True
    client.post_handshake_auth = True
    assert shake(contexts)[1].context.post_handshake_auth is True


def test_sessions_are_not_resumed(contexts: Contexts) -> None:
    server, _ = contexts
    with pytest.raises(InvalidConfig, match="sessions are not resumed"):
        server.num_tickets = 2
    with pytest.raises(InvalidConfig, match="OP_NO_TICKET must stay"):
        server.options = ssl.OP_ALL
    server.num_tickets = 0
    end, client = shake(contexts)
    end.write(b"hello")
    assert client.read(5) == b"hello"
    assert client.session is None or not client.session.has_ticket


def test_what_is_read_is_of_the_context_that_serves(contexts: Contexts) -> None:
    for context in contexts:
        assert len(context.get_ca_certs(binary_form=True)) == 1
        assert context.cert_store_stats()["x509_ca"] == 1
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    shake(contexts)
    assert contexts[0].session_stats()["accept_good"] == 1
    contexts[0].set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    served = contexts[0].wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True).context
    assert names(served.get_ciphers()) == names(contexts[0].get_ciphers())


def names(ciphers: Sequence[Mapping[str, object]]) -> list[str]:
    return [str(cipher["name"]) for cipher in ciphers]
