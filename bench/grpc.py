#!/usr/bin/env python3
"""Compares wrkbench with ghz: unary gRPC calls with a JSON message, 50 at once on one connection;
first the same message each time, then one with a UUID and the number of the call.

Python 3.9 or newer, without packages. Without --url, the built-in server polls on one core; the
tools take turns on another one. CPU time is user and system time of a tool (wait4(2)). Each tool
also makes a short run, and CPU "per call" is the difference of both runs divided by that of their
calls.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile

from processes import cpu_of, first_line, serve

AT_ONCE = 50
LIMIT_S = 120
PROTO = """syntax = "proto3";
package wrkbench;
message Message { string text = 1; int64 number = 2; }
service Echo { rpc Call(Message) returns (Message); }
"""
FIXED = {"wrkbench": '{"text": "hello", "number": "7"}'}
FIXED["ghz"] = FIXED["wrkbench"]
TEMPLATES = {
    "wrkbench": '{"text": "{{uuid}}", "number": "{{seq}}"}',
    "ghz": '{"text": "{{newUUID}}", "number": "{{.RequestNumber}}"}',
}


class Wrkbench:
    name = "wrkbench"

    def __init__(self, program):
        self.program = program
        self.version = first_line([program, "--version"])

    def command(self, options, message, calls, result):
        if message == TEMPLATES[self.name]:
            file = result + ".jsonl"
            with open(file, "w") as lines:
                lines.write(f'{{"call": "{options.call}", "message": {message}}}\n')
            given = ["--requests", file]
        else:
            given = ["--call", options.call, "--body", message]
        return [self.program, "--grpc", "--proto", options.proto, *given, "-t1", "-c1",
                f"-m{AT_ONCE}", f"-n{calls}", "--quiet", "--json", result, options.url]

    def figures(self, result):
        with open(result) as file:
            run = json.load(file)
        seconds = run["window"]["duration_ns"] / 1e9
        return {"done": run["counters"]["answered"],
                "per_s": run["counters"]["answered"] / seconds}


class Ghz:
    name = "ghz"

    def __init__(self, program):
        self.program = program
        self.version = first_line([program, "--version"])

    def command(self, options, message, calls, result):
        return [self.program, "--insecure", "--proto", options.proto, "--call", options.call, "-d",
                message, "-c", str(AT_ONCE), "--connections", "1", "-n", str(calls),
                "--cpus", "1", "-O", "json", "-o", result, options.url.split("//")[1].strip("/")]

    def figures(self, result):
        with open(result) as file:
            run = json.load(file)
        return {"done": run["statusCodeDistribution"].get("OK", 0), "per_s": run["rps"]}


def measure(tool, options, message, scratch):
    log, result = os.path.join(scratch, "log"), os.path.join(scratch, "result.json")
    short, long = options.calls // 10, options.calls
    short_s = cpu_of(tool.command(options, message, short, result), 1, LIMIT_S, log)
    long_s = cpu_of(tool.command(options, message, long, result), 1, LIMIT_S, log)
    figures = tool.figures(result)
    if figures["done"] != long:
        sys.exit(f"grpc.py: {tool.name} made {figures['done']} of {long} calls")
    return {"per_s": figures["per_s"], "cpu_us_per_call": (long_s - short_s) * 1e6 / (long - short)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wrkbench", default="target/release/wrkbench")
    parser.add_argument("--ghz", default="ghz")
    parser.add_argument("--calls", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--url", help="another server; with --proto, --call and --message")
    parser.add_argument("--proto")
    parser.add_argument("--call", default="wrkbench.Echo/Call")
    parser.add_argument("--message", help="with --url: the message of each call")
    parser.add_argument("--json", help="also write all samples to this file")
    options = parser.parse_args()
    wrkbench = os.path.abspath(options.wrkbench)
    tools = [Wrkbench(wrkbench)]
    ghz = shutil.which(options.ghz)
    if ghz:
        tools.append(Ghz(ghz))
    else:
        print(f"grpc.py: no {options.ghz}, so it is left out", file=sys.stderr)
    with tempfile.TemporaryDirectory() as scratch:
        if not options.proto:
            options.proto = os.path.join(scratch, "echo.proto")
            with open(options.proto, "w") as file:
                file.write(PROTO)
        server = None
        if not options.url:
            server, address = serve(wrkbench, 0)
            options.url = f"http://{address}/"
        cases = {"fixed": FIXED, "templates": TEMPLATES}
        if options.message:
            cases = {"fixed": {name: options.message for name in FIXED}}
        samples = {case: {tool.name: [] for tool in tools} for case in cases}
        try:
            for case, messages in cases.items():
                for number in range(1, options.repeats + 1):
                    for tool in tools:
                        print(f"{case}, {tool.name}, {number}/{options.repeats}", file=sys.stderr)
                        measured = measure(tool, options, messages[tool.name], scratch)
                        samples[case][tool.name].append(measured)
        finally:
            if server:
                server.terminate()
    print(f"\nUnary calls, {AT_ONCE} at once on one connection; {options.calls} calls, medians of "
          f"{options.repeats} runs")
    print(f"{'message':10} {'':10} {'calls/s':>10} {'us CPU per call':>16} {'ratio to ghz':>13}")
    for case, of_tools in samples.items():
        for name, runs in of_tools.items():
            per_s = statistics.median(run["per_s"] for run in runs)
            cpu_us = statistics.median(run["cpu_us_per_call"] for run in runs)
            others = of_tools.get("ghz") or runs
            pairs = zip(runs, others)
            ratio = statistics.median(
                run["cpu_us_per_call"] / other["cpu_us_per_call"] for run, other in pairs)
            print(f"{case:10} {name:10} {per_s:>10.0f} {cpu_us:>16.2f} {ratio:>13.3f}")
    if options.json:
        with open(options.json, "w") as file:
            machine = {"system": platform.platform(), "cores": os.cpu_count()}
            versions = {tool.name: tool.version for tool in tools}
            json.dump({"machine": machine, "versions": versions, "samples": samples}, file,
                      indent=1)
            file.write("\n")


main()
