#!/bin/sh
# Checks deploy/ with the programs that read it: systemd-analyze, docker compose and kubectl. None
# of them needs its service. What is not installed is named and left out. The tests of
# crates/cluster check examples/fleet/nats.conf.
set -eu

cd "$(dirname "$0")/.."

say() { printf '%s\n' "check-deploy: $*"; }

fail() {
    printf '%s\n' "check-deploy: $*" >&2
    exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The unit alone and with its drop-in. The binary need not be installed.
check_units() {
    has systemd-analyze || { say "SKIPPED: units: systemd-analyze is missing" && return; }
    unit=$work/wrkbench-agent.service
    mkdir "$unit.d"
    with_true='s:^ExecStart=/usr/bin/wrkbench:ExecStart=/bin/true:'
    sed "$with_true" deploy/systemd/wrkbench-agent.service >"$unit"
    systemd-analyze verify --man=no "$unit" || fail "wrkbench-agent.service is not valid"
    sed "$with_true" deploy/systemd/allow-changes.conf >"$unit.d/allow-changes.conf"
    systemd-analyze verify --man=no "$unit" || fail "allow-changes.conf is not valid"
    say "systemd-analyze has verified wrkbench-agent.service and allow-changes.conf"
}

check_compose() {
    if docker compose version >/dev/null 2>&1; then
        compose="docker compose"
    elif has docker-compose; then
        compose=docker-compose
    else
        say "SKIPPED: compose.yaml: docker compose is missing"
        return
    fi
    $compose --file deploy/compose.yaml config --quiet || fail "compose.yaml is not valid"
    say "$compose has read compose.yaml"
}

# kubectl drops fields that the kind of the object does not have, so all fields of the file must
# come out again. Without a cluster it cannot do that for a Secret.
check_kubernetes() {
    for program in kubectl jq; do
        has "$program" || { say "SKIPPED: k8s: $program is missing" && return; }
    done
    for file in deploy/k8s/*.yaml; do
        sed 's/ZONE/eu-central-1a/' "$file" | awk -v name="$work/$(basename "$file")" \
            '/^---$/ { part++ } { print > (name "." part + 0 ".yaml") }'
    done
    for part in "$work"/*.yaml.*.yaml; do
        check_object "$part"
    done
}

# $1: a file with one object.
check_object() {
    kubectl annotate --local --filename "$1" --output json check=yes |
        jq 'del(.metadata.annotations)' >"$work/ours.json"
    object=$(jq -r '.kind + "/" + .metadata.name' "$work/ours.json")
    case $object in
    Service/*)
        kubectl set selector --local --filename "$1" --output json \
            "app=$(jq -r .spec.selector.app "$work/ours.json")" >"$work/theirs.json"
        ;;
    Deployment/* | StatefulSet/*)
        kubectl set env --local --filename "$1" --output json CHECK=yes >"$work/theirs.json"
        jq -e '.spec.template.spec | (.automountServiceAccountToken == false)
            and .securityContext.runAsNonRoot
            and all(.containers[]; .resources.requests == .resources.limits
                and .securityContext.readOnlyRootFilesystem
                and .securityContext.allowPrivilegeEscalation == false)' \
            "$work/theirs.json" >/dev/null ||
            fail "$object has more rights than it needs, or requests that differ from limits"
        ;;
    *)
        say "SKIPPED: $object: without a cluster kubectl does not check this kind"
        return
        ;;
    esac
    lost=$(jq -n --slurpfile ours "$work/ours.json" --slurpfile theirs "$work/theirs.json" \
        -r '[$ours[0] | paths(scalars)] - [$theirs[0] | paths(scalars)] | .[] | map(tostring)
            | join(".")')
    [ -z "$lost" ] || fail "$object has fields that kubectl does not know: $lost"
    say "kubectl knows all fields of $object"
}

check_units
check_compose
check_kubernetes
