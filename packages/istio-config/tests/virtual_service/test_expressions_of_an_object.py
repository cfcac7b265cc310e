"""The regular expressions of one VirtualService: too many of them are a mistake."""

from documents import document
from istio_config import read_object
from mesh_configfile import read_documents

LARGE = ".{0,200}"
"""Two of them are less than an object may have; their program is 4 000 instructions."""


def routes(*fields: str) -> str:
    listed = ", ".join(f"{{{each}, route: [{{destination: {{host: r}}}}]}}" for each in fields)
    return document("VirtualService", "v", f"{{hosts: [r], http: [{listed}]}}")


def test_an_object_of_too_many_expressions_is_a_mistake_at_the_first_too_many() -> None:
    text = routes(*(f"match: [{{uri: {{regex: '/{each}{LARGE}'}}}}]" for each in range(20)))
    documents, _ = read_documents(text, file="mesh.yaml")

    (problem,) = read_object(documents[0]).problems

    assert "regular expressions of the object are too much for Envoy" in problem.message
    assert problem.field == "spec.http[15].match[0].uri.regex"


def test_what_is_done_on_a_match_counts_for_each_match() -> None:
    rewrite = f"uriRegexRewrite: {{match: '{LARGE}', rewrite: /x}}"
    matches = ", ".join(f"{{uri: {{exact: /{each}}}}}" for each in range(40))
    text = routes(f"match: [{matches}], rewrite: {{{rewrite}}}")
    documents, _ = read_documents(text, file="mesh.yaml")

    (problem,) = read_object(documents[0]).problems

    assert problem.field == "spec.http[0].rewrite.uriRegexRewrite.match"
