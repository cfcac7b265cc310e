"""Modules in images and artifacts of a registry that speaks HTTP on this machine."""

import base64
import gzip
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasm_modules import (
    ChecksumMismatch,
    FetchError,
    FetchResult,
    ManifestError,
    ModuleRequest,
    PullPolicy,
    WasmConfig,
    getting_modules,
)
from wasm_modules.oci._challenge import challenges
from wasm_modules.oci._pull_secret import credentials_for
from wasm_modules.oci._reference import Reference
from wasm_modules.testing import (
    MODULE,
    FakeRegistry,
    HttpServer,
    Layer,
    ReceivedRequest,
    Response,
    docker_config,
    docker_layer,
    module_layer,
    oci_layer,
    tar_of,
)

OTHER = MODULE + b"\0\1\0"
FORMS: dict[str, tuple[Sequence[Layer], bool]] = {
    "docker": ([docker_layer(MODULE)], True),
    "oci": ([oci_layer(MODULE)], False),
    "artifact": (module_layer(MODULE), False),
    "docker with more layers": ([docker_layer(OTHER), docker_layer(MODULE)], True),
    "oci below another layer": ([oci_layer(MODULE), oci_layer(b"#!", name="run.sh")], False),
    "one layer": ([Layer("application/wasm", MODULE)], False),
}


def _request(registry: FakeRegistry, rest: str = "team/plugin:v1", **more: str) -> ModuleRequest:
    return ModuleRequest(
        url=f"oci://{registry.address}/{rest}",
        checksum=more.get("checksum", ""),
        pull_secret=more.get("pull_secret"),
        resource_version=more.get("resource_version", ""),
        policy=PullPolicy.parse(more.get("policy", "")),
    )


def _layers_fetched(registry: FakeRegistry) -> int:
    return sum("/blobs/" in each.target for each in registry.requests)


@pytest.mark.parametrize("form", sorted(FORMS))
async def test_the_module_of_an_image_is_found(config: WasmConfig, form: str) -> None:
    layers, docker = FORMS[form]
    async with FakeRegistry() as registry, getting_modules(config) as modules:
        digest = registry.add_image("team/plugin", "v1", layers, docker=docker)
        path = await modules.get(_request(registry))
        assert path.read_bytes() == MODULE
        fetched = len(registry.requests)
        # By each of its names it is the one that is here.
        assert await modules.get(_request(registry)) == path
        assert await modules.get(_request(registry, checksum=digest)) == path
        assert await modules.get(_request(registry, f"team/plugin@sha256:{digest}")) == path
        assert len(registry.requests) == fetched
    folder = hashlib.sha256(f"oci://{registry.address}/team/plugin".encode()).hexdigest()
    assert path.parent == config.cache_root / folder


async def test_an_index_of_images_leads_to_a_module(config: WasmConfig) -> None:
    async with FakeRegistry() as registry, getting_modules(config) as modules:
        image = registry.add_image("team/plugin", "inner", [oci_layer(MODULE)])
        index = registry.add_index("team/plugin", "v1", [image])
        for checksum in (index, image):
            path = await modules.get(_request(registry, checksum=checksum))
            assert path.read_bytes() == MODULE
        assert _layers_fetched(registry) == 1


