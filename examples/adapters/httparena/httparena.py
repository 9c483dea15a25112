#!/usr/bin/env python3
"""Runs a profile of HttpArena with wrkbench, and prints the JSON that its website reads.

    python3 httparena.py --root HTTPARENA FRAMEWORK PROFILE

HTTPARENA is a clone of github.com/MDA2AV/HttpArena. The framework's server has to be running. The
profile's line in scripts/lib/profiles.sh gives pipelining, requests per connection and connections;
requests/ gives the requests, whose .raw files become a request file. For each number of connections
the run with the most requests/s is printed. As there, RUNS (3), DURATION (5s) and THREADS are
environment variables; so are PORT, H2PORT, H1TLS_PORT and H2C_PORT.

Differences from HttpArena: p99_latency is the 99th percentile with every generator; requests of a
file are sent in turn on all connections; HTTP/3, WebSocket, streaming gRPC and production-stack
are refused. CPU time and memory are those of --cpu and --memory, since a load generator does not
know the server's container.
"""

import argparse
import base64
import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# Requests to each endpoint: files of requests/ without their extension, in turn.
RAW = {
    "": ["get", "post_cl", "post_chunked"],
    "upload": ["upload-500k", "upload-2m", "upload-10m", "upload-20m"],
    "api-4": ["get"] * 3 + ["json-get"] * 3 + ["async-db-get"] * 2,
    "async-db": [f"async-db-{count}" for count in (5, 10, 20, 35, 50)],
    "json": [f"json-{count}" for count in (1, 5, 10, 15, 25, 40, 50)],
    "json-compressed": [f"json-gzip-{count}" for count in (25, 40, 50)],
    "crud": ["crud-list-*", "crud-get-*", "crud-create-*", "crud-update-*"],
}
RAW["api-16"] = RAW["api-4"]

# Requests per connection of endpoints that do not take the profile's.
PER_CONNECTION = {"upload": 5, "async-db": 25, "json": 25, "json-compressed": 25}

# Durations of endpoints that do not take DURATION.
DURATIONS = {"api-4": "15s", "api-16": "15s", "async-db": "10s", "crud": "15s"}

# Scripts of wrk, which wrkbench runs as they are; a port, and whether it has TLS.
SCRIPTS = {
    "static": ("static-rotate.lua", "PORT", False),
    "json-tls": ("json-tls-rotate.lua", "H1TLS_PORT", True),
}

# HTTP/2: streams per connection, port, TLS, and a path or a list of URLs in requests/.
STREAMS = {
    "h2": (100, "H2PORT", True, "/baseline2?a=1&b=1"),
    "h2c": (100, "H2C_PORT", False, "/baseline2?a=1&b=1"),
    "static-h2": (32, "H2PORT", True, "static-h2-uris.txt"),
    "json-h2c": (32, "H2C_PORT", False, "json-h2c-uris.txt"),
    "gateway-64": (32, "H2PORT", True, "gateway-64-uris.txt"),
    "grpc": (100, "PORT", False, "/benchmark.BenchmarkService/GetSum"),
    "grpc-tls": (100, "H2PORT", True, "/benchmark.BenchmarkService/GetSum"),
}
COMPRESSED = {"static-h2", "gateway-64"}

PORTS = {"PORT": 8080, "H2PORT": 8443, "H1TLS_PORT": 8081, "H2C_PORT": 8082}

# Parts of a mix that the website scores: the field, and how the names of its requests begin.
PARTS = {
    "tpl_baseline": "get",
    "tpl_json": "json-get",
    "tpl_db": None,
    "tpl_upload": None,
    "tpl_static": None,
    "tpl_async_db": "async-db-get",
}

# Shares of a mix whose requests have no names, in twentieths.
GATEWAY = {"tpl_static": 6, "tpl_baseline": 4, "tpl_json": 7, "tpl_async_db": 3}


class Refused(Exception):
    """What cannot be done, on what."""


def read(path):
    try:
        return path.read_bytes()
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error


def profile(root, name):
    """Pipelining, requests per connection, connections and endpoint of a profile."""
    path = root / "scripts/lib/profiles.sh"
    text = read(path).decode("utf-8", "replace")
    found = re.search(rf'^\s*\[{re.escape(name)}\]="([^"]*)"', text, re.MULTILINE)
    if not found:
        known = re.findall(r'^\s*\[([a-z0-9-]+)\]="', text, re.MULTILINE)
        raise Refused(f"{name}: no such profile in {path} (it has {', '.join(known)})")
    try:
        pipeline, per_connection, _cpus, connections, endpoint = found[1].split("|")
        counts = [int(count) for count in connections.split(",")]
        return int(pipeline), int(per_connection), counts, endpoint
    except ValueError as error:
        raise Refused(f"{path}: {name}: {found[1]!r} is not five fields with bars") from error


