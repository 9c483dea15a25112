#!/usr/bin/env python3
"""Compares wrkbench with AIPerf and guidellm on the built-in server in its LLM mode.

Python 3.9 or newer, without packages.

The server sends the first token after 50 ms and one every 10 ms. It polls, on one core; the tools
take turns on another one. CPU time is user and system time of a tool and its processes (wait4(2)).
The other tools take seconds to start, so each tool also makes a short run, and CPU "per token" is
the difference of both runs divided by that of their tokens.
"""

import argparse
import glob
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile

from processes import cpu_of, first_line, serve

FIRST_MS, GAP_MS, TOKENS, STREAMS = 50, 10, 64, 64
# Each stream makes one request in a short run, and eleven more in a long one.
SHORT, LONG = STREAMS, 12 * STREAMS
LIMIT_S = 180
WORDS = "the quick brown fox jumps over a lazy dog".split()


def tokenizer(folder):
    """A tokenizer whose tokens are words: without one, the other tools download the model's."""
    os.makedirs(folder)
    vocabulary = {word: number for number, word in enumerate(["[UNK]"] + WORDS)}
    with open(os.path.join(folder, "tokenizer.json"), "w") as file:
        json.dump(
            {
                "version": "1.0",
                "truncation": None,
                "padding": None,
                "added_tokens": [],
                "normalizer": None,
                "pre_tokenizer": {"type": "Whitespace"},
                "post_processor": None,
                "decoder": None,
                "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
            },
            file,
        )
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
        special = {"unk_token": "[UNK]", "eos_token": "[UNK]", "bos_token": "[UNK]"}
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", **special}, file)


def prompts(path, count):
    """Prompts that are all different, each a line with this key."""
    with open(path, "w") as file:
        for number in range(count):
            file.write(json.dumps({"text": " ".join(WORDS + [str(number)])}) + "\n")


class Wrkbench:
    def __init__(self, program, scratch):
        self.name, self.program, self.scratch = "wrkbench", program, scratch
        self.result = os.path.join(scratch, "wrkbench.json")
        self.version = first_line([program, "--version"])

    def command(self, url, requests):
        return [self.program, "llm", url, "--model", "m", "-t1", f"-c{STREAMS}", f"-n{requests}",
                "--quiet", "--json", self.result]

    def figures(self):
        with open(self.result) as file:
            tokens = json.load(file)["summary"]["llm"]
        first = tokens["first_token"]
        return {
            "first_p50_ms": first["p50_ms"],
            "first_p99_ms": first["p99_ms"],
            "per_token_mean_ms": tokens["time_per_token"]["mean_ms"],
        }


class Aiperf:
    def __init__(self, program, scratch):
        self.name, self.program, self.scratch = "AIPerf", program, scratch
        self.version = first_line([program, "--version"])
        self.prompts = os.path.join(scratch, "aiperf.jsonl")
        prompts(self.prompts, 100)

    def command(self, url, requests):
        self.folder = tempfile.mkdtemp(dir=self.scratch)
        return [self.program, "profile", "-m", "m", "--url", url, "--endpoint-type", "chat",
                "--streaming", "--concurrency", str(STREAMS), "--request-count", str(requests),
                "--use-server-token-count", "--tokenizer", os.path.join(self.scratch, "tokenizer"),
                "--input-file", self.prompts, "--custom-dataset-type", "single_turn",
                "--artifact-dir", self.folder, "--ui", "simple", "--no-auto-plot"]

    def figures(self):
        found = glob.glob(self.folder + "/**/profile_export_aiperf.json", recursive=True)
        with open(found[0]) as file:
            metrics = json.load(file)
        first = metrics["time_to_first_token"]
        return {
            "first_p50_ms": first["p50"],
            "first_p99_ms": first["p99"],
            "per_token_mean_ms": metrics["inter_token_latency"]["avg"],
        }


