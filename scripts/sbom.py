#!/usr/bin/env python3
"""Reads `cargo metadata` on stdin and prints the crates in the program as CycloneDX 1.5.

Python 3.9 or newer, without packages. Crates that only tests use are left out, and so are the date
and a serial number: the same sources give the same file.
"""

import json
import sys

PROGRAM = "wrkbench"


def checksums():
    """The SHA-256 sum of each crate in Cargo.lock, by name and version."""
    sums, name, version = {}, None, None
    with open("Cargo.lock") as lock:
        for line in lock:
            key, _, value = line.strip().partition(" = ")
            value = value.strip('"')
            if key == "name":
                name = value
            elif key == "version":
                version = value
            elif key == "checksum":
                sums[name, version] = value
    return sums


def used(nodes, root):
    """The packages that the program is built from, with what each needs of them."""
    needs = {}
    waiting = [root]
    while waiting:
        package = waiting.pop()
        if package in needs:
            continue
        kinds = lambda it: {kind["kind"] for kind in it["dep_kinds"]}
        needs[package] = sorted(
            it["pkg"] for it in nodes[package]["deps"] if kinds(it) - {"dev"}
        )
        waiting.extend(needs[package])
    return needs


def component(package, sums):
    name, version = package["name"], package["version"]
    is_ours = package["source"] is None
    made = {
        "type": "application" if name == PROGRAM else "library",
        "bom-ref": reference(package),
        "name": name,
        "version": version,
        "purl": reference(package),
    }
    if package["description"]:
        made["description"] = package["description"].strip()
    if package["license"]:
        # Older crates have a slash in place of OR.
        made["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if package["repository"]:
        made["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    if not is_ours:
        made["hashes"] = [{"alg": "SHA-256", "content": sums[name, version]}]
    return made


def reference(package):
    """A package URL. Our crates are part of the program and on no registry."""
    kind = "generic" if package["source"] is None else "cargo"
    return f"pkg:{kind}/{package['name']}@{package['version']}"


def main():
    metadata = json.load(sys.stdin)
    packages = {package["id"]: package for package in metadata["packages"]}
    root = next(id for id, package in packages.items() if package["name"] == PROGRAM)
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    needs, sums = used(nodes, root), checksums()
    ordered = sorted(needs, key=lambda id: (packages[id]["name"], packages[id]["version"]))
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(packages[root], sums)},
        "components": [component(packages[id], sums) for id in ordered if id != root],
        "dependencies": [
            {
                "ref": reference(packages[id]),
                "dependsOn": sorted({reference(packages[other]) for other in needs[id]}),
            }
            for id in ordered
        ],
    }
    json.dump(document, sys.stdout, indent=1, ensure_ascii=False)
    sys.stdout.write("\n")


main()
