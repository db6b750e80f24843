"""The dynamic client: discovery, create, read, update, delete, patches."""

import pytest
from conftest import config_map, status_of
from kubernetes.dynamic.exceptions import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    ResourceNotFoundError,
    UnprocessibleEntityError,
)

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON = "application/json-patch+json"


@pytest.fixture(scope="module")
def maps(dyn):
    return dyn.resources.get(api_version="v1", kind="ConfigMap")


@pytest.fixture(scope="module")
def deployments(dyn):
    return dyn.resources.get(api_version="apps/v1", kind="Deployment")


def deployment(name, image="img:1"):
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    }


def test_discovery(dyn):
    pods = dyn.resources.get(api_version="v1", kind="Pod")
    assert pods.namespaced and pods.name == "pods" and "watch" in pods.verbs
    assert {"status", "log", "exec", "eviction", "binding"} <= set(pods.subresources)
    nodes = dyn.resources.get(api_version="v1", kind="Node")
    assert not nodes.namespaced
    with pytest.raises(ResourceNotFoundError):
        dyn.resources.get(api_version="v1", kind="Unicorn")


def test_every_kind_can_be_listed(dyn):
    listed = 0
    for resource in dyn.resources.search():
        if "list" in (getattr(resource, "verbs", None) or []) and "/" not in resource.name:
            found = dyn.get(resource, limit=1)
            assert found.kind.endswith("List"), resource
            listed += 1
    assert listed > 50


def test_life_of_an_object(maps, ns, name):
    made = maps.create(body=config_map(name, {"a": "1"}), namespace=ns)
    assert made.metadata.uid and made.metadata.resourceVersion and made.metadata.creationTimestamp
    assert made.metadata.namespace == ns and made.data.a == "1"

    got = maps.get(name=name, namespace=ns)
    assert got.to_dict() == made.to_dict()

    changed = got.to_dict()
    changed["data"] = {"b": "2"}
    replaced = maps.replace(body=changed, namespace=ns)
    assert replaced.data.to_dict() == {"b": "2"}
    assert int(replaced.metadata.resourceVersion) > int(made.metadata.resourceVersion)
    with pytest.raises(ConflictError):
        maps.replace(body=changed, namespace=ns)  # its version is the old one

    gone = maps.delete(name=name, namespace=ns)
    assert gone.status == "Success" and gone.details.name == name and gone.details.uid == made.metadata.uid
    with pytest.raises(NotFoundError) as error:
        maps.get(name=name, namespace=ns)
    assert error.value.summary() == f'configmaps "{name}" not found'


def test_creating_twice(maps, ns, name):
    maps.create(body=config_map(name), namespace=ns)
    with pytest.raises(ConflictError) as error:
        maps.create(body=config_map(name), namespace=ns)
    assert status_of(error)["reason"] == "AlreadyExists"


@pytest.mark.parametrize(
    "change, field",
    [
        ({"metadata": {"name": "UPPER"}}, "metadata.name"),
        ({"metadata": {"labels": {"a b": "c"}}}, "metadata.labels"),
        ({"metadata": {"labels": {"a": "c d"}}}, "metadata.labels"),
        ({"metadata": {"annotations": {"a b": "c"}}}, "metadata.annotations"),
        ({"metadata": {"finalizers": ["no slash"]}}, "metadata.finalizers"),
        ({"data": {"a/b": "c"}}, "data[a/b]"),
        ({"data": {"a": "b"}, "binaryData": {"a": "Yg=="}}, "data[a]"),
    ],
)
def test_faults_name_their_field(maps, ns, name, change, field):
    body = config_map(name)
    body["metadata"].update(change.pop("metadata", {}))
    body.update(change)
    with pytest.raises(UnprocessibleEntityError) as error:
        maps.create(body=body, namespace=ns)
    assert field in [cause["field"] for cause in status_of(error)["details"]["causes"]]


def test_merge_patch(maps, ns, name):
    maps.create(body=config_map(name, {"a": "1", "b": "1"}), namespace=ns)
    patched = maps.patch(
        body={"metadata": {"name": name}, "data": {"a": None, "c": "3"}}, namespace=ns, content_type=MERGE
    )
    assert patched.data.to_dict() == {"b": "1", "c": "3"}
    again = maps.patch(body={"metadata": {"name": name}, "data": {"c": "3"}}, namespace=ns, content_type=MERGE)
    assert again.metadata.resourceVersion == patched.metadata.resourceVersion, "nothing changed, nothing is written"


def test_json_patch(maps, ns, name):
    maps.create(body=config_map(name, {"a": "1"}), namespace=ns)
    body = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "copy", "from": "/data/a", "path": "/data/b"},
        {"op": "move", "from": "/data/a", "path": "/data/c"},
        {"op": "add", "path": "/data/x~1y", "value": "no"},
        {"op": "remove", "path": "/data/x~1y"},
    ]
    patched = maps.patch(body=body, name=name, namespace=ns, content_type=JSON)
    assert patched.data.to_dict() == {"b": "1", "c": "1"}
    with pytest.raises(UnprocessibleEntityError):
        maps.patch(
            body=[{"op": "test", "path": "/data/b", "value": "2"}], name=name, namespace=ns, content_type=JSON
        )


def test_strategic_merge_patch(deployments, ns, name):
    deployments.create(body=deployment(name), namespace=ns)

    def patch(containers):
        body = {"metadata": {"name": name}, "spec": {"template": {"spec": {"containers": containers}}}}
        answer = deployments.patch(body=body, namespace=ns, content_type=STRATEGIC)
        return [(c.name, c.image) for c in answer.spec.template.spec.containers]

    assert set(patch([{"name": "side", "image": "img:1"}])) == {("main", "img:1"), ("side", "img:1")}
    assert ("main", "img:2") in patch([{"name": "main", "image": "img:2"}])
    assert patch([{"name": "side", "$patch": "delete"}]) == [("main", "img:2")]
    assert patch([{"name": "only", "image": "img:3"}, {"$patch": "replace"}]) == [("only", "img:3")]