class Guidellm:
    def __init__(self, program, scratch):
        self.name, self.program, self.scratch = "guidellm", program, scratch
        self.version = first_line([program, "--version"])
        self.result = os.path.join(scratch, "guidellm.json")
        # It sends each prompt once, and a run ends with the last one.
        self.prompts = os.path.join(scratch, "guidellm.jsonl")
        prompts(self.prompts, LONG)

    def command(self, url, requests):
        return [self.program, "run", "--backend", f"kind=openai_http,target={url},model=m",
                "--profile", f"kind=concurrent,streams={STREAMS}",
                "--constraint", f"kind=max_requests,count={requests}",
                "--tokenizer", f"kind=huggingface_auto,model={self.scratch}/tokenizer",
                "--data", f"kind=json_file,path={self.prompts}",
                "--output", f"kind=json,path={self.result}", "--disable-console"]

    def figures(self):
        with open(self.result) as file:
            metrics = json.load(file)["benchmarks"][0]["metrics"]
        done = metrics["request_totals"]["successful"]
        if done != LONG:
            sys.exit(f"llm.py: guidellm made {done} requests of {LONG}")
        first = metrics["time_to_first_token_ms"]["successful"]["percentiles"]
        return {
            "first_p50_ms": first["p50"],
            "first_p99_ms": first["p99"],
            "per_token_mean_ms": metrics["inter_token_latency_ms"]["successful"]["mean"],
        }


def measure(tool, url, core, scratch):
    log = os.path.join(scratch, "log")
    short_s = cpu_of(tool.command(url, SHORT), core, LIMIT_S, log)
    long_s = cpu_of(tool.command(url, LONG), core, LIMIT_S, log)
    tokens = (LONG - SHORT) * TOKENS
    return {
        **tool.figures(),
        "cpu_s": long_s,
        "cpu_us_per_token": (long_s - short_s) * 1e6 / tokens,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wrkbench", default="target/release/wrkbench")
    parser.add_argument("--aiperf", default="aiperf")
    parser.add_argument("--guidellm", default="guidellm")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", help="also write all samples to this file")
    options = parser.parse_args()
    wrkbench = os.path.abspath(options.wrkbench)
    with tempfile.TemporaryDirectory() as scratch:
        tokenizer(os.path.join(scratch, "tokenizer"))
        tools = [Wrkbench(wrkbench, scratch)]
        for name, other in ((options.aiperf, Aiperf), (options.guidellm, Guidellm)):
            program = shutil.which(name)
            if program:
                tools.append(other(program, scratch))
            else:
                print(f"llm.py: no {name}, so it is left out", file=sys.stderr)
        answer = f"llm=openai&tokens={TOKENS}&first={FIRST_MS}ms&gap={GAP_MS}ms"
        server, address = serve(wrkbench, 0, "--answer", answer)
        url = f"http://{address}"
        samples = {tool.name: [] for tool in tools}
        commands = {}
        try:
            for number in range(1, options.repeats + 1):
                for tool in tools:
                    print(f"{tool.name}, {number}/{options.repeats}", file=sys.stderr)
                    samples[tool.name].append(measure(tool, url, 1, scratch))
                    _, *arguments = tool.command("URL", LONG)
                    arguments = " ".join(arguments).replace(scratch, "D")
                    commands[tool.name] = f"{os.path.basename(tool.program)} {arguments}"
        finally:
            server.terminate()
    ours = samples["wrkbench"]
    print(f"\nTokens: {STREAMS} streams of {TOKENS} tokens, first after {FIRST_MS} ms, then one every "
          f"{GAP_MS} ms; {LONG} requests, medians of {options.repeats} runs")
    print(f"{'':10} {'first p50':>10} {'first p99':>10} {'per token':>10} {'CPU s':>8} {'ratio':>7} "
          f"{'us CPU per token':>17} {'ratio':>7}")
    print(f"{'truth':10} {FIRST_MS:>7.2f} ms {FIRST_MS:>7.2f} ms {GAP_MS:>7.2f} ms")
    for tool in tools:
        runs = samples[tool.name]
        median = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        ratio = {
            key: statistics.median(run[key] / our[key] for run, our in zip(runs, ours))
            for key in ("cpu_s", "cpu_us_per_token")
        }
        print(f"{tool.name:10} {median['first_p50_ms']:>7.2f} ms {median['first_p99_ms']:>7.2f} ms "
              f"{median['per_token_mean_ms']:>7.2f} ms {median['cpu_s']:>8.2f} {ratio['cpu_s']:>7.1f} "
              f"{median['cpu_us_per_token']:>17.1f} {ratio['cpu_us_per_token']:>7.1f}")
    if options.json:
        with open(options.json, "w") as file:
            machine = {"system": platform.platform(), "cores": os.cpu_count()}
            versions = {tool.name: tool.version for tool in tools}
            json.dump({"machine": machine, "versions": versions, "commands": commands,
                       "samples": samples}, file, indent=1)
            file.write("\n")


main()
