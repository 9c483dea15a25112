#!/usr/bin/env python3
"""Prints the software bill of materials of the program: CycloneDX 1.6, in JSON.

usage: scripts/sbom.py >FILE     Python 3.9 or newer, without packages

It names the crates that scripts/third-party.sh names, which includes those that only build the
program: the sources of LuaJIT are one of these. Files in the repository that others wrote are named
too. The same commit gives the same bytes. docs/decisions/0028-sbom.md says why this is a script.
"""

import datetime
import json
import os
import re
import subprocess
import sys
import urllib.parse

# The archives are built for these.
TARGETS = [
    f"{processor}-unknown-linux-{library}"
    for processor in ("x86_64", "aarch64")
    for library in ("gnu", "musl")
]


def fail(message):
    sys.exit(f"sbom: {message}")


def output_of(*command):
    """What a command prints. It says itself on stderr why it failed."""
    try:
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        fail(error)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def of_manifest(name):
    """The value of a line `name = "value"` of Cargo.toml."""
    return re.search(rf'^{name} = "(.*)"$', read("Cargo.toml"), re.MULTILINE).group(1)


def checksums():
    """The SHA-256 sums of the packages in Cargo.lock, by name and version."""
    entry = r'^name = "(.*)"\nversion = "(.*)"\nsource = ".*"\nchecksum = "(.*)"$'
    found = re.findall(entry, read("Cargo.lock"), re.MULTILINE)
    return {(name, version): checksum for name, version, checksum in found}


def tree():
    """The licence of each crate of others, by name and version, and which ones each of them uses.

    The program and its crates are one: they are named None.
    """
    command = ["tree", "-p", "wrkbench", "--locked", "--edges", "normal,build"]
    command += ["--prefix", "depth", "--no-dedupe", "--format", "|{p}|{l}"]
    for target in TARGETS:
        command += ["--target", target]
    licences, uses, path = {}, {None: set()}, []
    for line in output_of(os.environ.get("CARGO", "cargo"), *command).splitlines():
        if not line:
            continue
        depth, crate, licence = line.split("|")
        name, version = crate.split(" ")[:2]
        key = None if "(/" in crate else (name, version.removeprefix("v"))
        path = path[: int(depth)] + [key]
        uses.setdefault(key, set())
        if key is not None:
            # Cargo's older notation of a choice.
            licences[key] = licence.replace("/", " OR ")
            uses[path[-2]].add(key)
    return licences, uses


def vendored():
    """Components whose files are in the repository, each with a README that names its version."""
    folder = "crates/report/assets/vendor"
    components = []
    for name in sorted(os.listdir(folder)):
        readme = read(f"{folder}/{name}/README.md")
        title, version = re.match(r"# (\S+) (\S+)\n", readme).groups()
        if not read(f"{folder}/{name}/LICENSE").startswith("The MIT License"):
            fail(f"{folder}/{name}/LICENSE: the licence is not known; name it in scripts/sbom.py")
        purl = f"pkg:npm/{name}@{version}"
        components.append(
            {
                "type": "library",
                "bom-ref": purl,
                "name": title,
                "version": version,
                "licenses": [{"license": {"id": "MIT"}}],
                "purl": purl,
            }
        )
    return components


def purl_of(key):
    name, version = key
    # A plus in a version is encoded.
    return f"pkg:cargo/{name}@{urllib.parse.quote(version)}"


def bill(epoch):
    """The document. `epoch`: its time, in seconds since 1970."""
    licences, uses = tree()
    sums = checksums()
    files = vendored()
    version, home = of_manifest("version"), of_manifest("repository")
    program = f"pkg:github/{home.removeprefix('https://github.com/')}@v{version}"
    crates = [
        {
            "type": "library",
            "bom-ref": purl_of(key),
            "name": key[0],
            "version": key[1],
            "hashes": [{"alg": "SHA-256", "content": sums[key]}],
            "licenses": [{"expression": licence}],
            "purl": purl_of(key),
        }
        for key, licence in sorted(licences.items())
    ]
    dependencies = [
        {
            "ref": purl_of(key) if key else program,
            "dependsOn": sorted(map(purl_of, used))
            + ([] if key else [file["bom-ref"] for file in files]),
        }
        for key, used in sorted(uses.items(), key=lambda item: item[0] or ("", ""))
    ]
    time = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": program,
                "name": "wrkbench",
                "version": version,
                "licenses": [{"expression": of_manifest("license")}],
                "purl": program,
                "externalReferences": [{"type": "vcs", "url": home}],
            },
        },
        "components": crates + files,
        "dependencies": dependencies,
    }


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or output_of("git", "log", "-1", "--format=%ct")
    json.dump(bill(int(epoch)), sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
