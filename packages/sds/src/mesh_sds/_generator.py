"""Which secrets a stream gets: those it names that exist. The rest it gets when they do."""

from collections.abc import Iterable

from mesh_sds._secrets import Secret, SecretSource, TrustBundle, secret_resource
from xds_server import Client, ConfigKey, Generated, PushRequest, Resource, Watch

_KIND = "Secret"


class SecretGenerator:
    """Answers from the source, and packs each secret once however many streams want it."""

    def __init__(self, source: SecretSource) -> None:
        self._source = source
        self._packed: dict[str, tuple[Secret, Resource]] = {}

    def generate(
        self, client: Client[None], watch: Watch, push: PushRequest | None
    ) -> Generated | None:
        """Give what exists of the names asked for or changed; None if none of them is watched."""
        del client
        names = watch.names if push is None else watch.names & _changed_names(push, watch.names)
        if not names:
            return None
        resources: dict[str, Resource] = {}
        bundles: dict[str, Resource] = {}
        for name in sorted(names):
            secret = self._source.get(name)
            if secret is None:
                self._packed.pop(name, None)
                continue
            target = bundles if isinstance(secret, TrustBundle) else resources
            target[name] = self._pack(name, secret)
        # A certificate may chain to a root that is new in the bundle beside it.
        given = bundles | resources
        # A name that never existed is not said to be gone: its client waits for it.
        removed = frozenset[str]() if push is None else names.difference(given)
        return Generated(resources=tuple(given.values()), removed=removed)

    def _pack(self, name: str, secret: Secret) -> Resource:
        packed = self._packed.get(name)
        if packed is None or packed[0] != secret:
            packed = self._packed[name] = (secret, secret_resource(name, secret))
        return packed[1]


def push_requests(source: SecretSource, names: Iterable[str]) -> tuple[PushRequest, ...]:
    """Say what to push when `names` changed: trust bundles first, the certificates after them.

    A certificate that chains to a new root must not arrive where that root is not known yet.
    """
    bundles: list[str] = []
    others: list[str] = []
    for name in sorted(names):
        is_bundle = isinstance(source.get(name), TrustBundle)
        (bundles if is_bundle else others).append(name)
    return tuple(_push(group) for group in (bundles, others) if group)


def _push(names: Iterable[str]) -> PushRequest:
    return PushRequest(
        full=False,
        configs_updated=frozenset(ConfigKey(kind=_KIND, name=n, namespace="") for n in names),
        reasons=("secret",),
    )


def _changed_names(push: PushRequest, watched: frozenset[str]) -> frozenset[str]:
    if not push.configs_updated:
        return watched
    return frozenset(key.name for key in push.configs_updated if key.kind == _KIND)
