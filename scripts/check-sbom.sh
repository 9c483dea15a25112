#!/bin/sh
# Checks the software bill of materials in target/dist/ (`make sbom`) with the schema of CycloneDX,
# strictly. The schema comes with a package from PyPI, which is installed below target/tools.
set -eu

cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
tools=$target/tools/cyclonedx
package='cyclonedx-python-lib[json-validation]==11.12.0'

fail() {
    printf '%s\n' "check-sbom: $*" >&2
    exit 1
}

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
sbom=$target/dist/wrkbench-$version.cdx.json
[ -f "$sbom" ] || fail "$sbom is missing: run make sbom first"
if [ "$(cat "$tools/installed" 2>/dev/null)" != "$package" ]; then
    python3 -m venv --clear "$tools" || fail "needs venv; on Debian: apt-get install python3-venv"
    "$tools/bin/pip" install --quiet --disable-pip-version-check "$package"
    echo "$package" >"$tools/installed"
fi
"$tools/bin/python" - "$sbom" <<'PYTHON'
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

with open(sys.argv[1], encoding="utf-8") as file:
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(file.read())
if error is not None:
    # The schema and the whole document follow.
    sys.exit(f"check-sbom: {sys.argv[1]}: {str(error).splitlines()[0]}")
PYTHON
printf '%s\n' "check-sbom: $sbom is valid"
