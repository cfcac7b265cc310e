"""What an Envoy counts of each endpoint."""

from mesh_local.observation._envoy_clusters import EndpointUse, read_endpoint_use


def test_counters_of_endpoints_are_read_and_other_endpoints_are_left_out() -> None:
    stats = [
        {"name": "cx_active", "value": "3"},
        {"name": "rq_active", "value": "1"},
        {"name": "rq_total", "value": "7"},
    ]
    page = {
        "cluster_statuses": [
            {
                "name": "inbound|80||",
                "host_statuses": [
                    {
                        "address": {"socket_address": {"address": "127.64.1.2", "port_value": 80}},
                        "stats": stats,
                    },
                    {
                        "address": {"socket_address": {"address": "127.64.2.2", "port_value": 80}},
                        "stats": [{"name": "rq_active"}],
                    },
                    {"address": {"pipe": {"path": "/s"}}, "stats": stats},
                ],
            },
            {"name": "agent"},
        ]
    }
    assert [*read_endpoint_use(page)] == [
        EndpointUse("inbound|80||", "127.64.1.2", 80, active=1, total=7),
        EndpointUse("inbound|80||", "127.64.2.2", 80, active=0, total=0),
    ]
    assert [*read_endpoint_use({})] == []
