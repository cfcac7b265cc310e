"""The mutual TLS mode of a workload's port, decided by the PeerAuthentications of the mesh."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from istio_config.kinds.peer_authentication import MutualTlsMode, PeerAuthenticationSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One PeerAuthentication."""

    namespace: str
    name: str = ""
    spec: PeerAuthenticationSpec

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the workloads it selects; empty: all of its namespace."""
        return self.spec.selector.match_labels if self.spec.selector is not None else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerPolicies:
    """All PeerAuthentications of a mesh, oldest first.

    Istio's order: workload over namespace over mesh (the root namespace's without selector); at
    each level the oldest wins; UNSET means the mode of the next level, and at last PERMISSIVE.
    """

    root_namespace: str
    policies: tuple[Policy, ...] = ()

    def mode(self, namespace: str, labels: Mapping[str, str], port: int) -> MutualTlsMode:
        """Return the mode of a workload's port, never UNSET."""
        own = self._of_workload(namespace, labels)
        by_port = own.by_port.get(str(port)) if own is not None else None
        if by_port is not None and by_port.mode is not MutualTlsMode.UNSET:
            return by_port.mode
        return self.workload_mode(namespace, labels)

    def workload_mode(self, namespace: str, labels: Mapping[str, str]) -> MutualTlsMode:
        """Return the mode of a workload's ports that have none of their own, never UNSET."""
        own = self._of_workload(namespace, labels)
        if own is not None and own.mtls.mode is not MutualTlsMode.UNSET:
            return own.mtls.mode
        return self.namespace_mode(namespace)

    def port_modes(self, namespace: str, labels: Mapping[str, str]) -> dict[int, MutualTlsMode]:
        """Return the modes of a workload's ports that are named, none UNSET."""
        own = self._of_workload(namespace, labels)
        if own is None:
            return {}
        return {int(port): self.mode(namespace, labels, int(port)) for port in own.by_port}

    def namespace_mode(self, namespace: str) -> MutualTlsMode:
        """Return the mode of workloads that no policy selects by labels."""
        for each in (namespace, self.root_namespace):
            for policy in self._in_namespace(each):
                if not policy.labels:
                    if policy.spec.mtls.mode is not MutualTlsMode.UNSET:
                        return policy.spec.mtls.mode
                    break
        return MutualTlsMode.PERMISSIVE

    def has_workload_policy(self, namespace: str) -> bool:
        """Return whether some policy selects workloads of a namespace by labels."""
        return any(each.labels for each in self._in_namespace(namespace))

    def differing(self, other: "PeerPolicies") -> frozenset[tuple[str, str]]:
        """Return namespace and name of the policies that two meshes do not have alike.

        All of them, if only the order or the root namespace differs.
        """
        if self == other:
            return frozenset()
        own = {(each.namespace, each.name): each for each in self.policies}
        others = {(each.namespace, each.name): each for each in other.policies}
        keys = own.keys() | others.keys()
        return frozenset({key for key in keys if own.get(key) != others.get(key)} or keys)

    def _of_workload(
        self, namespace: str, labels: Mapping[str, str]
    ) -> PeerAuthenticationSpec | None:
        """Return the oldest policy that selects a workload by its labels."""
        return next(
            (
                each.spec
                for each in self._in_namespace(namespace)
                if each.labels and each.labels.items() <= labels.items()
            ),
            None,
        )

    def _in_namespace(self, namespace: str) -> Iterable[Policy]:
        return (each for each in self.policies if each.namespace == namespace)
