"""The Secrets of a mesh that gateways can use, and the names by which Envoys ask for them.

`configmap://namespace/name-cacert` is the roots in a ConfigMap, which are no secret at all.
`kubernetes://name` is the certificate in the Secret of that name, in the router's own namespace,
and `kubernetes://name-cacert` the roots: those of the Secret `name-cacert`, or else of `name`.
These are Istio's names, and so is `kubernetes-gateway://namespace/name`, by which the Gateway API's
Gateways name Secrets of namespaces that allow it.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

from istio_config import ConfigObject
from istio_config.kinds.kubernetes import ConfigMapFields, SecretFields
from mesh_model._derived import Derived, derive, view

OWN = "kubernetes://"
OF_GATEWAY = "kubernetes-gateway://"
CONFIG_MAP = "configmap://"
"""How the names of ConfigMaps with roots begin: `configmap://namespace/name`, as in Istio."""
ROOTS_SUFFIX = "-cacert"
BUILTIN = "builtin://"
"""The `credentialName`, Istio's, of the router's own certificate of the mesh."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A certificate with its key, as a router shows it."""

    chain_pem: bytes = field(repr=False)
    key_pem: bytes = field(repr=False)
    staple_der: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """The authorities whose certificates a router accepts of clients."""

    roots_pem: bytes = field(repr=False)
    revocations_pem: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSecret:
    """A name that there is nothing for, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class SecretName:
    """A name that a router asks for, taken apart."""

    namespace: str
    name: str
    """Of the Secret, or with `-cacert` after it."""
    by_gateway: bool = False
    """Whether the name is one that the Gateway API's Gateways have."""


def credential(name: str) -> str:
    """Return the name by which Envoys ask for a `credentialName`."""
    return name if "://" in name else f"{OWN}{name}"


def credential_roots(name: str) -> str:
    """Return the name by which Envoys ask for the roots beside a `credentialName`."""
    return f"{credential(name)}{ROOTS_SUFFIX}"


def parse_secret_name(text: str, namespace: str) -> SecretName | None:
    """Take a name apart that a router of this namespace asks for; None if it is no Secret's."""
    if text.startswith(CONFIG_MAP):
        given, _, name = text.removeprefix(CONFIG_MAP).partition("/")
        is_one = bool(given and name.endswith(ROOTS_SUFFIX) and "/" not in name)
        return SecretName(given, f"{CONFIG_MAP}{name}") if is_one else None
    for prefix in (OWN, OF_GATEWAY):
        if text.startswith(prefix):
            given, slash, name = text.removeprefix(prefix).partition("/")
            if not slash:
                given, name = namespace, given
            if not given or not name or "/" in name:
                return None
            return SecretName(given, name, by_gateway=prefix == OF_GATEWAY)
    return None