def with_templates(text):
    """A text of a .raw file with the templates of wrkbench: {RAND:1:9} and {SEQ:100001}."""

    def template(match):
        if match[0] == "{{":
            return "{{'{{'}}"
        if match[1]:
            return f"{{{{rand:{match[1]}-{match[2]}}}}}"
        # Numbers from this one on, of which no two are the same: digits before those of seq.
        before = -(-(int(match[3]) - 1) // 10)
        return f"{before or ''}{{{{seq}}}}"

    return re.sub(r"\{RAND:(\d+):(\d+)\}|\{SEQ:(\d+)\}|\{\{", template, text)


def request(path):
    """The request of a .raw file as an object of a request file."""
    head, separator, body = read(path).partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    first = lines[0].split(" ")
    if not separator or len(first) != 3 or not first[2].startswith("HTTP/1."):
        raise Refused(f"{path}: is not an HTTP/1.1 request with a complete head")
    entry = {"method": first[0], "path": with_templates(first[1]), "name": path.stem}
    has_length = False
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            raise Refused(f"{path}: {line!r} is not a header")
        if name.lower() == "content-length":
            # wrkbench counts the body itself, since templates change its length.
            has_length = True
        elif name.lower() != "host":
            values = entry.setdefault("header", {}).setdefault(name, [])
            values.append(with_templates(value.strip()))
    if re.search(rb"\{RAND:|\{SEQ:", body):
        entry["body_text"] = with_templates(body.decode("utf-8"))
    elif body or has_length:
        entry["body"] = base64.b64encode(body).decode("ascii")
    return entry


def raw_requests(root, endpoint):
    folder = root / "requests"
    paths = []
    for name in RAW[endpoint]:
        found = sorted(glob.glob(str(folder / f"{name}.raw")))
        if not found:
            raise Refused(f"{folder}/{name}.raw: no such file")
        paths.extend(pathlib.Path(path) for path in found)
    return [request(path) for path in paths], paths


def listed_requests(path, compressed):
    """The paths of a list of URLs, which may name another host and port."""
    entries = []
    for line in read(path).decode("utf-8", "replace").split():
        target = re.fullmatch(r"https?://[^/]+(/.*)", line)
        if not target:
            raise Refused(f"{path}: {line!r} is not a URL with a path")
        entry = {"path": with_templates(target[1])}
        if compressed:
            entry["header"] = {"Accept-Encoding": "br;q=1, gzip;q=0.8"}
        entries.append(entry)
    return entries


def load(root, endpoint, pipeline, per_connection, host, folder):
    """The options for an endpoint, without duration and connections, and its .raw files."""

    def url(port, tls=False, path=""):
        number = os.environ.get(port, PORTS[port])
        return f"{'https' if tls else 'http'}://{host}:{number}{path}"

    def file_of(entries):
        path = pathlib.Path(folder) / "requests.jsonl"
        path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
        return ["--request-file", str(path)]

    if endpoint == "pipeline":
        return ["--pipeline", str(pipeline), url("PORT", path="/pipeline")], []
    if endpoint in RAW:
        entries, paths = raw_requests(root, endpoint)
        options = file_of(entries)
        per_connection = PER_CONNECTION.get(endpoint, per_connection)
        if per_connection:
            options += ["--requests-per-connection", str(per_connection)]
        if pipeline > 1:
            options += ["--pipeline", str(pipeline)]
        return [*options, url("PORT", path="/")], paths
    if endpoint in SCRIPTS:
        script, port, tls = SCRIPTS[endpoint]
        return ["-s", str(root / "requests" / script), url(port, tls, "/")], []
    if endpoint in STREAMS:
        streams, port, tls, target = STREAMS[endpoint]
        options = ["-m", str(streams)]
        if endpoint.startswith("grpc"):
            body = root / "requests/grpc-sum.bin"
            options += ["--grpc", "--body-file", str(body)]
        else:
            options += ["--http2"]
        if target.startswith("/"):
            return [*options, url(port, tls, target)], []
        entries = listed_requests(root / "requests" / target, endpoint in COMPRESSED)
        return [*options, *file_of(entries), url(port, tls, "/")], []
    raise Refused(f"{endpoint}: wrkbench does not load this endpoint (HTTP/3, WebSocket, streams)")


def result(wrkbench, options):
    """The result document of a run."""
    command = [wrkbench, *options, "--json", "-"]
    try:
        run = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    except OSError as error:
        raise Refused(f"{wrkbench}: {error.strerror} (--wrkbench names the program)") from error
    try:
        return json.loads(run.stdout)
    except ValueError as error:
        raise Refused(f"wrkbench ended with {run.returncode} and without a result") from error


def number(name, default):
    """A number above 0 in the environment."""
    text = os.environ.get(name, str(default))
    if not text.isdecimal() or int(text) == 0:
        raise Refused(f"{name}: {text!r} is not a number above 0")
    return int(text)


def time(nanoseconds):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.2f}{unit}"
    return f"{nanoseconds / 1e3:.2f}us"


def bandwidth(bytes_per_second):
    for unit, size in (("GB/s", 1 << 30), ("MB/s", 1 << 20), ("KB/s", 1 << 10)):
        if bytes_per_second >= size:
            return f"{bytes_per_second / size:.2f}{unit}"
    return f"{bytes_per_second:.0f}B/s"


