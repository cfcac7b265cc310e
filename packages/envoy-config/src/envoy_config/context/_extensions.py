"""The programs of extensions that proxies ask for by name, each packed once for all that get it."""

from functools import partial
from typing import NamedTuple

from envoy_config._accounts import accounts_in
from envoy_config.context._cache import Cache
from envoy_config.plan._proxy import Proxy
from envoy_config.plan.extensions._extensions import ExtensionRule, extension_name, extension_rules
from envoy_config.plan.gateway._account_workloads import AccountWorkload, account_workloads
from istio_config.kinds.traffic_extension import DEFAULT_SCHEME, WasmFields
from mesh_model import MeshModel, Workload
from xds_server import Resource

_WITHHELD = ""


class _Source(NamedTuple):
    """All that a resource depends on. A rule is the same one for as long as it says the same."""

    rule: ExtensionRule
    pull_secret: str | None


class _Accounts(NamedTuple):
    namespace: str
    names: frozenset[str]


class Extensions:
    """Finds the programs of one model's proxies, and keeps their resources."""

    def __init__(self, model: MeshModel) -> None:
        self._model = model
        self._resources = Cache[_Source, Resource]()
        self._workloads = Cache[_Accounts, frozenset[AccountWorkload]]()

    def resources(
        self,
        proxy: Proxy,
        wanted: frozenset[str],
        identities: tuple[str, ...],
        *,
        believed: bool,
    ) -> dict[str, Resource]:
        """Return the modules and scripts of these names that are for a proxy, by their names.

        identities: those that it has proved, by which it gets the secrets of registries. believed:
        without any, it is whom its node says.
        """
        found = {}
        for rule in extension_rules(proxy, self._model):
            if (name := extension_name(rule)) not in wanted:
                continue
            secret = None
            if (module := rule.spec.module) is not None:
                secret = self._pull_secret(rule, module, proxy, identities, believed=believed)
            found[name] = self._resources.get(_Source(rule, secret), partial(_pack, name))
        return found

    def _pull_secret(
        self,
        rule: ExtensionRule,
        module: WasmFields,
        proxy: Proxy,
        identities: tuple[str, ...],
        *,
        believed: bool,
    ) -> str | None:
        """Return what a registry is shown: "" if there is a secret that the proxy does not get."""
        if not module.image_pull_secret or module.scheme != DEFAULT_SCHEME:
            return None
        accounts = accounts_in(proxy.namespace, identities)
        if not accounts and (identities or not believed):
            return _WITHHELD
        if accounts and not self._is_for(rule, _Accounts(proxy.namespace, accounts)):
            return _WITHHELD
        return self._model.secrets.pull_secret(rule.namespace, module.image_pull_secret)

    def _is_for(self, rule: ExtensionRule, accounts: _Accounts) -> bool:
        """Return whether a rule selects a workload of some accounts.

        Labels are those that the configuration knows workloads by: a node's own are its word alone.
        """
        selection = rule.spec.selection
        if not selection.labels and not selection.gateways:
            return True
        known = self._workloads.get(accounts, self._find_workloads)
        return any(
            rule.selects(Workload(each.namespace, each.labels, is_gateway=is_gateway))
            for each in known
            for is_gateway in (False, True)
        )

    def _find_workloads(self, key: _Accounts) -> frozenset[AccountWorkload]:
        return account_workloads(self._model, key.namespace, key.names)


def _pack(name: str, source: _Source) -> Resource:
    # Most meshes have no extensions: they do not load the messages of one.
    from envoy_config.generate._extension_configs import module_config, script_config

    spec = source.rule.spec
    if spec.module is None:
        config = script_config(name, spec.script)
    else:
        plugin = name.rpartition("/")[2]
        config = module_config(name, spec.module, plugin=plugin, pull_secret=source.pull_secret)
    return Resource.pack(config, name=name)
