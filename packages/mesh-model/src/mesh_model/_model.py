"""The model of a mesh: its services, rules and settings; what Istio calls a PushContext.

Pure and immutable: equal facts give equal answers. Two models are compared part by part to find
out which resources of which proxies a change touches.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from istio_config import ConfigObject, Snapshot, snapshot_of, with_objects
from istio_config.kinds.destination_rule import DESTINATION_RULE
from istio_config.kinds.gateway import GATEWAY
from istio_config.kinds.kubernetes import CONFIG_MAP, NAMESPACE, SECRET, PodSpec
from istio_config.kinds.mesh_config import MeshConfigSpec
from istio_config.kinds.peer_authentication import PEER_AUTHENTICATION, PeerAuthenticationSpec
from istio_config.kinds.sidecar import SIDECAR
from istio_config.kinds.virtual_service import VIRTUAL_SERVICE
from istio_config.kinds.workload_group import WORKLOAD_GROUP
from mesh_configfile import Problem
from mesh_model._destination_rules import DestinationRules, RuleSettings
from mesh_model._gateways import Gateways
from mesh_model._networks import Networks
from mesh_model._object_changes import RuleObjects
from mesh_model._service_facts import (
    ServedAt,
    ServiceFacts,
    locality_labels,
    rules_use_location,
)
from mesh_model._services import Service, ServiceKey
from mesh_model._visibility import NO_OWNERS, HostOwners, host_owners
from mesh_model.gateway_api._translation import GatewayApi, gateway_api_of, oldest_first
from mesh_model.ingress._classes import IngressSettings
from mesh_model.ingress._translation import Ingresses, IngressFacts
from mesh_model.policies._key_sets import NO_KEY_SETS, KeySets
from mesh_model.policies._peer_authentication import PeerPolicies, Policy
from mesh_model.policies._workload_rules import WorkloadRules
from mesh_model.registry._service_registry import ServiceRegistry, build_registry
from mesh_model.secrets import Secrets
from mesh_model.sidecars._indices import Indices
from mesh_model.sidecars._sidecars import Sidecars
from mesh_model.virtual_services._expression_budget import VirtualHostCounts
from mesh_model.virtual_services._virtual_services import VirtualServices, VirtualServiceSettings
from mesh_model.workloads._service_settings import EndpointKey
from mesh_model.workloads._workload_endpoints import same_pod

_NOTHING = snapshot_of(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The input of a model: all that the sources know of a mesh at one moment."""

    snapshot: Snapshot = _NOTHING
    """The objects of files, clusters and programs."""
    registered: tuple[ConfigObject, ...] = ()
    """WorkloadEntries of the proxies that registered themselves by WorkloadGroup."""
    reports: Mapping[EndpointKey, bool] = field(default_factory=dict)
    """Whether each application is healthy, where its proxy probes it and has reported."""
    addresses: Mapping[str, tuple[str, ...]] | None = None
    """The addresses of network gateways' host names; None: names are not looked up."""
    key_sets: KeySets = NO_KEY_SETS
    """The JSON Web ServiceKey Sets that were fetched for RequestAuthentications."""

    @property
    def objects(self) -> Snapshot:
        """All objects, the registered entries with them."""
        return with_objects(self.snapshot, self.registered)


