"""Fixtures: clients for the server of $KUBECONFIG, and a namespace for each test module."""

import json
import time
import uuid

import pytest
from kubernetes import client, config, dynamic

PATIENCE_SECONDS = 20


@pytest.fixture(scope="session")
def api():
    config.load_kube_config()
    return client.ApiClient()


@pytest.fixture(scope="session")
def dyn(api):
    return dynamic.DynamicClient(api)


@pytest.fixture(scope="session")
def core(api):
    return client.CoreV1Api(api)


@pytest.fixture(scope="module")
def ns(core):
    name = f"py-{uuid.uuid4().hex[:8]}"
    core.create_namespace({"metadata": {"name": name}})
    yield name
    core.delete_namespace(name)


@pytest.fixture
def name():
    return f"x-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def soon():
    """Calls f until its result is true, and returns that result."""

    def wait(f):
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            found = f()
            if found or time.monotonic() > end:
                assert found, "not in time"
                return found
            time.sleep(0.05)

    return wait


def config_map(name, data=None, **metadata):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": data or {},
    }


def status_of(error):
    """The Status that a failed request was answered with."""
    return json.loads(error.value.body)


def raw(api, path, accept="application/json"):
    """The body of a GET as text."""
    response = api.call_api("GET", api.configuration.host + path, header_params={"Accept": accept})
    assert response.status == 200
    return response.read().decode()
