"""The software bill of materials of the binary, in CycloneDX's JSON: the packages that cargo links into it."""

import json
import uuid
from datetime import UTC, datetime

import contents
import tomllib

PACKAGE = "cassette-cli"
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://docs.rs/cassette-cli")


def sbom(target=None):
    """The document as bytes, equal for equal lock files. `target` is a target triple, or None for that of this machine."""
    target = target or contents.output("rustc", "--print", "host-tuple").strip()
    arguments = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    metadata = json.loads(contents.output(*arguments, cwd=contents.ROOT))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    (root,) = (package["id"] for package in metadata["packages"] if package["name"] == PACKAGE)
    dependencies = reachable(root, nodes)
    checksums = {
        (package["name"], package["version"]): package["checksum"]
        for package in tomllib.loads((contents.ROOT / "Cargo.lock").read_text())["package"]
        if "checksum" in package
    }
    main = component(packages[root], checksums, kind="application")
    components = [component(packages[id], checksums) for id in dependencies if id != root]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(contents.epoch(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": main,
            "properties": [{"name": "cargo:target", "value": target}],
        },
        "components": sorted(components, key=lambda one: one["bom-ref"]),
        "dependencies": sorted(
            ({"ref": purl(packages[id]), "dependsOn": sorted(purl(packages[d]) for d in dependencies[id])} for id in dependencies),
            key=lambda one: one["ref"],
        ),
    }
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(NAMESPACE, json.dumps(document, sort_keys=True))}"
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()


def reachable(root, nodes):
    """Each package that is linked into `root`, with those that it depends on; neither tests nor builds."""
    found, pending = {}, [root]
    while pending:
        id = pending.pop()
        if id in found:
            continue
        found[id] = {
            dependency["pkg"]
            for dependency in nodes[id]["deps"]
            if any(kind["kind"] is None for kind in dependency["dep_kinds"])
        }
        pending.extend(found[id])
    return found


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, checksums, kind="library"):
    found = {"type": kind, "bom-ref": purl(package), "name": package["name"], "version": package["version"], "purl": purl(package)}
    if package["license"]:
        # Older packages have a slash for OR.
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return found
