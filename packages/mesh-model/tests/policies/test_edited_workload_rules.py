"""Rules for workloads after edits: those that were not edited are the same objects."""

from pathlib import Path

from documents import WEB, entry
from mesh_model import Facts, RuleName, build_model
from models import EditedFolder


def policy(name: str, port: int) -> str:
    return (
        "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\n"
        f"metadata: {{name: {name}, namespace: a}}\n"
        f"spec: {{rules: [{{to: [{{operation: {{ports: ['{port}']}}}}]}}]}}\n"
    )


def named(name: str) -> RuleName:
    return "AuthorizationPolicy", "a", name


def test_rules_stay_the_same_objects_until_they_are_edited(tmp_path: Path) -> None:
    (tmp_path / "policies.yaml").write_text(f"{policy('one', 1)}---\n{policy('two', 2)}")
    (tmp_path / "web.yaml").write_text(entry("web", WEB))
    folder = EditedFolder(tmp_path)
    first = build_model(Facts(snapshot=folder.load()))

    (tmp_path / "web.yaml").write_text(entry("web", WEB.replace("8080", "8081")))
    second = build_model(Facts(snapshot=folder.load()), before=first)
    assert second.services != first.services
    assert second.workload_rules is first.workload_rules

    (tmp_path / "policies.yaml").write_text(f"# moved\n{policy('one', 1)}---\n{policy('two', 2)}")
    third = build_model(Facts(snapshot=folder.load()), before=second)
    assert third.workload_rules.is_same(first.workload_rules)
    one = third.workload_rules.by_name[named("one")]
    assert one is first.workload_rules.by_name[named("one")]
    places = [each.workload_rules.object_of(one).line for each in (first, third)]
    assert places == [1, 2]

    (tmp_path / "policies.yaml").write_text(f"{policy('one', 1)}---\n{policy('two', 3)}")
    fourth = build_model(Facts(snapshot=folder.load()), before=third).workload_rules
    before, after = first.workload_rules.by_name, fourth.by_name
    assert after[named("one")] is before[named("one")]
    assert after[named("two")] is not before[named("two")]
    assert first.workload_rules.differing(fourth) == {named("two")}
