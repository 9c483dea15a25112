#!/usr/bin/env python3
"""Prints a table of wrkbench, AIPerf and guidellm as clients of one server, in Markdown.

Python 3.10 or newer with venv. Both tools are installed from PyPI below --folder, where they take
7 GB. Programs that are given with --aiperf and --guidellm are used instead.

The built-in server polls on one core, the tools take turns on another one. Each tool makes each
load --repeats times, and once more for its memory: reading that takes time of the server's core.
"""

import argparse
import glob
import json
import os
import platform
import random
import statistics
import sys
import tempfile

from processes import first_line, measure, serve

FIRST_MS, GAP_MS, TOKENS = 100, 10, 64
USERS, WORDS, TURNS, THINK_MS = 32, 128, 3, 1000
VERSIONS = {"aiperf": "0.13.0", "guidellm": "0.8.1"}
# The first line of each tool's figures has one of these.
RESULT = r"First token|Time to First Token|TTFT"
VOCABULARY = "the quick brown fox jumps over a lazy dog".split()
# More than are sent, so that no cache helps.
PROMPTS = 4000


def tokenizer(folder):
    """A tokenizer whose tokens are bytes: without one, the other tools download the model's."""
    os.makedirs(folder)
    # GPT-2's names of bytes: those that are printable, and others above 255 for the rest.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    names = [chr(byte) for byte in printable] + [chr(256 + at) for at in range(len(others))]
    vocabulary = {name: number for number, name in enumerate([*names, "<end>"])}
    end = {"id": len(names), "content": "<end>", "special": True, "single_word": False,
           "lstrip": False, "rstrip": False, "normalized": False}
    bytes_of_text = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                     "use_regex": True}
    model = {"type": "BPE", "vocab": vocabulary, "merges": []}
    with open(os.path.join(folder, "tokenizer.json"), "w") as file:
        json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end],
                   "normalizer": None, "pre_tokenizer": bytes_of_text, "post_processor": None,
                   "decoder": bytes_of_text, "model": model}, file)
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>"}, file)


