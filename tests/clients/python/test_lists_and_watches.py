"""Lists, selectors, pages, watches."""

import json
import threading

import pytest
from conftest import config_map, raw
from kubernetes import watch
from kubernetes.client.exceptions import ApiException

COUNT = 12


@pytest.fixture(scope="module")
def filled(core, ns):
    for i in range(COUNT):
        labels = {"parity": "odd" if i % 2 else "even", "i": str(i)}
        core.create_namespaced_config_map(ns, config_map(f"m-{i:02}", {"i": str(i)}, labels=labels))
    return ns


def names(found):
    return [item.metadata.name for item in found.items if item.metadata.name.startswith("m-")]


@pytest.mark.parametrize(
    "selector, expected",
    [
        ("parity=odd,i in (1,2,3)", ["m-01", "m-03"]),
        ("parity!=odd,i notin (0,2,4,6)", ["m-08", "m-10"]),
        ("!parity", []),
        ("parity,i=5", ["m-05"]),
        ("i==7", ["m-07"]),
    ],
)
def test_label_selectors(core, filled, selector, expected):
    found = names(core.list_namespaced_config_map(filled, label_selector=selector))
    assert [n for n in found if n in expected] == expected and len(found) == len(expected)


def test_field_selectors(core, filled):
    assert names(core.list_namespaced_config_map(filled, field_selector="metadata.name=m-03")) == ["m-03"]
    everywhere = core.list_config_map_for_all_namespaces(field_selector=f"metadata.namespace={filled}")
    assert len(names(everywhere)) == COUNT
    assert len(names(core.list_namespaced_config_map(filled, field_selector="metadata.name!=m-03"))) == COUNT - 1


@pytest.mark.parametrize("query", [{"label_selector": "a in ("}, {"field_selector": "data.i=1"}, {"_continue": "x"}])
def test_queries_that_cannot_be(core, filled, query):
    with pytest.raises(ApiException) as error:
        core.list_namespaced_config_map(filled, **query)
    assert error.value.status == 400 and json.loads(error.value.body)["reason"] == "BadRequest"


def test_pages_are_one_moment(core, filled):
    first = core.list_namespaced_config_map(filled, label_selector="parity", limit=5)
    core.create_namespaced_config_map(filled, config_map("m-zz", labels={"parity": "late"}))
    seen, token = names(first), first.metadata._continue
    while token:
        page = core.list_namespaced_config_map(filled, label_selector="parity", limit=5, _continue=token)
        assert page.metadata.resource_version == first.metadata.resource_version
        seen, token = seen + names(page), page.metadata._continue
    core.delete_namespaced_config_map("m-zz", filled)
    assert seen == [f"m-{i:02}" for i in range(COUNT)]


def test_lists_at_a_version(core, filled):
    old = core.list_namespaced_config_map(filled)
    core.create_namespaced_config_map(filled, config_map("m-new"))
    version = old.metadata.resource_version
    exact = core.list_namespaced_config_map(filled, resource_version=version, resource_version_match="Exact")
    assert "m-new" not in names(exact)
    fresh = core.list_namespaced_config_map(filled, resource_version=version, resource_version_match="NotOlderThan")
    assert "m-new" in names(fresh)
    with pytest.raises(ApiException) as error:
        core.list_namespaced_config_map(filled, resource_version=str(2**62))
    assert error.value.status == 504
    core.delete_namespaced_config_map("m-new", filled)


def events_from(core, ns, version, count, **query):
    found = []
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, ns, resource_version=version, timeout_seconds=20, **query
    )
    for event in stream:
        if event["type"] != "BOOKMARK":
            found.append((event["type"], event["object"].metadata.name, event["object"].metadata.resource_version))
        if len(found) == count:
            break
    return found


def test_a_watch_from_a_version_misses_nothing(core, filled):
    start = core.list_namespaced_config_map(filled).metadata.resource_version
    core.create_namespaced_config_map(filled, config_map("w", {"a": "1"}))
    core.patch_namespaced_config_map("w", filled, {"data": {"a": "2"}})
    core.delete_namespaced_config_map("w", filled)
    found = events_from(core, filled, start, 3)
    assert [kind for kind, _, _ in found] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [int(version) for _, _, version in found]
    assert versions == sorted(set(versions)) and versions[0] > int(start)


def test_a_watch_without_version_begins_with_what_is_there(core, filled):
    found = events_from(core, filled, None, COUNT, label_selector="parity")
    assert {kind for kind, _, _ in found} == {"ADDED"} and len({name for _, name, _ in found}) == COUNT


def test_a_watch_of_a_selection(core, filled):
    start = core.list_namespaced_config_map(filled).metadata.resource_version
    core.create_namespaced_config_map(filled, config_map("s", labels={"in": "no"}))
    for value in ["yes", "no", "yes"]:
        core.patch_namespaced_config_map("s", filled, {"metadata": {"labels": {"in": value}}})
    core.delete_namespaced_config_map("s", filled)
    found = events_from(core, filled, start, 4, label_selector="in=yes")
    assert [kind for kind, _, _ in found] == ["ADDED", "DELETED", "ADDED", "DELETED"]


def test_a_live_watch(core, filled):
    start = core.list_namespaced_config_map(filled).metadata.resource_version
    found = []
    thread = threading.Thread(target=lambda: found.extend(events_from(core, filled, start, 20)))
    thread.start()
    for i in range(10):
        core.create_namespaced_config_map(filled, config_map(f"live-{i}"))
        core.delete_namespaced_config_map(f"live-{i}", filled)
    thread.join(20)
    assert [(kind, name) for kind, name, _ in found] == [
        (kind, f"live-{i}") for i in range(10) for kind in ("ADDED", "DELETED")
    ]


def raw_watch(api, path):
    """The events of a raw watch until the server ends it."""
    return [json.loads(line) for line in raw(api, path).splitlines()]


def test_initial_events_end_with_a_bookmark(api, filled):
    query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    events = raw_watch(api, f"/api/v1/namespaces/{filled}/configmaps?{query}&labelSelector=parity&timeoutSeconds=1")
    assert [e["type"] for e in events[: COUNT + 1]] == ["ADDED"] * COUNT + ["BOOKMARK"]
    bookmark = events[COUNT]["object"]
    assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    newest = max(int(e["object"]["metadata"]["resourceVersion"]) for e in events[:COUNT])
    assert int(bookmark["metadata"]["resourceVersion"]) >= newest


def test_a_watch_ends_at_its_timeout(api, filled):
    assert raw_watch(api, f"/api/v1/namespaces/{filled}/secrets?watch=true&timeoutSeconds=1") == []


def test_tables(api, filled):
    path = f"/api/v1/namespaces/{filled}/configmaps?labelSelector=i%3D3"
    table = json.loads(raw(api, path, "application/json;as=Table;g=meta.k8s.io;v=v1"))
    assert table["kind"] == "Table" and [c["name"] for c in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    (row,) = table["rows"]
    assert row["cells"][:2] == ["m-03", 1] and row["object"]["kind"] == "PartialObjectMetadata"


def test_metadata_only(api, filled):
    path = f"/api/v1/namespaces/{filled}/configmaps"
    found = json.loads(raw(api, path, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"))
    assert found["kind"] == "PartialObjectMetadataList"
    assert all("data" not in item and item["metadata"]["name"] for item in found["items"])
