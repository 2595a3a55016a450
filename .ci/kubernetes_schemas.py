"""JSON schemas for kubeconform, out of Kubernetes' own OpenAPI and resource definitions of others.

`python kubernetes_schemas.py FOLDER SWAGGER_JSON CRD_YAML…` writes `FOLDER/KIND-GROUP-VERSION.json`, in which a field
that nobody has defined is an error. kubeconform would else fetch such files from the network.
"""  # a script

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

SHARED = "definitions.json"
NUMBER_OR_TEXT = frozenset(
    {"io.k8s.apimachinery.pkg.util.intstr.IntOrString", "io.k8s.apimachinery.pkg.api.resource.Quantity"}
)


def strict(schema: Any) -> Any:
    """The schema with unknown fields refused where fields are known, and with what OpenAPI says otherwise than JSON."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        return {"type": ["integer", "number", "string"]}
    named = {name: strict(value) for name, value in schema.get("properties", {}).items()}
    changed = {name: strict(value) for name, value in schema.items() if name != "properties"}
    if named:
        changed["properties"] = named
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            changed.setdefault("additionalProperties", False)
    return changed


def kubernetes(swagger: dict[str, Any]) -> dict[str, Any]:
    """Schemas of every kind, by file name."""
    definitions = strict(swagger["definitions"])
    for name in NUMBER_OR_TEXT:
        definitions[name] = {"type": ["integer", "number", "string"]}
    schemas: dict[str, Any] = {SHARED: {"definitions": definitions}}
    for name, definition in definitions.items():
        for kind in definition.get("x-kubernetes-group-version-kind", []):
            file = file_name(kind["kind"], kind["group"], kind["version"])
            schemas[file] = {"$ref": f"{SHARED}#/definitions/{name}"}
    return schemas


def custom(definition: dict[str, Any]) -> dict[str, Any]:
    """The same of a CustomResourceDefinition, whose `metadata` is described elsewhere."""
    spec = definition["spec"]
    schemas = {}
    for version in spec["versions"]:
        schema = strict(version["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"type": "object"}
        schemas[file_name(spec["names"]["kind"], spec["group"], version["name"])] = schema
    return schemas


def file_name(kind: str, group: str, version: str) -> str:
    """As kubeconform's template `{{.ResourceKind}}{{.KindSuffix}}.json` has it."""
    return "-".join(part for part in (kind.lower(), group.partition(".")[0], version) if part) + ".json"


def main(arguments: list[str]) -> None:
    """Write all of them."""
    folder, swagger, *definitions = map(Path, arguments)
    folder.mkdir(parents=True, exist_ok=True)
    schemas = kubernetes(json.loads(swagger.read_text(encoding="utf-8")))
    for definition in definitions:
        schemas |= custom(yaml.safe_load(definition.read_text(encoding="utf-8")))
    for name, schema in schemas.items():
        (folder / name).write_text(json.dumps(schema), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
