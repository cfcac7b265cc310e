"""The even sharing of inbound connections among Envoy's threads, for workloads with few of them."""

from envoy_config.generate._messages import listener_pb2
from envoy_config.plan._proxy_settings import ProxySettings


def balance(listener: listener_pb2.Listener, proxy: ProxySettings) -> None:
    """Let an inbound listener hand each connection to the thread that has fewest, if asked to.

    Without it, long connections may pile up at one thread; with it, each costs a lock.
    """
    if proxy.balances_inbound:
        listener.connection_balance_config.exact_balance.SetInParent()
