"""Chains of every kind, each as an authority's answer and as what its server presents.

The first goes through our own check. The second is TLS of grpcio's own, with a real connection;
what it lets pass is listed here, with the reason why it is left to it.
"""

import asyncio
import ssl
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID as Use

from certclient import (
    AuthorityUnavailable,
    CertificateRejected,
    IstioCaConfig,
    KeyType,
)
from certclient.authorities._istio_ca import _IstioCa
from certclient.x509._acceptance import accept
from certclient.x509._keys import PrivateKey, new_private_key, signing_request
from mesh_lifecycle import SystemClock
from x509_chains import (
    SERVER_NAME,
    SPIFFE_ID,
    Arrange,
    Chain,
    Edit,
    Parts,
    alternative_names,
    authority,
    chain_with,
    excluded,
    extension,
    fields,
    further_name,
    garbled,
    permitted,
    purposes,
    repeated,
    revocation_list,
    signed,
    unknown,
    usage,
    without,
)

URI = x509.UniformResourceIdentifier
DNS = x509.DNSName
BASIC, USAGE, NAMES = x509.BasicConstraints, x509.KeyUsage, x509.SubjectAlternativeName
SKI = x509.SubjectKeyIdentifier
CA = extension(BASIC(ca=True, path_length=None), critical=True)
LEAF_USAGE, CA_USAGE = usage("digital_signature"), usage("key_cert_sign", "crl_sign")
MUST_STAPLE = x509.TLSFeature([x509.TLSFeatureType.status_request])
OTHER_KEY = x509.AuthorityKeyIdentifier(b"of another key......", None, None)

TAKEN = None
"""The gate takes it."""
REFUSED = None
"""grpcio's TLS refuses it."""
NOT_PRESENTED = "not even OpenSSL would present it"
GOOD = "it is in order"
SERVER_ONLY = "a server needs no use as a client"
SVID_ONLY = "a rule for SPIFFE certificates, which a CA's server need not have"
BORINGSSL = "BoringSSL does not look at it, and the CA's own operator chose it"
NO_STAPLING = "must-staple is a browser's rule; gRPC has no OCSP"
SEARCHED = "BoringSSL searches for a path, in any order"
COMMON_NAME = "grpcio falls back to the common name; the root that is trusted vouches for it"
ANCHOR = "BoringSSL does not look at what a root says of itself: naming it as the root is enough"


@dataclass(frozen=True, kw_only=True)
class Row:
    """gate: what the refusal says; TAKEN for none. server: REFUSED, or why it is taken."""

    leaf: tuple[Edit, ...] = ()
    intermediate: tuple[Edit, ...] = ()
    root: tuple[Edit, ...] = ()
    arranged: Arrange | None = None
    gate: str | None
    server: str | None

    def chain(self, *names: x509.GeneralName) -> Chain:
        return chain_with(
            names,
            leaf=self.leaf,
            intermediate=self.intermediate,
            root=self.root,
            arranged=self.arranged,
        )


def self_signed_leaf(parts: Parts) -> Chain:
    return parts.chain(signed(parts.leaf.cert))


def trusted_leaf(parts: Parts) -> Chain:
    leaf = signed(parts.leaf.cert)
    return parts.chain(leaf, roots=[leaf])


def cross_signed(parts: Parts) -> Chain:
    """Our root's key and name, certified by a root that is trusted."""
    older = signed(authority("older root"))
    crossed = signed(parts.root.cert, by=older)
    return parts.chain(parts.leaf, parts.intermediate, crossed, roots=[older])


def cross_signed_for_others(parts: Parts) -> Chain:
    """The same, for peers that know the older root only; we know the newer."""
    older = signed(authority("older root"))
    crossed = signed(parts.root.cert, by=older)
    return parts.chain(parts.leaf, parts.intermediate, crossed, roots=[parts.root])


def same_name_other_key(parts: Parts) -> Chain:
    other = signed(replace(without(SKI)(parts.root.cert), key="p384"))
    return parts.chain(parts.leaf, parts.intermediate, roots=[other])


