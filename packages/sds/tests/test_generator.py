import asyncio

from envoy.extensions.transport_sockets.tls.v3 import secret_pb2
from hypothesis import given
from hypothesis import strategies as st

from mesh_sds import TlsCertificate, TrustBundle
from mesh_sds.delivery._generator import SecretGenerator
from mesh_sds.testing import FakeSecrets
from xds_server import Client, ConfigKey, Generated, Node, PushRequest, Watch, type_urls

CERTIFICATE = TlsCertificate(chain_pem=b"chain", private_key_pem=b"key")
BUNDLE = TrustBundle(roots_pem=b"roots")
CLIENT = Client(
    id="1",
    node=Node(id="sidecar~1~a.b~c", cluster="c"),
    identities=(),
    context=None,
)


def watch(*names: str) -> Watch:
    return Watch(type_url=type_urls.SECRET, names=frozenset(names))


def generator_of(secrets: FakeSecrets) -> SecretGenerator:
    return SecretGenerator(secrets, failures=asyncio.Event())


def names_of(generated: Generated | None) -> list[str]:
    assert generated is not None
    return [resource.name for resource in generated.resources]


def pushed(*names: str) -> PushRequest:
    keys = frozenset(ConfigKey(kind="Secret", name=name, namespace="") for name in names)
    return PushRequest(incremental=True, configs_updated=keys)


def test_a_certificate_and_a_bundle_are_what_envoy_reads(secrets: FakeSecrets) -> None:
    secrets.set(default=CERTIFICATE, ROOTCA=BUNDLE)
    generated = generator_of(secrets).generate(CLIENT, watch("default", "ROOTCA"), None)
    assert generated is not None
    bundle, certificate = (secret_pb2.Secret.FromString(r.body) for r in generated.resources)
    assert bundle.name == "ROOTCA"
    assert bundle.validation_context.trusted_ca.inline_bytes == b"roots"
    assert certificate.name == "default"
    assert certificate.tls_certificate.certificate_chain.inline_bytes == b"chain"
    assert certificate.tls_certificate.private_key.inline_bytes == b"key"
    assert {r.type_url for r in generated.resources} == {type_urls.SECRET}


def test_an_unknown_name_never_stops_the_others(secrets: FakeSecrets) -> None:
    secrets.set(default=CERTIFICATE)
    generator = generator_of(secrets)
    generated = generator.generate(CLIENT, watch("default", "kubernetes://absent"), None)
    assert names_of(generated) == ["default"]
    assert generated is not None
    assert generated.removed == frozenset()


def test_a_push_reaches_only_those_who_watch_what_changed(secrets: FakeSecrets) -> None:
    secrets.set(default=CERTIFICATE, ROOTCA=BUNDLE)
    generator = generator_of(secrets)
    assert names_of(generator.generate(CLIENT, watch("default"), pushed("default"))) == ["default"]
    assert generator.generate(CLIENT, watch("ROOTCA"), pushed("default")) is None
    assert generator.generate(CLIENT, watch(), pushed("default")) is None


def test_a_removed_secret_is_in_the_removals(secrets: FakeSecrets) -> None:
    secrets.set(default=CERTIFICATE, ROOTCA=BUNDLE)
    generator = generator_of(secrets)
    secrets.remove("default")
    generated = generator.generate(CLIENT, watch("default", "ROOTCA"), pushed("default"))
    assert generated == Generated(resources=(), removed=frozenset({"default"}))


def test_a_secret_is_packed_once_for_all_streams_and_anew_when_it_changes(
    secrets: FakeSecrets,
) -> None:
    secrets.set(default=CERTIFICATE)
    generator = generator_of(secrets)
    first, second = (generator.generate(CLIENT, watch("default"), None) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.resources[0] is second.resources[0]
    secrets.set(default=TlsCertificate(chain_pem=b"new", private_key_pem=b"key"))
    third = generator.generate(CLIENT, watch("default"), pushed("default"))
    assert third is not None
    assert third.resources[0].version != first.resources[0].version


NAMES = st.sampled_from(["default", "ROOTCA", "a", "b", "c"])


@given(exist=st.frozensets(NAMES), watched=st.frozensets(NAMES), changed=st.frozensets(NAMES))
def test_a_push_gives_exactly_what_is_watched_and_changed(
    exist: frozenset[str], watched: frozenset[str], changed: frozenset[str]
) -> None:
    secrets = FakeSecrets()
    secrets.set(**dict.fromkeys(exist, CERTIFICATE))
    if not changed:
        return
    generated = generator_of(secrets).generate(CLIENT, watch(*watched), pushed(*changed))
    concerned = watched & changed
    if not concerned:
        assert generated is None
        return
    assert set(names_of(generated)) == concerned & exist
    assert generated is not None
    assert generated.removed == concerned - exist


def test_no_key_shows_in_a_repr(secrets: FakeSecrets) -> None:
    canary = b"c4n4ry"
    secrets.set(default=TlsCertificate(chain_pem=b"chain", private_key_pem=canary))
    generated = generator_of(secrets).generate(CLIENT, watch("default"), None)
    assert "c4n4ry" not in repr((secrets.get("default"), generated))
