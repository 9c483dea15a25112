#!/usr/bin/env python3
"""Loads a server as the-benchmarker/web-frameworks does, and writes the JSON that it collects.

    python3 the_benchmarker.py --root WEB_FRAMEWORKS --results RESULTS http://ADDRESS:3000

WEB_FRAMEWORKS is a clone of github.com/the-benchmarker/web-frameworks. Its .env has ROUTES,
CONCURRENCIES and DURATION; variables of the environment replace them. For each route and each
number of connections a file is written that has the fields of oha which its tasks read:
RESULTS/64/_user_0.json. Without --results they are printed.

Each request has a connection of its own, as there, unless --keepalive is given. The two kinds of
numbers cannot be compared, so it is printed with every run which one it is. A request that timed
out is part of the percentiles, with its age.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

# Percentiles in oha's document.
PERCENTILES = ("10", "25", "50", "75", "90", "95", "99", "99.9", "99.99")


class Refused(Exception):
    """What cannot be done, on what."""


def settings(root):
    """The variables of .env, replaced by those of the environment."""
    path = pathlib.Path(root) / ".env"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise Refused(f"{path}: {error.strerror} (--root names the clone)") from error
    found = dict(re.findall(r"^([A-Z_]+)=(.*)$", text, re.MULTILINE))
    names = ("ROUTES", "CONCURRENCIES", "DURATION")
    values = {name: os.environ.get(name, found.get(name, "")).strip() for name in names}
    missing = [name for name in names if not values[name]]
    if missing:
        raise Refused(f"{path}: {', '.join(missing)} is missing")
    return values


def routes(text):
    """Method and path of each route: GET:/,POST:/user."""
    pairs = []
    for route in text.split(","):
        method, colon, path = route.partition(":")
        if not colon or not method.isalpha() or not path.startswith("/"):
            raise Refused(f"ROUTES: {route!r} is not like GET:/user/0")
        pairs.append((method, path))
    return pairs


def numbers(name, text):
    found = text.split(",")
    if not all(number.isdecimal() and int(number) > 0 for number in found):
        raise Refused(f"{name}: {text!r} has something that is not a number above 0")
    return [int(number) for number in found]


def run(wrkbench, options):
    """The result document of a run."""
    try:
        done = subprocess.run(
            [wrkbench, *options, "--json", "-"], stdout=subprocess.PIPE, check=False
        )
    except OSError as error:
        raise Refused(f"{wrkbench}: {error.strerror} (--wrkbench names the program)") from error
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise Refused(f"wrkbench ended with {done.returncode} and without a result") from error


def as_oha(document):
    """The fields of oha's document, in its units: seconds and bytes."""
    summary, counters = document["summary"], document["counters"]
    latency = summary["latency"]
    ended = counters["answered"] + sum(kind["exchanges"] for kind in document["errors"].values())
    values = {entry["percent"]: entry["value_ns"] / 1e9 for entry in latency["percentiles"]}
    seconds = lambda key: latency[key] / 1e9 if latency["count"] else None
    return {
        "summary": {
            "successRate": counters["answered"] / ended if ended else 0.0,
            "total": document["window"]["duration_ns"] / 1e9,
            "slowest": seconds("max_ns"),
            "fastest": seconds("min_ns"),
            "average": seconds("mean_ns"),
            "requestsPerSec": summary["requests_per_sec"],
            "totalData": counters["bytes"],
            "sizePerRequest": counters["bytes"] // max(1, counters["answered"]),
            "sizePerSec": summary["bytes_per_sec"],
        },
        "latencyPercentiles": {f"p{name}": values.get(float(name)) for name in PERCENTILES},
        "statusCodeDistribution": document["statuses"],
        "errorDistribution": {
            kind: errors["exchanges"] for kind, errors in document["errors"].items()
        },
    }


def main():
    parser = argparse.ArgumentParser(description="Loads a server as the-benchmarker does.")
    parser.add_argument("url", help="the server, like http://127.0.0.1:3000")
    parser.add_argument("--root", default=".", help="the clone, which has .env [default: .]")
    parser.add_argument("--results", help="write the files below this folder")
    parser.add_argument("--keepalive", action="store_true", help="keep connections open")
    parser.add_argument("--threads", type=int, help="threads [default: all CPUs]")
    parser.add_argument("--wrkbench", default="wrkbench", help="the program [default: wrkbench]")
    arguments = parser.parse_args()
    try:
        values = settings(arguments.root)
        seconds = numbers("DURATION", values["DURATION"].removesuffix("s"))[0]
        for method, path in routes(values["ROUTES"]):
            for connections in numbers("CONCURRENCIES", values["CONCURRENCIES"]):
                threads = min(arguments.threads or os.cpu_count() or 1, connections)
                options = ["-t", str(threads), "-c", str(connections), "-d", f"{seconds}s"]
                options += ["-X", method, "--percentiles", ",".join(PERCENTILES)]
                options += [] if arguments.keepalive else ["--no-keepalive"]
                kept = "kept" if arguments.keepalive else "closed after each request"
                said = f"{method} {path}, {connections} connections, {kept}"
                print(f"the-benchmarker: {said}", file=sys.stderr)
                url = arguments.url.rstrip("/") + path
                document = run(arguments.wrkbench, [*options, url])
                text = json.dumps(as_oha(document), indent=2)
                if not arguments.results:
                    print(text, flush=True)
                    continue
                folder = pathlib.Path(arguments.results) / str(connections)
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{path.replace('/', '_')}.json").write_text(text + "\n")
    except (Refused, OSError, KeyError) as error:
        kind = "" if isinstance(error, Refused) else f"{type(error).__name__}: "
        sys.exit(f"the-benchmarker: {kind}{error}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