def lines(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


class Wrkbench:
    name = "wrkbench"
    per_token = "time per token"

    def __init__(self, program, scratch):
        self.program, self.result = program, os.path.join(scratch, "wrkbench.json")
        self.version = first_line([program, "--version"]).split()[1]

    def command(self, url, seconds, turns):
        talk = ["--turns", str(turns), "--think", f"{THINK_MS}ms"] if turns > 1 else []
        return [self.program, "llm", url, "--model", "m", "-t1", f"-c{USERS}", f"-d{seconds}s",
                "--prompt-words", str(WORDS), "--prompt-count", str(PROMPTS), *talk,
                "--json", self.result]

    def figures(self, turns):
        with open(self.result) as file:
            result = json.load(file)
        tokens = result["summary"]["llm"]
        first = tokens["first_token"]
        return {"first_p50_ms": first["p50_ms"], "first_p99_ms": first["p99_ms"],
                "per_token_p50_ms": tokens["time_per_token"]["p50_ms"],
                "responses": tokens["first_token"]["count"],
                "conversations": result["conversations"]["done"] if turns > 1 else None}


class Aiperf:
    name = "AIPerf"
    per_token = "inter token latency"

    def __init__(self, program, scratch):
        self.program, self.scratch = program, scratch
        self.version = first_line([program, "--version"])
        drawn = random.Random(1)
        text = lambda: " ".join(drawn.choice(VOCABULARY) for _ in range(WORDS))
        self.files = {turns: os.path.join(scratch, f"turns-{turns}.jsonl") for turns in (1, TURNS)}
        with open(self.files[1], "w") as file:
            file.writelines(json.dumps({"text": text()}) + "\n" for _ in range(PROMPTS))
        with open(self.files[TURNS], "w") as file:
            for number in range(PROMPTS // TURNS):
                later = [{"text": text(), "delay": THINK_MS} for _ in range(TURNS - 1)]
                talk = {"session_id": f"s{number}", "turns": [{"text": text()}, *later]}
                file.write(json.dumps(talk) + "\n")

    def command(self, url, seconds, turns):
        self.folder = tempfile.mkdtemp(dir=self.scratch)
        return [self.program, "profile", "-m", "m", "--url", url, "--endpoint-type", "chat",
                "--streaming", "--concurrency", str(USERS), "--benchmark-duration", str(seconds),
                "--use-server-token-count", "--tokenizer", os.path.join(self.scratch, "tokenizer"),
                "--input-file", self.files[turns], "--custom-dataset-type",
                "multi_turn" if turns > 1 else "single_turn", "--artifact-dir", self.folder,
                "--ui", "none", "--no-auto-plot"]

    def figures(self, turns):
        of = lambda name: glob.glob(f"{self.folder}/**/{name}", recursive=True)[0]
        with open(of("profile_export_aiperf.json")) as file:
            metrics = json.load(file)
        first = metrics["time_to_first_token"]
        of_requests = [line["metadata"] for line in lines(of("profile_export.jsonl"))]
        last = sum(each["turn_index"] == turns - 1 for each in of_requests)
        return {"first_p50_ms": first["p50"], "first_p99_ms": first["p99"],
                "per_token_p50_ms": metrics["inter_token_latency"]["p50"],
                "responses": first["count"], "conversations": last if turns > 1 else None}


class Guidellm:
    name = "guidellm"
    per_token = "inter token latency"

    def __init__(self, program, scratch):
        self.program, self.scratch = program, scratch
        self.version = first_line([program, "--version"]).split()[-1]
        self.result = os.path.join(scratch, "guidellm.json")

    def command(self, url, seconds, turns):
        # Its texts have five to six characters a word, and here a token is a byte.
        data = f"kind=synthetic_text,prompt_tokens={6 * WORDS},output_tokens={TOKENS}"
        data += f",turns={turns},delay={THINK_MS // 1000}" if turns > 1 else ""
        return [self.program, "run", "--backend", f"kind=openai_http,target={url},model=m",
                "--profile", f"kind=concurrent,streams={USERS}",
                "--constraint", f"kind=max_duration,seconds={seconds}",
                "--tokenizer", f"kind=huggingface_auto,model={self.scratch}/tokenizer",
                "--data", data, "--output", f"kind=json,path={self.result}",
                "--output", "kind=console", "--disable-console-interactive"]

    def figures(self, turns):
        with open(self.result) as file:
            benchmark = json.load(file)["benchmarks"][0]
        metrics = benchmark["metrics"]
        first = metrics["time_to_first_token_ms"]["successful"]
        per_token = metrics["inter_token_latency_ms"]["successful"]
        done = [request["info"] for request in benchmark["requests"]["successful"]]
        last = sum(each["turn_index"] == turns - 1 for each in done)
        return {"first_p50_ms": first["percentiles"]["p50"],
                "first_p99_ms": first["percentiles"]["p99"],
                "per_token_p50_ms": per_token["percentiles"]["p50"],
                "responses": first["count"], "conversations": last if turns > 1 else None}


def installed(tool, folder):
    """The program of a tool in an environment of its own."""
    venv = os.path.join(os.path.abspath(folder), tool)
    program = os.path.join(venv, "bin", tool)
    wanted = f"{tool}=={VERSIONS[tool]}"
    mark = os.path.join(venv, "installed")
    if not os.path.exists(mark) or open(mark).read() != wanted:
        print(f"peers.py: installing {wanted} into {venv}", file=sys.stderr)
        for command in ([sys.executable, "-m", "venv", "--clear", venv],
                        [os.path.join(venv, "bin", "pip"), "install", "--quiet", wanted]):
            if os.spawnvp(os.P_WAIT, command[0], command) != 0:
                sys.exit(f"peers.py: {' '.join(command)} failed; --{tool} names another program")
        with open(mark, "w") as file:
            file.write(wanted)
    return program


def sample(tool, url, seconds, turns, scratch):
    """One row of figures."""
    run = lambda **more: measure(tool.command(url, seconds, turns), 1, 8 * seconds + 240,
                                 os.path.join(scratch, "log"), RESULT, **more)
    took = run()
    return {**took, **tool.figures(turns)}, run


def rows_of(tools, url, options, scratch):
    """For each load and tool the medians, and all samples."""
    rows = []
    for turns in (1, TURNS):
        samples = {tool.name: [] for tool in tools}
        memory = {}
        for number in range(1, options.repeats + 1):
            for tool in tools:
                print(f"{tool.name}, {turns} turns, {number}/{options.repeats}", file=sys.stderr)
                figures, run = sample(tool, url, options.duration, turns, scratch)
                samples[tool.name].append(figures)
                if number == options.repeats:
                    memory[tool.name] = run(core_of_memory=0)["memory_mb"]
        for tool in tools:
            of_tool = samples[tool.name]
            row = {key: statistics.median(each[key] for each in of_tool)
                   for key in of_tool[0] if of_tool[0][key] is not None}
            row |= {"tool": tool.name, "turns": turns, "memory_mb": memory[tool.name],
                    "samples": of_tool}
            rows.append(row)
    return rows


def machine():
    with open("/proc/cpuinfo") as file:
        names = {line.split(":")[1].strip() for line in file if line.startswith("model name")}
    return f"{', '.join(sorted(names)) or platform.machine()}, {os.cpu_count()} cores, Linux " \
        + platform.release().split("-")[0]


def table(rows):
    print("| load | tool | first token p50 | p99 | time per token p50 | conversations | CPU | "
          "memory | first result |")
    print("|---|---|---|---|---|---|---|---|---|")
    print(f"| | truth | {FIRST_MS:.2f} ms | {FIRST_MS:.2f} ms | {GAP_MS:.2f} ms | | | | |")
    for row in rows:
        load = f"{row['turns']} turns" if row["turns"] > 1 else "single"
        talks = f"{row['conversations']:,.0f}" if "conversations" in row else ""
        print(f"| {load} | {row['tool']} | {row['first_p50_ms']:.2f} ms | "
              f"{row['first_p99_ms']:.2f} ms | {row['per_token_p50_ms']:.2f} ms | {talks} | "
              f"{row['cpu_s']:.2f} s | {row['memory_mb']:,.0f} MB | {row['result_s']:.1f} s |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wrkbench", default="target/release/wrkbench")
    parser.add_argument("--aiperf", help="a program that is installed already")
    parser.add_argument("--guidellm", help="a program that is installed already")
    parser.add_argument("--folder", default="target/peers", help="where tools are installed")
    parser.add_argument("--duration", type=int, default=30, help="of each load, seconds")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", help="also write all samples to this file")
    options = parser.parse_args()
    wrkbench = os.path.abspath(options.wrkbench)
    aiperf = options.aiperf or installed("aiperf", options.folder)
    guidellm = options.guidellm or installed("guidellm", options.folder)
    # The tools send how they are used.
    os.environ.update(HF_HUB_DISABLE_TELEMETRY="1", COLUMNS="200")
    with tempfile.TemporaryDirectory() as scratch:
        tokenizer(os.path.join(scratch, "tokenizer"))
        tools = [Wrkbench(wrkbench, scratch), Aiperf(aiperf, scratch), Guidellm(guidellm, scratch)]
        answer = f"llm=openai&tokens={TOKENS}&first={FIRST_MS}ms&gap={GAP_MS}ms"
        server, address = serve(wrkbench, 0, "--answer", answer)
        try:
            rows = rows_of(tools, f"http://{address}", options, scratch)
        finally:
            server.terminate()
        commands = {
            f"{tool.name}, {turns} turns": " ".join(
                [os.path.basename(tool.program), *tool.command("URL", options.duration, turns)[1:]]
            ).replace(scratch, "D")
            for turns in (1, TURNS) for tool in tools
        }
    versions = {tool.name: tool.version for tool in tools}
    table(rows)
    print(f"\n{machine()}; " + ", ".join(f"{name} {it}" for name, it in versions.items())
          + f"; medians of {options.repeats} runs of {options.duration} s")
    print("\n".join(f"\n{name}:\n    {command}" for name, command in commands.items()))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"machine": machine(), "versions": versions, "commands": commands,
                       "rows": rows}, file, indent=1)
            file.write("\n")


main()
