"""What the supervisor hears of the responses that the relay gives to Envoy."""

from mesh_agent.envoy._listener_changes import ListenerChanges
from mesh_protos import type_urls


class Supervisor:
    def __init__(self) -> None:
        self.events: list[str] = []

    def listeners_changing(self) -> None:
        self.events.append("changing")

    def listeners_changed(self) -> None:
        self.events.append("changed")


def test_the_supervisor_hears_of_listeners_and_of_nothing_else() -> None:
    changes, supervisor = ListenerChanges(), Supervisor()
    changes.on_response(type_urls.LISTENER)  # Envoy is not there yet
    with changes.reporting_to(supervisor):
        for type_url in (type_urls.CLUSTER, type_urls.LISTENER):
            changes.on_response(type_url)
            changes.on_answer(type_url)
    changes.on_response(type_urls.LISTENER)  # Envoy has gone
    assert supervisor.events == ["changing", "changed"]