def loop(parts: Parts) -> Chain:
    one = signed(authority("one"))
    two = signed(authority("two"), by=one)
    back = signed(one.cert, by=two)
    return parts.chain(signed(parts.leaf.cert, by=two), two, back, two)


def long_path(parts: Parts) -> Chain:
    path = [parts.root]
    for number in range(12):
        path.append(signed(authority(f"authority {number}"), by=path[-1]))
    return parts.chain(signed(parts.leaf.cert, by=path[-1]), *reversed(path[1:]))


def leaf_as_issuer(parts: Parts) -> Chain:
    false_leaf = signed(replace(parts.leaf.cert, subject="x"), by=parts.intermediate)
    return parts.chain(signed(parts.leaf.cert, by=false_leaf), false_leaf, parts.intermediate)


def one_below(parts: Parts) -> Chain:
    lower = signed(authority("lower intermediate"), by=parts.intermediate)
    return parts.chain(signed(parts.leaf.cert, by=lower), lower, parts.intermediate)


def self_issued_intermediate(parts: Parts) -> Chain:
    """A key roll-over of an intermediate, which path lengths do not count."""
    older = parts.intermediate
    identified = x509.AuthorityKeyIdentifier.from_issuer_public_key(older.key.public_key())
    newer = signed(
        extension(identified)(
            extension(SKI(b"the newer key"))(replace(authority("intermediate"), key="p384"))
        ),
        by=older,
    )
    return parts.chain(signed(parts.leaf.cert, by=newer), newer, older)


