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


def image_of(dockerfile):
    """What the last stage of a Dockerfile offers: user, ports, programs and where copied folders lie."""
    with open(dockerfile, encoding="utf-8") as stream:
        stage = stream.read().replace("\\\n", " ").rpartition("\nFROM ")[2]
    words = [line.split() for line in stage.splitlines() if line and not line.startswith("#")]
    copies = [line[1:] for line in words if line[0] == "COPY"]
    return {
        "user": next(line[1] for line in words if line[0] == "USER"),
        "ports": {int(port) for line in words if line[0] == "EXPOSE" for port in line[1:]},
        "programs": {os.path.basename(source) for copy in copies for source in copy
                     if copy[-1] == "/usr/local/bin/" and source.startswith("/")},
        "folders": {copy[-1] for copy in copies},
    }


def flags_of(documents, path):
    """The lines of a .flags file in the ConfigMap that is mounted."""
    name = os.path.basename(path)
    texts = [document["data"][name] for document in documents
             if document["kind"] == "ConfigMap" and name in document["data"]]
    return dict(line[2:].split("=", 1) for line in texts[0].split()) if texts else {}


def image_errors(documents, image):
    """User, programs, ports and model of every container must be those of the image."""
    for document in documents:
        spec = document.get("spec", {}).get("template", {}).get("spec", {})
        for container in spec.get("containers", ()):
            where = f"{name_of(document)} container {container['name']}"
            program, flagfile = container["args"]
            flags = flags_of(documents, flagfile.partition("=")[2])
            ports = {port["containerPort"] for port in container["ports"]}
            listens = {int(flags.get(flag, ":0").rpartition(":")[2]) for flag in ("listen", "metrics_listen")}
            user = f"{spec['securityContext'].get('runAsUser')}:{spec['securityContext'].get('runAsGroup')}"
            for what, wanted, found in (
                    ("program", program, program if program in image["programs"] else sorted(image["programs"])),
                    ("ports that its flags open", listens, ports),
                    ("ports that the image exposes", ports, ports & image["ports"]),
                    ("user of the image", image["user"], user),
                    ("model in the image", flags.get("model"),
                     flags.get("model") if flags.get("model") in image["folders"] else sorted(image["folders"]))):
                if wanted != found:
                    yield f"{where}: {what}: wanted {wanted}, found {found}"


def errors_of(documents):
    found = list(image_errors(documents, image_of(os.path.join(ROOT, "deploy/docker/Dockerfile"))))
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
    "a port that nothing opens": lambda documents: first_container(documents)["ports"][0].update(containerPort=50052),
    "a program that the image lacks": lambda documents: first_container(documents).update(
        args=["baton-gateway", "--flagfile=/etc/baton/router.flags"]),
    "a model that the image lacks": lambda documents: next(
        document for document in documents if document["kind"] == "ConfigMap")["data"].update(
            {"router.flags": "--model=/models/other --listen=:50051 --metrics_listen=:51051"}),
    "another user": lambda documents: next(document for document in documents if document["kind"] == "StatefulSet")[
        "spec"]["template"]["spec"]["securityContext"].update(runAsUser=1000),
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
