"""A mesh as its configuration describes it: services, endpoints, rules, who sees what; pure."""

from mesh_model._aliases import ServicesByName
from mesh_model._changed_services import changed_services, only_endpoints_differ, same_names
from mesh_model._destination_rules import NO_RULES, DestinationRules, Rule
from mesh_model._gateways import NO_GATEWAYS, Gateway, Gateways
from mesh_model._hosts import HostIndex, full_host
from mesh_model._model import (
    Facts,
    MeshModel,
    build_model,
)
from mesh_model._networks import NETWORK_LABEL, NetworkGateway, Networks
from mesh_model._object_changes import RULE_KINDS, Differing, changed_objects
from mesh_model._scope import OutboundPolicy, Scope, ScopeKey, find_scope, scope_key, scope_of
from mesh_model._service_facts import ChangedServices
from mesh_model._services import Endpoint, Health, Labels, Port, Registry, Service
from mesh_model._visibility import foreign_host, visible_services
from mesh_model.gateway_api._conditions import ObjectStatus
from mesh_model.gateway_api._listeners import NAME_LABEL
from mesh_model.policies._key_sets import (
    NO_KEY_SETS,
    KeySets,
    KeySource,
    WantedKeySet,
    source_of,
    wanted_key_sets,
)
from mesh_model.policies._workload_rules import (
    NO_WORKLOAD_RULES,
    WORKLOAD_KINDS,
    RuleName,
    Workload,
    WorkloadRule,
    WorkloadRules,
)
from mesh_model.sidecars._imports import EgressListener
from mesh_model.virtual_services._resolved_names import (
    MESH,
    http_destinations,
    resolved_gateway,
    resolved_gateways,
)
from mesh_model.virtual_services._virtual_services import VirtualService
from mesh_model.workloads._service_settings import EndpointKey
from mesh_model.workloads._workload_endpoints import HEALTH_CHECKED
from mesh_model.workloads._workloads import labels_of

__all__ = [
    "ChangedServices",
    "DestinationRules",
    "Differing",
    "EgressListener",
    "Endpoint",
    "Facts",
    "Gateway",
    "Gateways",
    "HEALTH_CHECKED",
    "Health",
    "HostIndex",
    "KeySets",
    "KeySource",
    "Labels",
    "MESH",
    "MeshModel",
    "NAME_LABEL",
    "NETWORK_LABEL",
    "NO_GATEWAYS",
    "NO_KEY_SETS",
    "NO_RULES",
    "NO_WORKLOAD_RULES",
    "NetworkGateway",
    "Networks",
    "ObjectStatus",
    "OutboundPolicy",
    "EndpointKey",
    "Port",
    "RULE_KINDS",
    "Registry",
    "Rule",
    "RuleName",
    "Scope",
    "ScopeKey",
    "Service",
    "ServicesByName",
    "VirtualService",
    "WORKLOAD_KINDS",
    "WantedKeySet",
    "Workload",
    "WorkloadRule",
    "WorkloadRules",
    "build_model",
    "changed_objects",
    "changed_services",
    "find_scope",
    "full_host",
    "http_destinations",
    "labels_of",
    "foreign_host",
    "only_endpoints_differ",
    "resolved_gateway",
    "resolved_gateways",
    "same_names",
    "scope_key",
    "scope_of",
    "source_of",
    "visible_services",
    "wanted_key_sets",
]