async def test_with_a_pull_secret_a_token_is_had(
    config: WasmConfig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with (
        FakeRegistry(user="me", password="canary") as registry,
        getting_modules(config) as modules,
    ):
        registry.add_image("team/plugin", "v1", [docker_layer(MODULE)])
        secret = docker_config(registry.address, "me", "canary")
        path = await modules.get(_request(registry, pull_secret=secret))
    assert path.read_bytes() == MODULE
    (asked,) = [each for each in registry.requests if each.target.startswith("/token")]
    assert asked.target == "/token?service=registry&scope=repository%3Ateam%2Fplugin%3Apull"
    assert "canary" not in caplog.text + str([vars(each) for each in caplog.records])
    assert "canary" not in repr(_request(registry, pull_secret=secret))


@pytest.mark.parametrize(
    ("secret", "reason"),
    [
        (None, "gives no token without credentials"),
        (docker_config("elsewhere.example", "me", "secret"), "gives no token without credentials"),
        ("HERE", "gives no token with this pull secret"),
        ("{", "no Docker configuration"),
        ('{"auths": 1}', "no object 'auths'"),
    ],
    ids=["none", "another registry's", "wrong password", "not JSON", "no registries"],
)
async def test_without_the_right_pull_secret_there_is_no_module(
    config: WasmConfig, secret: str | None, reason: str
) -> None:
    async with (
        FakeRegistry(user="me", password="secret") as registry,
        getting_modules(config) as modules,
    ):
        registry.add_image("team/plugin", "v1", [docker_layer(MODULE)])
        if secret == "HERE":
            secret = docker_config(registry.address, "me", "wrong")
        request = ModuleRequest(url=f"oci://{registry.address}/team/plugin:v1", pull_secret=secret)
        with pytest.raises(FetchError, match=reason):
            await modules.get(request)


async def test_a_registry_may_want_the_password_itself(config: WasmConfig) -> None:
    async with (
        FakeRegistry(user="me", password="secret", basic=True) as registry,
        getting_modules(config) as modules,
    ):
        registry.add_image("team/plugin", "v1", [docker_layer(MODULE)])
        with pytest.raises(ManifestError, match="wants credentials"):
            await modules.get(_request(registry))
        secret = docker_config(f"http://{registry.address}/v2/", "me", "secret")
        assert (await modules.get(_request(registry, pull_secret=secret))).exists()


async def test_an_identity_token_is_a_refresh_token(config: WasmConfig) -> None:
    async with (
        FakeRegistry(user="me", password="refresh") as registry,
        getting_modules(config) as modules,
    ):
        registry.add_image("team/plugin", "v1", [docker_layer(MODULE)])
        entry = {"identitytoken": "refresh"}
        secret = json.dumps({"auths": {registry.address: entry}})
        assert (await modules.get(_request(registry, pull_secret=secret))).exists()


async def test_the_tag_latest_is_asked_for_again_and_its_layers_are_not(
    config: WasmConfig,
) -> None:
    async with FakeRegistry() as registry, getting_modules(config) as modules:
        registry.add_image("team/plugin", "latest", [docker_layer(MODULE)])
        path = await modules.get(_request(registry, "team/plugin", resource_version="1"))
        asked = len(registry.requests)
        assert await modules.get(_request(registry, "team/plugin", resource_version="1")) == path
        assert len(registry.requests) == asked
        assert await modules.get(_request(registry, "team/plugin", resource_version="2")) == path
        assert len(registry.requests) > asked
        assert _layers_fetched(registry) == 1
        registry.add_image("team/plugin", "latest", [docker_layer(OTHER)])
        newer = await modules.get(_request(registry, "team/plugin", resource_version="3"))
        assert newer.read_bytes() == OTHER


async def test_if_not_present_a_tag_that_moved_is_not_noticed(config: WasmConfig) -> None:
    async with FakeRegistry() as registry, getting_modules(config) as modules:
        registry.add_image("team/plugin", "v1", [docker_layer(MODULE)])
        path = await modules.get(_request(registry, resource_version="1"))
        registry.add_image("team/plugin", "v1", [docker_layer(OTHER)])
        assert await modules.get(_request(registry, resource_version="2")) == path
        moved = await modules.get(_request(registry, resource_version="2", policy="Always"))
        assert moved.read_bytes() == OTHER


async def test_an_image_with_another_checksum_is_refused(config: WasmConfig) -> None:
    async with FakeRegistry() as registry, getting_modules(config) as modules:
        registry.add_image("team/plugin", "v1", [docker_layer(MODULE)])
        with pytest.raises(ChecksumMismatch):
            await modules.get(_request(registry, checksum="0" * 64))
        with pytest.raises(FetchError, match="is not the image with the checksum"):
            await modules.get(_request(registry, f"a/b@sha256:{'1' * 64}", checksum="0" * 64))
        assert _layers_fetched(registry) == 0


async def test_a_layer_that_is_not_what_its_digest_says_is_refused(config: WasmConfig) -> None:
    async with FakeRegistry() as registry, getting_modules(config) as modules:
        registry.add_image("team/plugin", "v1", [docker_layer(MODULE)])
        for digest in registry.blobs:
            registry.blobs[digest] = docker_layer(OTHER).content
        with pytest.raises(ChecksumMismatch, match="a layer is not what its digest says"):
            await modules.get(_request(registry))


async def test_layers_elsewhere_are_asked_for_without_the_token(config: WasmConfig) -> None:
    blobs: dict[str, bytes] = {}

    async def handle(request: ReceivedRequest, _writer: object) -> Response:
        return Response(body=blobs[request.target.removeprefix("/store/")])

    async with (
        HttpServer(handle) as store,
        FakeRegistry(user="me", password="secret", blobs_at=f"{store.url}/store") as registry,
        getting_modules(config) as modules,
    ):
        registry.add_image("team/plugin", "v1", [docker_layer(MODULE)])
        blobs.update(registry.blobs)
        secret = docker_config(registry.address, "me", "secret")
        assert (await modules.get(_request(registry, pull_secret=secret))).exists()
    assert [each.headers.get("authorization") for each in store.requests] == [None]


MANIFESTS: dict[str, tuple[object, str]] = {
    "no layers": ({"layers": []}, "no layers"),
    "layers are text": ({"layers": "x"}, "no layers"),
    "a layer is text": ({"layers": ["x"]}, "no object"),
    "two modules": (
        {
            "layers": [
                {"mediaType": "application/wasm", "digest": f"sha256:{'0' * 64}"},
                {"mediaType": "application/wasm", "digest": f"sha256:{'1' * 64}"},
            ]
        },
        "more than one",
    ),
    "digest leads away": ({"layers": [{"digest": "sha256:../../x"}]}, "without a digest"),
    "too many layers": ({"layers": [{}] * 1000}, "too many"),
    "empty index": ({"manifests": []}, "lists no images"),
}


@pytest.mark.parametrize("name", sorted(MANIFESTS))
async def test_a_manifest_that_cannot_be_used_is_refused(config: WasmConfig, name: str) -> None:
    manifest, reason = MANIFESTS[name]
    async with FakeRegistry() as registry, getting_modules(config) as modules:
        assert isinstance(manifest, dict)
        media_type = "application/vnd.oci.image.index.v1+json" if "manifests" in manifest else ""
        registry.add_manifest("team/plugin", "v1", {"mediaType": media_type, **manifest})
        with pytest.raises(ManifestError, match=reason) as raised:
            await modules.get(_request(registry))
    assert raised.value.result is FetchResult.MANIFEST_FAILURE


LAYERS: dict[str, tuple[Layer, str]] = {
    "no plugin.wasm": (docker_layer(MODULE, name="other.wasm"), "no layer has a file plugin.wasm"),
    "plugin.wasm elsewhere": (docker_layer(MODULE, name="a/plugin.wasm"), "no layer has"),
    "path that leads up": (docker_layer(MODULE, name="/../plugin.wasm"), "no layer has"),
    "no module": (docker_layer(b"#!/bin/sh"), "is no Wasm module"),
    "zstd": (Layer("application/vnd.oci.image.layer.v1.tar+zstd", b"\x28\xb5\x2f\xfd"), "zstd"),
    "no archive": (Layer("application/octet-stream", b"text"), "no Wasm module, and no tar"),
}


@pytest.mark.parametrize("name", sorted(LAYERS))
async def test_an_image_without_a_module_is_refused(config: WasmConfig, name: str) -> None:
    layer, reason = LAYERS[name]
    async with FakeRegistry() as registry, getting_modules(config) as modules:
        registry.add_image("team/plugin", "v1", [layer])
        with pytest.raises(FetchError, match=reason):
            await modules.get(_request(registry))
    assert [each for each in config.cache_root.iterdir() if each.is_dir()] == []


async def test_a_registry_that_shows_no_certificate_of_ours_is_refused_unless_it_is_insecure(
    config_with: Callable[..., WasmConfig], tls: object
) -> None:
    context = tls.server  # type: ignore[attr-defined]
    async with FakeRegistry(tls=context) as registry:
        registry.add_image("team/plugin", "v1", [docker_layer(MODULE)])
        async with getting_modules(config_with()) as modules:
            with pytest.raises(FetchError, match="certificate does not verify"):
                await modules.get(_request(registry))
        for named in ("*", registry.address, "127.0.0.1"):
            async with getting_modules(
                config_with(insecure_registries=frozenset({named, "other.example"}))
            ) as modules:
                assert (await modules.get(_request(registry))).read_bytes() == MODULE


async def test_a_registry_with_a_certificate_of_the_machine_s_roots_is_trusted(
    config: WasmConfig, tls: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tls.root))  # type: ignore[attr-defined]
    async with (
        FakeRegistry(tls=tls.server, user="me", password="secret") as registry,  # type: ignore[attr-defined]
        getting_modules(config) as modules,
    ):
        registry.add_image("team/plugin", "v1", [docker_layer(MODULE)])
        secret = docker_config(registry.address, "me", "secret")
        assert (await modules.get(_request(registry, pull_secret=secret))).exists()