def test_a_patch_with_an_old_version(maps, ns, name):
    made = maps.create(body=config_map(name, {"a": "1"}), namespace=ns)
    maps.patch(body={"metadata": {"name": name}, "data": {"a": "2"}}, namespace=ns, content_type=MERGE)
    old = {"metadata": {"name": name, "resourceVersion": made.metadata.resourceVersion}, "data": {"a": "3"}}
    with pytest.raises(ConflictError):
        maps.patch(body=old, namespace=ns, content_type=MERGE)


def test_defaults_and_generation(deployments, ns, name):
    made = deployments.create(body=deployment(name), namespace=ns)
    assert made.metadata.generation == 1
    assert made.spec.strategy.rollingUpdate.maxSurge == "25%" and made.spec.revisionHistoryLimit == 10
    assert made.spec.template.spec.containers[0].imagePullPolicy == "IfNotPresent"
    labelled = deployments.patch(
        body={"metadata": {"name": name, "labels": {"x": "y"}}}, namespace=ns, content_type=MERGE
    )
    assert labelled.metadata.generation == 1, "labels are no part of what is wanted"
    scaled = deployments.patch(
        body={"metadata": {"name": name}, "spec": {"paused": True}}, namespace=ns, content_type=MERGE
    )
    assert scaled.metadata.generation == 2


def test_scale(deployments, ns, name):
    deployments.create(body=deployment(name), namespace=ns)
    scale = deployments.scale.get(name=name, namespace=ns)
    assert scale.kind == "Scale" and scale.spec.to_dict() == {} or scale.spec.replicas == 0
    deployments.scale.patch(
        body={"metadata": {"name": name}, "spec": {"replicas": 1}}, namespace=ns, content_type=MERGE
    )
    assert deployments.get(name=name, namespace=ns).spec.replicas == 1


def test_status_is_apart(deployments, ns, name):
    deployments.create(body={**deployment(name), "status": {"replicas": 7}}, namespace=ns)
    deployments.status.patch(
        body={"metadata": {"name": name}, "spec": {"paused": True}, "status": {"collisionCount": 3}},
        namespace=ns,
        content_type=MERGE,
    )
    found = deployments.get(name=name, namespace=ns)
    assert not found.spec.paused and found.status.collisionCount == 3 and found.status.replicas != 7


def test_finalizers_hold_an_object(maps, ns, name):
    maps.create(body=config_map(name, finalizers=["example.com/hold"]), namespace=ns)
    maps.delete(name=name, namespace=ns)
    held = maps.get(name=name, namespace=ns)
    assert held.metadata.deletionTimestamp and held.metadata.deletionGracePeriodSeconds == 0
    with pytest.raises(UnprocessibleEntityError):
        maps.patch(
            body={"metadata": {"name": name, "finalizers": ["example.com/hold", "example.com/more"]}},
            namespace=ns,
            content_type=MERGE,
        )
    maps.patch(body={"metadata": {"name": name, "finalizers": None}}, namespace=ns, content_type=MERGE)
    with pytest.raises(NotFoundError):
        maps.get(name=name, namespace=ns)


def test_delete_with_preconditions(maps, ns, name):
    made = maps.create(body=config_map(name), namespace=ns)
    with pytest.raises(ConflictError):
        maps.delete(name=name, namespace=ns, body={"preconditions": {"uid": "another"}})
    maps.delete(name=name, namespace=ns, body={"preconditions": {"uid": made.metadata.uid}})


def test_dry_run_writes_nothing(maps, ns, name):
    before = maps.get(namespace=ns).metadata.resourceVersion
    dry = maps.create(body=config_map(name), namespace=ns, dry_run="All")
    assert dry.metadata.uid
    assert name not in [item.metadata.name for item in maps.get(namespace=ns).items]
    assert int(before) <= int(maps.get(namespace=ns).metadata.resourceVersion)


def test_generated_names(maps, ns):
    body = config_map("")
    body["metadata"] = {"generateName": "made-"}
    names = {maps.create(body=body, namespace=ns).metadata.name for _ in range(10)}
    assert len(names) == 10 and all(n.startswith("made-") and len(n) == 10 for n in names)


def test_delete_collection(maps, ns):
    for i in range(5):
        maps.create(body=config_map(f"many-{i}", labels={"set": "many", "i": str(i)}), namespace=ns)
    maps.delete(namespace=ns, label_selector="set=many,i notin (3)")
    assert [m.metadata.name for m in maps.get(namespace=ns, label_selector="set=many").items] == ["many-3"]


def test_objects_of_a_namespace_that_goes(dyn, core, maps, soon, name):
    core.create_namespace({"metadata": {"name": name}})
    maps.create(body=config_map("inside", finalizers=["example.com/hold"]), namespace=name)
    core.delete_namespace(name)
    with pytest.raises(ForbiddenError) as error:
        maps.create(body=config_map("late"), namespace=name)
    assert "because it is being terminated" in error.value.summary()
    soon(lambda: maps.get(name="inside", namespace=name).metadata.deletionTimestamp)
    maps.patch(
        body={"metadata": {"name": "inside", "finalizers": None}}, namespace=name, content_type=MERGE
    )
    soon(lambda: name not in [n.metadata.name for n in core.list_namespace().items])
