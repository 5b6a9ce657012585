#!/usr/bin/env python3
"""Builds the kustomize bases and overlays of deploy/k8s and checks the result: against the schemas of Kubernetes, with
unknown fields refused, and against what every container of ours must have."""

import os
import shutil
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
KUBERNETES_VERSIONS = ("1.31", "1.34")
SKIPPED = 77

try:
    import kubernetes_validate
    import yaml
except ImportError as missing:
    print(f"skipped: {missing.name} is not installed; ./run-tests installs it from PyPI")
    sys.exit(SKIPPED)


def kustomizations():
    for folder, _, names in sorted(os.walk(os.path.join(ROOT, "deploy/k8s"))):
        if "kustomization.yaml" in names:
            yield folder


def build(folder):
    result = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=False)
    if result.returncode:
        raise ValueError(result.stderr.strip())
    return [document for document in yaml.safe_load_all(result.stdout) if document]


def name_of(document):
    return f"{document['kind']}/{document['metadata']['name']}"


def schema_errors(document):
    for version in KUBERNETES_VERSIONS:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            place = ".".join(str(part) for part in error.path)
            yield f"{name_of(document)} at {place}: {error.message} (Kubernetes {version})"


def container_errors(where, container):
    for field in ("startupProbe", "readinessProbe", "livenessProbe", "resources", "lifecycle", "securityContext"):
        if field not in container:
            yield f"{where}: has no {field}"
    security = container.get("securityContext", {})
    wanted = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    for field, value in wanted.items():
        if security.get(field) != value:
            yield f"{where}: securityContext.{field} wanted {value}, found {security.get(field)}"


def pod_errors(document):
    """What the restricted Pod Security Standard and a clean drain need."""
    if document["kind"] not in ("Deployment", "StatefulSet", "DaemonSet"):
        return
    where, spec = name_of(document), document["spec"]["template"]["spec"]
    security = spec.get("securityContext", {})
    if not security.get("runAsNonRoot") or security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield f"{where}: wants runAsNonRoot and seccompProfile RuntimeDefault, found {security}"
    if spec.get("automountServiceAccountToken") is not False:
        yield f"{where}: wants automountServiceAccountToken: false"
    if spec.get("terminationGracePeriodSeconds", 30) <= 30:
        yield f"{where}: terminationGracePeriodSeconds must cover preStop and the drain"
    for container in spec["containers"]:
        yield from container_errors(f"{where} container {container['name']}", container)


def selector_errors(documents):
    """Every selector must match the pods that it means to."""
    pods = [document["spec"]["template"]["metadata"]["labels"] for document in documents
            if "template" in document.get("spec", {})]
    for document in documents:
        selector = document.get("spec", {}).get("selector", document.get("spec", {}).get("podSelector"))
        if selector is None:
            continue
        labels = selector.get("matchLabels", {}) if document["kind"] != "Service" else selector
        if not labels or not any(labels.items() <= pod.items() for pod in pods):
            yield f"{name_of(document)}: selects no pod with {labels}"


def errors_of(documents):
    found = []
    for document in documents:
        found += schema_errors(document)
        found += pod_errors(document)
    return found + list(selector_errors(documents))


def broken(documents, change):
    """A deep copy of the documents after `change`, for the checks of the checks."""
    copies = yaml.safe_load(yaml.safe_dump(documents))
    change(copies)
    return copies


def first_container(documents):
    return next(document for document in documents if document["kind"] == "Deployment")["spec"]["template"]["spec"][
        "containers"][0]


MUTATIONS = {
    "an unknown field": lambda documents: first_container(documents).update(bogusField=1),
    "a port that is no number": lambda documents: first_container(documents)["ports"][0].update(containerPort="x"),
    "a missing probe": lambda documents: first_container(documents).pop("readinessProbe"),
    "a writable root": lambda documents: first_container(documents)["securityContext"].pop("readOnlyRootFilesystem"),
    "a selector that matches nothing": lambda documents: next(
        document for document in documents if document["kind"] == "Service")["spec"].update(selector={"a": "b"}),
}


def main():
    if shutil.which("kubectl") is None:
        print("skipped: kubectl is not installed")
        return SKIPPED
    failures, built = [], 0
    for folder in kustomizations():
        documents = build(folder)
        built += len(documents)
        failures += [f"{os.path.relpath(folder, ROOT)}: {error}" for error in errors_of(documents)]
        for what, change in MUTATIONS.items():
            if not errors_of(broken(documents, change)):
                failures.append(f"{os.path.relpath(folder, ROOT)}: the check accepts {what}")
    print("\n".join(failures))
    print(f"{built} objects, {len(failures)} errors")
    return 1 if failures or not built else 0


if __name__ == "__main__":
    sys.exit(main())