ROWS = {
    # In order.
    "a good chain": Row(gate=TAKEN, server=GOOD),
    "no intermediate": Row(
        arranged=lambda p: p.chain(signed(p.leaf.cert, by=p.root)), gate=TAKEN, server=GOOD
    ),
    "the root in the chain": Row(
        arranged=lambda p: p.chain(p.leaf, p.intermediate, p.root), gate=TAKEN, server=GOOD
    ),
    "the intermediate as the root": Row(
        arranged=lambda p: p.chain(p.leaf, roots=[p.intermediate]), gate=TAKEN, server=GOOD
    ),
    "cross-signed": Row(arranged=cross_signed, gate=TAKEN, server=GOOD),
    "cross-signed for others": Row(arranged=cross_signed_for_others, gate=TAKEN, server=GOOD),
    "RSA 2048": Row(leaf=(fields(key="rsa2048"),), gate=TAKEN, server=GOOD),
    "P-384": Row(leaf=(fields(key="p384"),), gate=TAKEN, server=GOOD),
    "an Ed25519 root": Row(root=(fields(key="ed25519"),), gate=TAKEN, server=GOOD),
    "no extended key usage": Row(leaf=(without(x509.ExtendedKeyUsage),), gate=TAKEN, server=GOOD),
    "no basic constraints in the leaf": Row(leaf=(without(BASIC),), gate=TAKEN, server=GOOD),
    "a non-critical unknown extension": Row(
        leaf=(unknown(critical=False),), gate=TAKEN, server=GOOD
    ),
    "path length enough": Row(
        root=(extension(BASIC(ca=True, path_length=1), critical=True),), gate=TAKEN, server=GOOD
    ),
    "a self-issued intermediate is not counted": Row(
        root=(extension(BASIC(ca=True, path_length=1), critical=True),),
        arranged=self_issued_intermediate,
        gate=TAKEN,
        server=GOOD,
    ),
    "name constraints that permit us": Row(
        intermediate=(permitted(URI("cluster.local"), DNS("test")),), gate=TAKEN, server=GOOD
    ),
    "name constraints that exclude others": Row(
        intermediate=(excluded(URI("other.local"), DNS("other")),), gate=TAKEN, server=GOOD
    ),
    "non-critical name constraints that permit us": Row(
        root=(permitted(URI("cluster.local"), DNS("test"), critical=False),),
        gate=TAKEN,
        server=GOOD,
    ),
    # Who it is for.
    "no alternative name": Row(
        leaf=(without(NAMES),), gate="no readable alternative name", server=REFUSED
    ),
    "another name": Row(
        leaf=(alternative_names(URI("spiffe://cluster.local/ns/a/sa/b"), DNS("other.test")),),
        gate="is for spiffe://cluster.local/ns/a/sa/b, not for",
        server=REFUSED,
    ),
    "only a common name": Row(
        leaf=(without(NAMES), fields(subject=SERVER_NAME)),
        gate="no readable alternative name",
        server=COMMON_NAME,
    ),
    "two URIs": Row(
        leaf=(further_name(URI("spiffe://cluster.local/ns/a/sa/b")),),
        gate="is for .*, spiffe://cluster.local/ns/a/sa/b, not for",
        server=SVID_ONLY,
    ),
    "a further DNS name": Row(
        leaf=(further_name(DNS("payments.shop.svc")),),
        gate="is also for payments.shop.svc, which was not requested",
        server=SVID_ONLY,
    ),
    "a further e-mail address": Row(
        leaf=(further_name(x509.RFC822Name("root@example.com")),),
        gate="is also for root@example.com",
        server=SVID_ONLY,
    ),
    "alternative names that cannot be read": Row(
        leaf=(garbled(NAMES),), gate="cannot be read", server=NOT_PRESENTED
    ),
    # What it may do.
    "a CA certificate as the leaf": Row(leaf=(CA,), gate="is a CA certificate", server=BORINGSSL),
    "a CA certificate as the leaf, with its usage": Row(
        leaf=(CA, extension(CA_USAGE, critical=True)),
        gate="is a CA certificate",
        server=REFUSED,
    ),
    "no key usage": Row(leaf=(without(USAGE),), gate="has no key usage", server=SVID_ONLY),
    "no digitalSignature": Row(
        leaf=(extension(usage("key_encipherment"), critical=True),),
        gate="no digitalSignature",
        server=REFUSED,
    ),
    "keyCertSign in the leaf": Row(
        leaf=(extension(usage("digital_signature", "key_cert_sign"), critical=True),),
        gate="may sign certificates",
        server=SVID_ONLY,
    ),
    "codeSigning": Row(
        leaf=(purposes(Use.CODE_SIGNING),), gate="no clientAuth and no serverAuth", server=REFUSED
    ),
    "clientAuth only": Row(leaf=(purposes(Use.CLIENT_AUTH),), gate="no serverAuth", server=REFUSED),
    "serverAuth only": Row(
        leaf=(purposes(Use.SERVER_AUTH),), gate="no clientAuth", server=SERVER_ONLY
    ),
    "any purpose": Row(
        leaf=(purposes(Use.ANY_EXTENDED_KEY_USAGE),), gate="no clientAuth", server=REFUSED
    ),
    "an intermediate for code only": Row(
        intermediate=(purposes(Use.CODE_SIGNING),),
        gate="refuse it as a server: unsuitable certificate purpose",
        server=REFUSED,
    ),
    "an intermediate for servers only": Row(
        intermediate=(purposes(Use.SERVER_AUTH),),
        gate="refuse it as a client: unsuitable certificate purpose",
        server=SERVER_ONLY,
    ),
    "must-staple": Row(leaf=(extension(MUST_STAPLE),), gate="must-staple", server=NO_STAPLING),
    "name constraints in the leaf": Row(
        leaf=(permitted(URI("cluster.local"), DNS("test")),),
        gate="name constraints, which only CAs may have",
        server=BORINGSSL,
    ),
    # Until when.
    "expired": Row(
        leaf=(fields(begins=-2, ends=-1),), gate="returned certificate expired at", server=REFUSED
    ),
    "not yet valid by an hour": Row(
        leaf=(fields(begins=1 / 24, ends=2),), gate="is valid from .* only", server=REFUSED
    ),
    "not yet valid by half a minute": Row(
        leaf=(fields(begins=30 / 86400, ends=2),), gate=TAKEN, server=REFUSED
    ),
    "an expired intermediate": Row(
        intermediate=(fields(begins=-2, ends=-1),),
        gate="the intermediate certificate 1 expired at",
        server=REFUSED,
    ),
    "an intermediate that is not yet valid": Row(
        intermediate=(fields(begins=1, ends=2),),
        gate="the intermediate certificate 1 is valid from",
        server=REFUSED,
    ),
    "an expired root": Row(
        root=(fields(begins=-2, ends=-1),), gate="the root certificate 1 expired", server=REFUSED
    ),
    "a root that is yet to begin": Row(
        root=(fields(begins=0.5, ends=2),), gate="does not lead to a valid root", server=REFUSED
    ),
    "ends before it begins": Row(
        leaf=(fields(begins=1, ends=-1),), gate="ends before it begins", server=REFUSED
    ),
    # What it says of itself.
    "version 1": Row(
        leaf=(fields(version=None, extensions=()),),
        gate="no readable alternative name",
        server=REFUSED,
    ),
    "version 1 with extensions": Row(
        leaf=(fields(version=None),), gate="is of version 1 and has extensions", server=REFUSED
    ),
    "version 5": Row(leaf=(fields(version=5),), gate="no PEM certificate", server=REFUSED),
    "a version 1 intermediate": Row(
        intermediate=(fields(version=None, extensions=()),),
        gate="the intermediate certificate 1 is no CA certificate",
        server=REFUSED,
    ),
    "a version 1 root": Row(
        root=(fields(version=None, extensions=()),),
        gate="the root certificate 1 is no CA certificate",
        server="an operator's own root of old, that Envoy and OpenSSL take too",
    ),
    "a negative serial": Row(
        leaf=(fields(serial=-5),), gate="negative serial|no PEM|cannot be read", server=BORINGSSL
    ),
    "an unknown critical extension": Row(
        leaf=(unknown(critical=True),),
        gate="critical extension 1.3.6.1.4.1.55555.1",
        server=REFUSED,
    ),
    "an unknown critical extension in the intermediate": Row(
        intermediate=(unknown(critical=True),),
        gate="the intermediate certificate 1 has the critical extension",
        server=REFUSED,
    ),
    "an unknown critical extension in the root": Row(
        root=(unknown(critical=True),),
        gate="the root certificate 1 has the critical extension",
        server=ANCHOR,
    ),
    "duplicate extensions": Row(
        leaf=(repeated(NAMES),), gate="cannot be read: Duplicate", server=NOT_PRESENTED
    ),
    "duplicate extensions in the intermediate": Row(
        intermediate=(repeated(BASIC),),
        gate="the intermediate certificate 1 cannot be read",
        server=REFUSED,
    ),
    "two algorithms": Row(
        leaf=(fields(algorithm_inside="sha384"),),
        gate="signature on the returned certificate",
        server=REFUSED,
    ),
    # Keys and signatures.
    "RSA 1024": Row(
        leaf=(fields(key="rsa1024"),), gate="an RSA key of 1024 bits", server=BORINGSSL
    ),
    "an RSA 1024 intermediate": Row(
        intermediate=(fields(key="rsa1024"), without(SKI)),
        gate="the intermediate certificate 1 has an RSA key of 1024 bits",
        server=BORINGSSL,
    ),
    "an RSA 1024 root": Row(
        root=(fields(key="rsa1024"), without(SKI)),
        gate="the root certificate 1 has an RSA key of 1024 bits",
        server=BORINGSSL,
    ),
    "a curve that TLS does not have": Row(
        leaf=(fields(key="secp256k1"),), gate="a key on the curve secp256k1", server=REFUSED
    ),
    "signed with SHA-1": Row(
        leaf=(fields(hashed_with="sha1"),), gate="signed with sha1", server=BORINGSSL
    ),
    "signed with MD5": Row(
        intermediate=(fields(key="rsa2048"), without(SKI)),
        leaf=(fields(hashed_with="md5"),),
        gate="signed with md5",
        server=REFUSED,
    ),
    "an intermediate signed with SHA-1": Row(
        intermediate=(fields(hashed_with="sha1"),),
        gate="the intermediate certificate 1 is signed with sha1",
        server=BORINGSSL,
    ),
    "a root that signed itself with SHA-1": Row(
        root=(fields(hashed_with="sha1"),), gate=TAKEN, server=GOOD
    ),
    "a wrong signature": Row(
        leaf=(fields(damaged=True),), gate="signature on the returned", server=REFUSED
    ),
    "a wrong signature on the intermediate": Row(
        intermediate=(fields(damaged=True),),
        gate="signature on the intermediate certificate 1 is not by the key of the root",
        server=REFUSED,
    ),
    # Who issued it.
    "another issuer's name": Row(
        leaf=(fields(issuer="somebody else"),), gate="not issued by the next", server=REFUSED
    ),
    "another issuer's key identifier": Row(
        leaf=(extension(OTHER_KEY),), gate="names another key as its issuer's", server=REFUSED
    ),
    "no intermediate, where one is needed": Row(
        arranged=lambda p: p.chain(p.leaf), gate="does not lead to a valid root", server=REFUSED
    ),
    "in the wrong order": Row(
        arranged=lambda p: p.chain(
            p.leaf, p.intermediate, signed(authority("stray")), roots=[p.root]
        ),
        gate="is not issued by the next",
        server=SEARCHED,
    ),
    "a foreign root": Row(
        arranged=lambda p: p.chain(p.leaf, p.intermediate, roots=[signed(authority("foreign"))]),
        gate="does not lead to a valid root",
        server=REFUSED,
    ),
    "a root of the same name and another key": Row(
        arranged=same_name_other_key, gate="does not lead to a valid root", server=REFUSED
    ),
    "a self-signed leaf": Row(
        arranged=self_signed_leaf, gate="does not lead to a valid root", server=REFUSED
    ),
    "a self-signed leaf that is trusted": Row(
        arranged=trusted_leaf,
        gate="the root certificate 1 is no CA certificate",
        server="naming it as the root pins it",
    ),
    "issued by a leaf": Row(
        arranged=leaf_as_issuer, gate="the intermediate certificate 1 is no CA", server=REFUSED
    ),
    "an intermediate without basic constraints": Row(
        intermediate=(without(BASIC),),
        gate="the intermediate certificate 1 is no CA certificate",
        server=REFUSED,
    ),
    "an intermediate that is no CA": Row(
        intermediate=(extension(BASIC(ca=False, path_length=None), critical=True),),
        gate="the intermediate certificate 1 is no CA certificate",
        server=REFUSED,
    ),
    "an intermediate without keyCertSign": Row(
        intermediate=(extension(LEAF_USAGE, critical=True),),
        gate="the intermediate certificate 1 may not sign certificates",
        server=REFUSED,
    ),
    "a root without keyCertSign": Row(
        root=(extension(LEAF_USAGE, critical=True),),
        gate="the root certificate 1 may not sign certificates",
        server=REFUSED,
    ),
    "path length exceeded": Row(
        root=(extension(BASIC(ca=True, path_length=0), critical=True),),
        gate="path length constraint exceeded",
        server=ANCHOR,
    ),
    "a path that is too long": Row(
        arranged=long_path,
        gate="13 certificates before the roots",
        server="BoringSSL allows a hundred, and the server pays for it",
    ),
    "a loop": Row(arranged=loop, gate="does not lead to a valid root", server=REFUSED),
    "path length exceeded below the root": Row(
        intermediate=(extension(BASIC(ca=True, path_length=0), critical=True),),
        arranged=one_below,
        gate="path length constraint exceeded",
        server=REFUSED,
    ),
    # What issuers may issue.
    "name constraints that do not permit us": Row(
        intermediate=(permitted(URI("other.local"), DNS("other")),),
        gate="permitted subtree violation",
        server=REFUSED,
    ),
    "name constraints that exclude us": Row(
        root=(excluded(URI("cluster.local"), DNS("test")),),
        gate="excluded subtree violation",
        server=REFUSED,
    ),
    "non-critical name constraints that exclude us": Row(
        intermediate=(excluded(URI("cluster.local"), DNS("test"), critical=False),),
        gate="excluded subtree violation",
        server=REFUSED,
    ),
    "a policy that is required and missing": Row(
        intermediate=(
            extension(
                x509.PolicyConstraints(require_explicit_policy=0, inhibit_policy_mapping=None),
                critical=True,
            ),
        ),
        gate="no explicit policy",
        server=REFUSED,
    ),
}


