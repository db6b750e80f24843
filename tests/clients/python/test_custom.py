"""Custom resources through the dynamic client."""

import uuid

import pytest
from conftest import status_of
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import NotFoundError, UnprocessibleEntityError


@pytest.fixture(scope="module")
def group():
    return f"{uuid.uuid4().hex[:8]}.example.com"


@pytest.fixture(scope="module")
def lamps(api, dyn, group, soon):
    def version(name, storage, properties):
        return {
            "name": name,
            "served": True,
            "storage": storage,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        }

    spec = {
        "type": "object",
        "required": ["watts"],
        "properties": {
            "watts": {"type": "integer", "maximum": 100},
            "colour": {"type": "string", "default": "white"},
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        },
        "x-kubernetes-validations": [
            {"rule": "self.watts != 13", "message": "thirteen is unlucky"},
            {"rule": "!has(oldSelf.watts) || self.watts >= oldSelf.watts", "message": "watts never shrink"},
        ],
    }
    status = {"type": "object", "properties": {"on": {"type": "boolean"}}}
    properties = {"spec": spec, "status": status}
    definitions = client.ApiextensionsV1Api(api)
    name = f"lamps.{group}"
    definitions.create_custom_resource_definition(
        {
            "metadata": {"name": name},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": "lamps", "singular": "lamp", "kind": "Lamp", "listKind": "LampList"},
                "versions": [version("v1", True, properties), version("v1beta1", False, properties)],
            },
        }
    )

    def established():
        found = definitions.read_custom_resource_definition(name)
        return any(c.type == "Established" and c.status == "True" for c in found.status.conditions or [])

    soon(established)
    yield dyn.resources.get(api_version=f"{group}/v1", kind="Lamp")
    definitions.delete_custom_resource_definition(name)
    soon(lambda: name not in [d.metadata.name for d in definitions.list_custom_resource_definition().items])


def lamp(group, name, **spec):
    return {"apiVersion": f"{group}/v1", "kind": "Lamp", "metadata": {"name": name}, "spec": spec}


def test_life(lamps, group, ns, name):
    made = lamps.create(body=lamp(group, name, watts=5, zzz=1), namespace=ns)
    assert made.spec.to_dict() == {"watts": 5, "colour": "white"}, "defaults are set and the unknown is dropped"
    changed = lamps.patch(
        body={"metadata": {"name": name}, "spec": {"watts": 6}}, namespace=ns,
        content_type="application/merge-patch+json",
    )
    assert changed.metadata.generation == 2
    on = {"metadata": {"name": name}, "status": {"on": True}, "spec": {"watts": 50}}
    lamps.status.patch(body=on, namespace=ns, content_type="application/merge-patch+json")
    found = lamps.get(name=name, namespace=ns)
    assert found.status.on is True and found.spec.watts == 6 and found.metadata.generation == 2
    lamps.delete(name=name, namespace=ns)
    with pytest.raises(NotFoundError):
        lamps.get(name=name, namespace=ns)


@pytest.mark.parametrize(
    "spec, message",
    [
        ({"watts": 101}, "spec.watts in body should be less than or equal to 100"),
        ({}, "spec.watts: Required value"),
        ({"watts": "x"}, "spec.watts in body must be of type integer"),
        ({"watts": 1, "tags": ["a", "a"]}, "spec.tags[1]: Duplicate value"),
        ({"watts": 13}, "thirteen is unlucky"),
    ],
)
def test_faults(lamps, group, ns, name, spec, message):
    with pytest.raises(UnprocessibleEntityError) as error:
        lamps.create(body=lamp(group, name, **spec), namespace=ns)
    assert message in error.value.summary()


def test_rules_about_the_old_object(lamps, group, ns, name):
    lamps.create(body=lamp(group, name, watts=5), namespace=ns)
    with pytest.raises(UnprocessibleEntityError) as error:
        lamps.patch(
            body={"metadata": {"name": name}, "spec": {"watts": 4}}, namespace=ns,
            content_type="application/merge-patch+json",
        )
    assert "watts never shrink" in error.value.summary()


def test_strict_validation(api, lamps, group, ns, name):
    with pytest.raises(ApiException) as error:
        client.CustomObjectsApi(api).create_namespaced_custom_object(
            group, "v1", ns, "lamps", lamp(group, name, watts=1, zzz=1), field_validation="Strict"
        )
    assert status_of(error)["message"].endswith('strict decoding error: unknown field "spec.zzz"')


def test_each_version_reads_what_another_wrote(dyn, lamps, group, ns, name):
    lamps.create(body=lamp(group, name, watts=5), namespace=ns)
    beta = dyn.resources.get(api_version=f"{group}/v1beta1", kind="Lamp")
    found = beta.get(name=name, namespace=ns)
    assert found.apiVersion == f"{group}/v1beta1" and found.spec.watts == 5
