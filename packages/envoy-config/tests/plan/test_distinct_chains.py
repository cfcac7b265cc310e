"""Chains of one listener never take the same connections, which Envoy refuses."""

from hypothesis import given
from hypothesis import strategies as st

from envoy_config.plan.l4._chains import TcpChain, connections, distinct, to_cluster

chains = st.lists(
    st.builds(
        lambda cluster, names, ranges: TcpChain(
            target=to_cluster(cluster), server_names=tuple(names), prefixes=tuple(ranges)
        ),
        st.sampled_from(("one", "two", "three")),
        st.lists(st.sampled_from(("a.b", "*.b", "c.d")), unique=True, max_size=2),
        st.lists(st.sampled_from(("10.0.0.0/8", "10.1.0.0/16")), unique=True, max_size=2),
    ),
    max_size=6,
)


@given(chains=chains)
def test_each_connection_is_taken_once_by_the_first_chain_that_wants_it(
    chains: list[TcpChain],
) -> None:
    taken = list(distinct(chains))

    pairs = [(pair, each.target) for each in taken for pair in connections(each)]
    assert len(pairs) == len({pair for pair, _ in pairs})
    first = {pair: each.target for each in reversed(chains) for pair in connections(each)}
    assert dict(pairs) == first