def key_of(chain: Chain) -> PrivateKey:
    assert isinstance(chain.key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey)
    return chain.key


@pytest.mark.parametrize("name", ROWS)
def test_as_an_answer_of_the_authority(name: str) -> None:
    row = ROWS[name]
    chain = row.chain(URI(str(SPIFFE_ID)))
    answer = (chain.issued_pem, chain.roots_pem)
    if row.gate is TAKEN:
        certificate = accept(answer, key=key_of(chain), spiffe_id=SPIFFE_ID, now=datetime.now(UTC))
        assert certificate.serial == chain.issued[0].cert.serial
        return
    with pytest.raises(CertificateRejected, match=row.gate) as refusal:
        accept(answer, key=key_of(chain), spiffe_id=SPIFFE_ID, now=datetime.now(UTC))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ROWS)
async def test_as_the_certificate_of_the_authority_s_server(name: str, tmp_path: Path) -> None:
    row = ROWS[name]
    chain = row.chain(DNS(SERVER_NAME))
    if row.server is NOT_PRESENTED:
        with pytest.raises(ssl.SSLError):
            server_context(chain, tmp_path / "server.pem")
        return
    context = server_context(chain, tmp_path / "server.pem")
    assert await is_taken(context, chain, tmp_path / "roots.pem") is (row.server is not REFUSED)