@dataclass(frozen=True, kw_only=True, eq=False)
class MeshModel:
    """A whole mesh, as generators need it.

    A model is equal to itself alone. How two of them differ is asked part by part:
    `changed_services`, `RuleObjects.differences` and the `differing` of the others.
    """

    mesh_config: MeshConfigSpec
    trust_domain: str
    domain: str
    """The DNS suffix of Kubernetes services, and of short names in rules."""
    policies: PeerPolicies
    auto_allocated: Mapping[ServiceKey, int]
    """The place of each service in the range of auto-allocated addresses."""
    rules: RuleObjects = field(repr=False)
    """The objects of traffic rules."""
    destination_rules: DestinationRules = field(repr=False)
    virtual_services: VirtualServices = field(repr=False)
    gateways: Gateways = field(repr=False)
    secrets: Secrets = field(repr=False)
    sidecars: Sidecars = field(repr=False)
    workload_rules: WorkloadRules = field(repr=False)
    """Policies, Telemetry and EnvoyFilters."""
    key_sets: KeySets = field(repr=False)
    """By which the tokens of requests are checked."""
    indices: Indices = field(repr=False)
    """Of services and VirtualServices, for Sidecars."""
    gateway_api: GatewayApi = field(repr=False)
    """The Gateway API's objects; the rules that they are translated to are among the others."""
    ingresses: Ingresses = field(repr=False)
    """Kubernetes' Ingresses, likewise."""
    networks: Networks
    workload_groups: tuple[ConfigObject, ...] = field(repr=False)
    owners: HostOwners
    registry: ServiceRegistry = field(repr=False)
    """The services by the objects that describe them, for the model that replaces this one."""
    facts: ServiceFacts = field(repr=False)
    """Of all services at once."""
    origin: "Origin" = field(repr=False)
    """The snapshot and the settings that it was built from."""

    def says_the_same_as(self, before: "MeshModel") -> bool:
        """Return whether no edit since `before` had an effect; in doubt False."""
        return self.facts is before.facts

    @property
    def services(self) -> tuple[Service, ...]:
        """The services, oldest first; each host of a namespace once."""
        return self.registry.services

    @property
    def by_key(self) -> Mapping[tuple[str, str], Service]:
        """Services by namespace and host."""
        return self.registry.combined.by_key

    @cached_property
    def labels_looked_at(self) -> frozenset[str]:
        """The keys of the proxy labels that some rule reads; scopes are shared by their values."""
        return (
            self.destination_rules.labels_looked_at
            | self.virtual_services.source_labels
            | locality_labels(self.mesh_config)
        )

    @cached_property
    def uses_location(self) -> bool:
        """Whether clusters or endpoints depend on a proxy's locality, network or node."""
        return (
            self.networks.have_gateways
            or rules_use_location(self.destination_rules, self.mesh_config)
            or self.facts.use_location
        )

    @property
    def uses_nodes(self) -> bool:
        """Whether endpoints depend on the Kubernetes node that a proxy runs on."""
        return self.facts.use_nodes

    @property
    def by_address(self) -> ServedAt:
        """The services and their endpoints by namespace and address of the endpoint."""
        return self.facts.by_address

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """All that is not as configured in objects that are translated to others."""
        return (*self.gateway_api.warnings, *self.ingresses.warnings)

    @property
    def trust_domains(self) -> tuple[str, ...]:
        """The mesh's own trust domain, then its aliases."""
        return (self.trust_domain, *self.mesh_config.trust_domain_aliases)


class Origin(NamedTuple):
    """The facts and the settings from which a model is built.

    identity: of the snapshot. settings: the other facts, and the arguments of `build_model`.
    """

    identity: object
    settings: tuple[object, ...]