class Secrets:
    """All Secrets, by namespace and name, and ConfigMaps, whose names have a prefix here."""

    def __init__(self, derived: "_Derived") -> None:
        self.derived = derived
        self._by_key = derived.values

    @classmethod
    def build(cls, objects: Iterable[ConfigObject], before: "Secrets | None" = None) -> "Secrets":
        """Return the Secrets of these objects: those before, if they are of the same objects."""
        derived = derive(
            objects,
            _key,
            lambda _, items: cast("SecretFields | ConfigMapFields", items[-1].spec),
            before=before.derived if before is not None else None,
        )
        return view(cls, derived, before)

    def find(self, name: SecretName) -> KeyPair | Roots | NoSecret:
        """Return the certificate or the roots that a name means."""
        # A mesh without Secrets does not load cryptography.
        from istio_config.kinds.kubernetes.key_material import refused_key, wrong_pair, wrong_staple

        if name.name.endswith(ROOTS_SUFFIX):
            return self._roots(name)
        secret = self._by_key.get((name.namespace, name.name))
        if not isinstance(secret, SecretFields):
            return _missing(name.namespace, name.name)
        pair = secret.pair
        if pair is None:
            return NoSecret(
                reason=f"the Secret {name.namespace}/{name.name} has no tls.crt and tls.key, nor "
                "cert and key"
            )
        chain, key = pair
        if (wrong := wrong_pair(chain, key)) is not None:
            what = "key" if wrong[0] else "certificate"
            return NoSecret(
                reason=f"the {what} in the Secret {name.namespace}/{name.name} {wrong[1]}"
            )
        if (refused := refused_key(key)) is not None:
            return NoSecret(reason=f"the key in the Secret {name.namespace}/{name.name} {refused}")
        staple = secret.staple
        if staple and wrong_staple(chain, staple) is not None:
            staple = b""  # it only saves clients a question; Envoy would refuse all of the secret
        return KeyPair(chain_pem=chain, key_pem=key, staple_der=staple)

    def pull_secret(self, namespace: str, name: str) -> str:
        """Return what a registry is shown, in Docker's JSON; "" if there is no such Secret.

        name: of the Secret; what stands before it, such as another namespace, counts for nothing,
        as in Istio.
        """
        secret = self._by_key.get((namespace, name.rpartition("/")[2]))
        return secret.docker_config if isinstance(secret, SecretFields) else ""

    @property
    def keys(self) -> AbstractSet[tuple[str, str]]:
        """Namespace and name of each."""
        return self._by_key.keys()

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._by_key)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all Secrets, in whatever namespaces."""
        return frozenset(name for _, name in self._by_key)

    def differing(self, other: "Secrets") -> frozenset[tuple[str, str]]:
        """Return namespace and name of the Secrets that two meshes do not have alike."""
        if self is other:
            return frozenset()
        own, others = self._by_key, other._by_key
        return frozenset(
            key
            for key in own.keys() | others.keys()
            if (old := own.get(key)) is not (new := others.get(key)) and old != new
        )

    def _roots(self, name: SecretName) -> Roots | NoSecret:
        from istio_config.kinds.kubernetes.key_material import wrong_revocations, wrong_roots

        plain = name.name.removesuffix(ROOTS_SUFFIX)
        for each in (name.name, plain):
            secret = self._by_key.get((name.namespace, each))
            if secret is None or not secret.roots:
                continue
            if (wrong := wrong_roots(secret.roots)) is not None:
                return NoSecret(reason=f"ca.crt in the {_named(name.namespace, each)} {wrong}")
            lists = secret.revocations
            if lists and (wrong := wrong_revocations(lists)) is not None:
                return NoSecret(reason=f"ca.crl in the {_named(name.namespace, each)} {wrong}")
            return Roots(roots_pem=secret.roots, revocations_pem=lists)
        if (name.namespace, plain) not in self._by_key:
            return _missing(name.namespace, name.name)
        beside = "" if plain.startswith(CONFIG_MAP) else f", and there is no {name.name} beside it"
        return NoSecret(reason=f"the {_named(name.namespace, plain)} has no ca.crt{beside}")


_Derived = Derived[ConfigObject, tuple[str, str], SecretFields | ConfigMapFields]


def _key(item: ConfigObject) -> tuple[str, str] | None:
    if isinstance(item.spec, ConfigMapFields):
        return item.namespace, f"{CONFIG_MAP}{item.name}"
    return (item.namespace, item.name) if isinstance(item.spec, SecretFields) else None


def _named(namespace: str, name: str) -> str:
    kind = "ConfigMap" if name.startswith(CONFIG_MAP) else "Secret"
    return f"{kind} {namespace}/{name.removeprefix(CONFIG_MAP)}"


def _missing(namespace: str, name: str) -> NoSecret:
    if name.startswith(CONFIG_MAP):
        plain = name.removeprefix(CONFIG_MAP).removesuffix(ROOTS_SUFFIX)
        return NoSecret(reason=f"there is no ConfigMap {plain} in the namespace {namespace}")
    return NoSecret(reason=f"there is no Secret {name} in the namespace {namespace}")


def secrets_of(name: SecretName) -> frozenset[tuple[str, str]]:
    """Return namespace and name of the Secrets that decide over a name."""
    plain = name.name.removesuffix(ROOTS_SUFFIX)
    return frozenset({(name.namespace, name.name), (name.namespace, plain)})


NO_SECRETS = Secrets.build(())