def test_a_chain_that_is_revoked_by_a_list_that_came_with_it() -> None:
    chain = ROWS["a good chain"].chain(URI(str(SPIFFE_ID)))
    leaf, intermediate = chain.issued
    for issuer, number, revoked in (
        (intermediate, leaf.cert.serial, "the returned certificate is revoked"),
        (chain.roots[0], intermediate.cert.serial, "the intermediate certificate 1 is revoked"),
    ):
        with pytest.raises(CertificateRejected, match=revoked):
            accept(
                (chain.issued_pem, chain.roots_pem),
                key=key_of(chain),
                spiffe_id=SPIFFE_ID,
                now=datetime.now(UTC),
                revocation_lists=[revocation_list(issuer, number)],
            )


async def test_a_revoked_server_is_left_to_its_operator(tmp_path: Path) -> None:
    """Grpcio takes no revocation lists from Python: a list among the roots is passed over."""
    chain = ROWS["a good chain"].chain(DNS(SERVER_NAME))
    listed = revocation_list(chain.issued[1], chain.issued[0].cert.serial)
    roots = tmp_path / "roots.pem"
    context = server_context(chain, tmp_path / "server.pem")
    assert await is_taken(context, chain, roots, more_roots=listed.public_bytes(Encoding.PEM))


def server_context(chain: Chain, path: Path) -> ssl.SSLContext:
    """Make a context that presents whatever it is given."""
    path.write_bytes(chain.key_pem + chain.issued_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(path)
    return context


async def is_taken(
    context: ssl.SSLContext, chain: Chain, roots: Path, *, more_roots: bytes = b""
) -> bool:
    """Say whether the agent's client goes on after the handshake with such a server.

    The server is no CA and hangs up then, so the call fails in any case.
    """
    roots.write_bytes(chain.roots_pem + more_roots)
    taken = False

    async def disconnect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal taken
        # grpcio looks at the names after the handshake, and says nothing to whom it does not like.
        with suppress(OSError):
            taken = bool(await reader.read(1))
        writer.transport.abort()

    server = await asyncio.start_server(disconnect, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        config = IstioCaConfig(
            address=f"127.0.0.1:{port}", root_certificate=roots, server_name=SERVER_NAME
        )
        request = signing_request(await new_private_key(KeyType.P256), SPIFFE_ID)
        with pytest.raises(AuthorityUnavailable):
            one_try = _IstioCa(config, clock=SystemClock(), further_roots=None)
            await one_try.sign(request, lifetime=timedelta(hours=1))
    return taken