def build_model(
    facts: Facts,
    *,
    default_trust_domain: str = "cluster.local",
    domain: str = "cluster.local",
    scope_gateways: bool = False,
    strict_namespaces: bool = False,
    before: MeshModel | None = None,
) -> MeshModel:
    """Derive the mesh from what is known of it; mesh config's trustDomain wins over the default.

    domain: the DNS suffix of Kubernetes services and of short names. scope_gateways: a Gateway is
        for routers of its own namespace alone. strict_namespaces: only the namespace that owns a
        host defines it for others, and Gateways are scoped. before: the model that this one
        replaces; what did not change is kept, allocated addresses also.
    """
    snapshot = facts.objects
    settings = (
        default_trust_domain,
        domain,
        scope_gateways,
        strict_namespaces,
        facts.addresses,
        facts.reports,
        facts.key_sets,
    )
    origin = Origin(snapshot.identity, settings)
    if before is not None and _is_without_effect(snapshot, settings, before.origin):
        return replace(before, origin=origin)
    owners = (
        host_owners(
            snapshot.of_kind(NAMESPACE),
            root_namespace=snapshot.mesh_config.root_namespace,
            domain=domain,
        )
        if strict_namespaces
        else NO_OWNERS
    )
    registry = build_registry(
        snapshot,
        domain=domain,
        resolved=facts.addresses,
        reports=facts.reports,
        owners=owners,
        before=before.registry if before is not None else None,
    )
    secrets = Secrets.build(
        (*snapshot.of_kind(SECRET), *snapshot.of_kind(CONFIG_MAP)),
        before.secrets if before is not None else None,
    )
    gateway_api = gateway_api_of(
        snapshot,
        services=registry.combined.by_key,
        secrets=secrets,
        domain=domain,
        owners=owners,
        before=before.gateway_api if before is not None else None,
    )
    ingresses = Ingresses.of_mesh(
        snapshot,
        IngressFacts(
            settings=IngressSettings.of_mesh(snapshot.mesh_config),
            services=registry.combined.by_key,
            secrets=secrets,
            domain=domain,
            owners=owners,
        ),
        before.ingresses if before is not None else None,
    )
    gateways = oldest_first(
        snapshot.of_kind(GATEWAY), oldest_first(gateway_api.gateways, ingresses.gateways)
    )
    translated = oldest_first(gateway_api.virtual_services, ingresses.virtual_services)
    virtual_services = VirtualServices.build(
        oldest_first(snapshot.of_kind(VIRTUAL_SERVICE), translated),
        VirtualServiceSettings(
            export_to=tuple(snapshot.mesh_config.default_virtual_service_export_to),
            domain=domain,
            owners=owners,
        ),
        counts=VirtualHostCounts(registry.services, gateways),
        before=before.virtual_services if before is not None else None,
    )
    return MeshModel(
        mesh_config=snapshot.mesh_config,
        trust_domain=snapshot.mesh_config.trust_domain or default_trust_domain,
        domain=domain,
        auto_allocated=registry.inputs.allocated,
        networks=registry.inputs.settings.networks,
        owners=owners,
        registry=registry,
        facts=ServiceFacts(registry.combined.by_key),
        origin=origin,
        rules=RuleObjects.build(
            snapshot,
            (
                *gateway_api.gateways,
                *ingresses.gateways,
                *translated,
                *gateway_api.destination_rules,
            ),
        ),
        gateway_api=gateway_api,
        ingresses=ingresses,
        destination_rules=DestinationRules.build(
            oldest_first(snapshot.of_kind(DESTINATION_RULE), gateway_api.destination_rules),
            RuleSettings(
                domain=domain,
                root_namespace=snapshot.mesh_config.root_namespace,
                export_to=tuple(snapshot.mesh_config.default_destination_rule_export_to),
            ),
            before.destination_rules if before is not None else None,
        ),
        virtual_services=virtual_services,
        sidecars=Sidecars.build(
            snapshot.of_kind(SIDECAR),
            root_namespace=snapshot.mesh_config.root_namespace,
            before=before.sidecars if before is not None else None,
        ),
        indices=Indices(
            registry.services,
            virtual_services,
            before=before.indices if before is not None else None,
        ),
        gateways=Gateways.build(
            gateways,
            before.gateways if before is not None else None,
            own_namespace_only=scope_gateways or owners.is_strict,
        ),
        secrets=secrets,
        workload_groups=snapshot.of_kind(WORKLOAD_GROUP),
        workload_rules=WorkloadRules.build(
            snapshot,
            root_namespace=snapshot.mesh_config.root_namespace,
            before=before.workload_rules if before is not None else None,
        ),
        key_sets=facts.key_sets,
        policies=PeerPolicies(
            root_namespace=snapshot.mesh_config.root_namespace,
            policies=tuple(
                Policy(namespace=each.namespace, name=each.name, spec=each.spec)
                for each in snapshot.of_kind(PEER_AUTHENTICATION)
                if isinstance(each.spec, PeerAuthenticationSpec)
            ),
        ),
    )


def _is_without_effect(snapshot: Snapshot, settings: tuple[object, ...], before: Origin) -> bool:
    """Return whether only pods were edited, in fields that the model does not read.

    Kubernetes writes into each pod again and again: heartbeats, counts of restarts, annotations.
    """
    if before.settings != settings or (edit := snapshot.edit_since(before.identity)) is None:
        return False
    come = {each.key: each for each in edit.come}
    return len(edit.gone) == len(edit.come) and all(
        isinstance(each.spec, PodSpec) and each.key in come and same_pod(each, come[each.key])
        for each in edit.gone
    )
