"""The questions that a running mesh answers, as lines of JSON on a socket.

One connection has one question and one answer, a line each.
"""

import msgspec

SOCKET = "control"
"""The socket's name in its folder."""
MOST_BYTES = 4 * 1024 * 1024
"""Of a line: the state of some hundred workloads has a twentieth of it."""


class StatusQuestion(msgspec.Struct, frozen=True, tag="status"):
    """Asks for the state of the mesh; the answer is a `MeshStatus`."""


class EnvironmentQuestion(msgspec.Struct, frozen=True, tag="environment", kw_only=True):
    """Asks for the variables of a workload's program; the answer is an `Environment`."""

    workload: str


class RouteQuestion(msgspec.Struct, frozen=True, tag="route", kw_only=True):
    """Asks where a workload's request to a URL goes; the answer is a `Route`."""

    workload: str
    url: str


class NamespacesQuestion(msgspec.Struct, frozen=True, tag="namespaces"):
    """Asks for the namespaces that the mesh is in; the answer is `Namespaces`.

    With it come their descriptors: process ids may mean others where the asker is.
    """


class StopQuestion(msgspec.Struct, frozen=True, tag="stop"):
    """Asks for the stop.

    The answer comes at once, and the connection ends when the mesh has stopped.
    """


Question = StatusQuestion | EnvironmentQuestion | RouteQuestion | NamespacesQuestion | StopQuestion


class Namespaces(msgspec.Struct, frozen=True, kw_only=True):
    """The answer about namespaces: those whose descriptors come with it, in this order.

    None if the workloads have no networks of their own.
    """

    kinds: tuple[str, ...] = ()


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The answer about a program's environment: the variables that the mesh and its file set.

    network: the path of the namespace that is its network, as the mesh's process sees it.
    """

    variables: dict[str, str]
    network: str | None = None


class Refusal(msgspec.Struct, frozen=True, tag="refusal", kw_only=True):
    """The sentence that comes in place of an answer."""

    sentence: str


class Answered(msgspec.Struct, frozen=True, tag="answer", kw_only=True):
    """An answer, whose type depends on the question."""

    answer: msgspec.Raw = msgspec.Raw(b"null")
