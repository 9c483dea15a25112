#!/bin/sh
# Builds what receives metrics over OTLP, below target/readers: Prometheus 3 without its service
# discoveries and its pages, and an OpenTelemetry Collector that writes what it gets to a file.
#
# Takes ten minutes on one core and 2 GB of Go's caches, so no other target needs it. Does nothing
# when both are there. Never fails: without Go 1.25 and a network it says so, and the tests that
# want them say that they were skipped.
set -u

cd "$(dirname "$0")/.." || exit 1
folder=${CARGO_TARGET_DIR:-target}/readers

# The versions that the tests were written for.
prometheus='module prometheus-server

go 1.25.0

require github.com/prometheus/prometheus v0.316.0
'
otelcol='module otelcol

go 1.25.0

require (
	github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter v0.165.1
	go.opentelemetry.io/collector/otelcol v0.165.0
	go.opentelemetry.io/collector/receiver/otlpreceiver v0.165.0
	go.opentelemetry.io/collector/service v0.165.0
)
'
# What the Collector builder generates for one receiver and one exporter.
otelcol_main='package main

import (
	"log"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

func factories() (otelcol.Factories, error) {
	receivers, err := otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	if err != nil {
		return otelcol.Factories{}, err
	}
	exporters, err := otelcol.MakeFactoryMap[exporter.Factory](fileexporter.NewFactory())
	return otelcol.Factories{
		Receivers: receivers,
		Exporters: exporters,
		Telemetry: otelconftelemetry.NewFactory(),
	}, err
}

func main() {
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo: component.NewDefaultBuildInfo(),
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{
			ResolverSettings: confmap.ResolverSettings{
				DefaultScheme:     "file",
				ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()},
			},
		},
	})
	if err := command.Execute(); err != nil {
		log.Fatal(err)
	}
}
'

# A build that takes longer is given up.
limit_s=1800

say() { printf '%s\n' "install-collectors: $*"; }

has() { command -v "$1" >/dev/null 2>&1; }

# The program, the text of its go.mod, its package.
build() {
    program=$folder/$1
    made_of=$2$otelcol_main
    if [ -x "$program" ] && [ "$(cat "$program.installed" 2>/dev/null)" = "$made_of" ]; then
        return 0
    fi
    say "building $1"
    rm -f "$program" "$program.installed"
    workdir=$(mktemp -d) || return 1
    printf '%s\n' "$2" >"$workdir/go.mod"
    printf '%s' "$otelcol_main" >"$workdir/main.go"
    output=$(cd "$folder" && pwd)/$1
    limit=
    has timeout && limit="timeout $limit_s"
    # shellcheck disable=SC2086 # nothing or two words
    (cd "$workdir" && $limit "$go" build -mod=mod -buildvcs=false -tags remove_all_sd \
        -o "$output" "$3" >"$workdir/log" 2>&1 </dev/null)
    built=$?
    [ "$built" -eq 0 ] || tail -n 3 "$workdir/log"
    rm -rf "$workdir"
    [ "$built" -eq 0 ] && printf '%s\n' "$made_of" >"$program.installed"
}

mkdir -p "$folder" || { say "cannot create $folder"; exit 0; }
go=go
has go || go=/usr/local/go/bin/go
missing=
build prometheus3 "$prometheus" github.com/prometheus/prometheus/cmd/prometheus ||
    missing="$missing prometheus3"
build otelcol "$otelcol" . || missing="$missing otelcol"
if [ -n "$missing" ]; then
    say "missing:$missing (needs Go 1.25 and a network); their tests cannot run"
else
    say "everything is installed"
fi