@pytest.mark.parametrize(
    ("realm", "reason"),
    [
        ("http://169.254.169.254/latest/meta-data/iam", r"blocked address.*169\.254\.0\.0/16"),
        ("http://[::ffff:169.254.169.254]/", "blocked address"),
        ("file:///etc/passwd", "no URL with http"),
        ("", "401"),
        ("http://me:secret@127.0.0.1:1/", "has credentials in it"),
    ],
    ids=["metadata service", "mapped", "file", "none", "credentials"],
)
async def test_a_realm_that_leads_elsewhere_is_refused(
    config: WasmConfig, realm: str, reason: str
) -> None:
    async def handle(_request: ReceivedRequest, _writer: object) -> Response:
        wanted = f'Bearer realm="{realm}",service="x"' if realm else "Negotiate"
        return Response(status=401, headers={"WWW-Authenticate": wanted})

    async with HttpServer(handle) as registry, getting_modules(config) as modules:
        with pytest.raises(FetchError, match=reason):
            await modules.get(ModuleRequest(url=f"oci://{registry.address}/a/b:c"))


async def test_a_realm_without_tls_gets_no_password_of_a_registry_with_tls(
    config: WasmConfig, tls: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tls.root))  # type: ignore[attr-defined]
    async with (
        FakeRegistry(user="me", password="secret") as plain,
        FakeRegistry(
            user="me",
            password="secret",
            realm=f"{plain.url}/token",
            tls=tls.server,  # type: ignore[attr-defined]
        ) as registry,
        getting_modules(config) as modules,
    ):
        secret = docker_config(registry.address, "me", "secret")
        with pytest.raises(FetchError, match="is not https"):
            await modules.get(_request(registry, pull_secret=secret))
        assert plain.requests == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("oci://ghcr.io/a/b:v1", ("ghcr.io", "a/b", "v1", "")),
        ("oci://ghcr.io/a/b", ("ghcr.io", "a/b", "latest", "")),
        ("oci://localhost:5000/b", ("localhost:5000", "b", "latest", "")),
        ("oci://b", ("index.docker.io", "library/b", "latest", "")),
        ("oci://docker.io/a/b:v", ("index.docker.io", "a/b", "v", "")),
        (f"oci://x.io/b@sha256:{'a' * 64}", ("x.io", "b", "", "a" * 64)),
        (f"oci://x.io/b:v@sha256:{'a' * 64}", ("x.io", "b", "v", "a" * 64)),
    ],
)
def test_references_are_read_as_docker_reads_them(
    text: str, expected: tuple[str, str, str, str]
) -> None:
    assert tuple(Reference.parse(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "oci://x.io/../b",
        "oci://x.io/b:v/../../c",
        "oci://x.io/b@md5:00",
        "oci://x.io/B",
        "oci://x.io/",
        "oci://x.io/b?x=y",
        "oci://u:p@x.io/b",
        "oci://x.io/b\r\n",
        "oci://" + "a/" * 5000,
    ],
)
def test_a_reference_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(FetchError):
        Reference.parse(text)