def responses(statuses):
    """Responses by the first digit of their status."""
    counts = {digit: 0 for digit in "2345"}
    for status, count in statuses.items():
        if status[0] in counts:
            counts[status[0]] += count
    return counts


def rate(document):
    """Successful responses per second, which the website ranks by."""
    good = responses(document["statuses"])["2"]
    return int(good / (document["window"]["duration_ns"] / 1e9))


def fields(document, raw_files):
    """The measured fields of a result file."""
    latency = document["summary"]["latency"]
    counts = responses(document["statuses"])
    percentiles = {entry["percent"]: entry for entry in latency["percentiles"]}
    p99 = percentiles.get(99.0)
    if p99 and not p99["enough_samples"]:
        print("httparena: the 99th percentile has too few samples; run longer", file=sys.stderr)
    opened = document["counters"]["connections_opened"]
    measured = {
        "rps": rate(document),
        "avg_latency": time(latency["mean_ns"]) if latency["count"] else "",
        "p99_latency": time(p99["value_ns"]) if p99 else "",
        "bandwidth": bandwidth(document["summary"]["bytes_per_sec"]),
        "reconnects": max(0, opened - document["plan"]["load"]["connections"]),
    }
    if raw_files:
        sizes = [path.stat().st_size for path in raw_files]
        measured["input_bw"] = bandwidth(measured["rps"] * (sum(sizes) // len(sizes)))
    measured.update({f"status_{digit}xx": count for digit, count in counts.items()})
    return measured


def parts(document, endpoint):
    """The scored parts of a mix of requests."""
    if endpoint in ("api-4", "api-16"):
        good = {entry["name"]: responses(entry["statuses"])["2"] for entry in document["by_name"]}
        return {field: good.get(name, 0) for field, name in PARTS.items()}
    if endpoint == "gateway-64":
        total = responses(document["statuses"])["2"]
        return {field: total * share // 20 for field, share in GATEWAY.items()}
    return {}


def measure(arguments, connections, spec):
    """The result file for a number of connections: the best of the runs."""
    root = pathlib.Path(arguments.root)
    pipeline, per_connection, _, endpoint = spec
    about = json.loads(read(root / "frameworks" / arguments.framework / "meta.json"))
    usual = DURATIONS.get(endpoint, os.environ.get("DURATION", "5s"))
    duration = arguments.duration or usual
    threads = min(number("THREADS", os.cpu_count() or 1), connections)
    documents = []
    with tempfile.TemporaryDirectory() as folder:
        options, raw_files = load(
            root, endpoint, pipeline, per_connection, arguments.host, folder
        )
        amount = ["-t", str(threads), "-c", str(connections), "-d", duration]
        for _ in range(number("RUNS", 3)):
            documents.append(result(arguments.wrkbench, [*amount, *options]))
    best = max(documents, key=rate)
    measured = fields(best, raw_files)
    return {
        "framework": about["display_name"],
        "language": about["language"],
        "rps": measured.pop("rps"),
        "avg_latency": measured.pop("avg_latency"),
        "p99_latency": measured.pop("p99_latency"),
        "cpu": arguments.cpu,
        "memory": arguments.memory,
        "connections": connections,
        "threads": threads,
        "duration": duration,
        "pipeline": pipeline,
        **measured,
        **parts(best, endpoint),
    }


def main():
    parser = argparse.ArgumentParser(description="Runs a profile of HttpArena with wrkbench.")
    parser.add_argument("framework", help="a folder of frameworks/")
    parser.add_argument("profile", help="a profile of scripts/lib/profiles.sh")
    parser.add_argument("--root", default=".", help="the clone of HttpArena [default: .]")
    parser.add_argument("--host", default="localhost", help="the server [default: localhost]")
    parser.add_argument("--connections", type=int, help="only this number of the profile's")
    parser.add_argument("--duration", help="of a run, also where the endpoint has its own")
    parser.add_argument("--save", action="store_true", help="also write the files of results/")
    parser.add_argument("--cpu", default="0%", help="CPU of the server's container [default: 0%%]")
    parser.add_argument("--memory", default="0MiB", help="its memory [default: 0MiB]")
    parser.add_argument("--wrkbench", default="wrkbench", help="the program [default: wrkbench]")
    arguments = parser.parse_args()
    try:
        root = pathlib.Path(arguments.root)
        spec = profile(root, arguments.profile)
        for connections in [arguments.connections] if arguments.connections else spec[2]:
            text = json.dumps(measure(arguments, connections, spec), indent=2)
            print(text, flush=True)
            if arguments.save:
                folder = root / "results" / arguments.profile / str(connections)
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{arguments.framework}.json").write_text(text + "\n")
    except (Refused, OSError, ValueError, KeyError) as error:
        kind = "" if isinstance(error, Refused) else f"{type(error).__name__}: "
        sys.exit(f"httparena: {kind}{error}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
