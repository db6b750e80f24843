"""Server-side apply through the dynamic client."""

import pytest
from conftest import config_map, status_of
from kubernetes.dynamic.exceptions import ConflictError


@pytest.fixture(scope="module")
def maps(dyn):
    return dyn.resources.get(api_version="v1", kind="ConfigMap")


@pytest.fixture
def apply(dyn, maps, ns):
    def call(name, data, manager, **options):
        return dyn.server_side_apply(
            maps, body=config_map(name, data), namespace=ns, field_manager=manager, **options
        )

    return call


def owners(found):
    return {
        (entry["manager"], entry["operation"]): sorted(entry["fieldsV1"].get("f:data", {}))
        for entry in found.to_dict()["metadata"]["managedFields"]
    }


def test_apply_creates_then_keeps_still(apply, name):
    made = apply(name, {"a": "1"}, "one")
    again = apply(name, {"a": "1"}, "one")
    assert again.metadata.resourceVersion == made.metadata.resourceVersion
    assert owners(again) == {("one", "Apply"): ["f:a"]}


def test_two_managers_share_an_object(apply, name):
    apply(name, {"a": "1"}, "one")
    both = apply(name, {"b": "1"}, "two")
    assert both.data.to_dict() == {"a": "1", "b": "1"}
    assert owners(both) == {("one", "Apply"): ["f:a"], ("two", "Apply"): ["f:b"]}
    left = apply(name, {}, "two")
    assert left.data.to_dict() == {"a": "1"}


def test_conflict_then_force(apply, name):
    apply(name, {"a": "1", "b": "1"}, "one")
    with pytest.raises(ConflictError) as error:
        apply(name, {"a": "2"}, "two")
    (cause,) = status_of(error)["details"]["causes"]
    assert cause == {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"}
    forced = apply(name, {"a": "2"}, "two", force_conflicts=True)
    assert forced.data.to_dict() == {"a": "2", "b": "1"}
    assert owners(forced) == {("one", "Apply"): ["f:b"], ("two", "Apply"): ["f:a"]}


def test_an_update_takes_what_it_changes(apply, maps, ns, name):
    apply(name, {"a": "1", "b": "1"}, "one")
    maps.patch(
        body={"metadata": {"name": name}, "data": {"a": "9"}}, namespace=ns, field_manager="hand",
        content_type="application/merge-patch+json",
    )
    found = maps.get(name=name, namespace=ns)
    assert owners(found) == {("one", "Apply"): ["f:b"], ("hand", "Update"): ["f:a"]}


def test_dry_run(apply, maps, ns, name):
    apply(name, {"a": "1"}, "one")
    dry = apply(name, {"a": "2"}, "one", dry_run="All")
    assert dry.data.a == "2" and maps.get(name=name, namespace=ns).data.a == "1"


def test_managed_fields_can_be_cleared(apply, maps, ns, name):
    apply(name, {"a": "1"}, "one")
    maps.patch(
        body={"metadata": {"name": name, "managedFields": [{}]}}, namespace=ns,
        content_type="application/merge-patch+json",
    )
    assert not maps.get(name=name, namespace=ns).metadata.managedFields