@given(st.text())
def test_any_reference_is_read_or_refused(text: str) -> None:
    try:
        reference = Reference.parse(f"oci://{text}")
    except FetchError:
        return
    assert Reference.parse(str(reference)) == reference


def test_of_several_entries_of_a_secret_the_most_precise_counts() -> None:
    def entry(user: str) -> dict[str, str]:
        return {"auth": base64.b64encode(f"{user}:x".encode()).decode()}

    config = json.dumps(
        {
            "auths": {
                "https://ghcr.io": entry("host"),
                "ghcr.io/team": entry("team"),
                "ghcr.io/tea": entry("other"),
                "docker.io": entry("hub"),
            }
        }
    )
    users = {
        url: getattr(credentials_for(Reference.parse(url), config), "user", None)
        for url in ("oci://ghcr.io/team/a", "oci://ghcr.io/b", "oci://c", "oci://quay.io/d")
    }
    assert users == {
        "oci://ghcr.io/team/a": "team",
        "oci://ghcr.io/b": "host",
        "oci://c": "hub",
        "oci://quay.io/d": None,
    }


def test_a_pull_secret_that_is_no_ascii_is_refused_without_its_text() -> None:
    image = Reference.parse("oci://ghcr.io/team/a")
    with pytest.raises(FetchError, match="no base64") as refused:
        credentials_for(image, json.dumps({"auths": {"ghcr.io": {"auth": "s\u00e9cret"}}}))
    assert "cret'" not in str(refused.value)


@given(st.text(max_size=200))
def test_any_challenge_is_read(header: str) -> None:
    challenges([header])


def test_challenges_are_read() -> None:
    assert challenges(['Basic realm="a", Bearer realm="b \\"c\\"",service=d', "Negotiate"]) == (
        ("basic", {"realm": "a"}),
        ("bearer", {"realm": 'b "c"', "service": "d"}),
        ("negotiate", {}),
    )


def test_archives_of_the_tests_are_archives(tmp_path: Path) -> None:
    assert gzip.decompress(docker_layer(MODULE).content) == tar_of({"plugin.wasm": MODULE})
    assert list(tmp_path.iterdir()) == []
