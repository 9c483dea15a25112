#!/usr/bin/env python3
"""Makes a request file for wrkbench of a public trace of a language model's server.

    python3 llm_trace.py --model M < trace > requests.jsonl
    wrkbench -c200 --timeout 10m --events llm --requests requests.jsonl http://127.0.0.1:8000/

The columns tell which trace it is:

- Mooncake, JSON lines: timestamp (milliseconds), input_length, output_length, hash_ids
- BurstGPT, CSV: Timestamp (seconds), Request tokens, Response tokens
- Azure LLM inference, CSV: TIMESTAMP (date and time), ContextTokens, GeneratedTokens

Traces have no text. Prompts are made of words, one for each token of the trace; how many tokens a
word is, the server's tokenizer decides. Words of Mooncake's blocks depend on the id of the block
only, so prompts share the prefixes that they shared in the trace. Other prompts differ from their
first word on.
"""

import argparse
import csv
import datetime
import json
import random
import re
import sys

# Tokens of a block in Mooncake's traces.
BLOCK = 512

# Words of one or two tokens in most tokenizers.
WORDS = (
    "time year people way day man thing woman life child world school state family student group "
    "country problem hand part place case week company system program question work number night "
    "point home water room mother area money story fact month lot right study book eye job word"
).split()


def words(seed, count):
    """The first `count` words of an endless text. Equal seeds have the same text."""
    chosen = random.Random(seed)
    # The seed is a word itself: with 50 words some texts would begin alike.
    return ([str(seed)] + [chosen.choice(WORDS) for _ in range(count - 1)])[:count]


def number(row, name):
    """A whole number from 0 on in a row."""
    value = float(row[name])
    if not 0 <= value < 1e9:
        raise ValueError(f"{name} is {row[name]}")
    return int(value)


def milliseconds(text):
    """Milliseconds since 1970 of a date and a time with up to 9 digits after the point."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?", text)
    if not found:
        raise ValueError(f"{text!r} is not a date and time")
    zone = (found[3] or "+00:00").replace("Z", "+00:00")
    seconds = datetime.datetime.fromisoformat(found[1] + zone).timestamp()
    return seconds * 1000 + float(found[2] or 0) * 1000


def mooncake(lines):
    """Moment, prompt and output of each line of Mooncake."""
    for index, line in enumerate(lines):
        row = json.loads(line)
        left, prompt = number(row, "input_length"), []
        for block in row.get("hash_ids", []):
            prompt += words(f"block{int(block)}", min(left, BLOCK))
            left -= min(left, BLOCK)
        # What is longer than its blocks is no part of a prefix.
        prompt += words(f"rest{index}", left)
        yield float(row["timestamp"]), prompt, number(row, "output_length")


def table(lines, columns, moment):
    """Moment, prompt and output of each row of a CSV table."""
    at, prompt, output = columns
    for index, row in enumerate(csv.DictReader(lines)):
        text = words(f"request{index}", number(row, prompt))
        yield moment(row[at].strip()), text, number(row, output)


BURST_GPT = ("Timestamp", "Request tokens", "Response tokens")
AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def requests_of(lines):
    """The requests of a trace, whichever it is."""
    first = next(lines, "").lstrip("\ufeff")

    def again():
        yield first
        yield from (line for line in lines if line.strip())

    names = {name.strip() for name in first.split(",")}
    if first.startswith("{"):
        return mooncake(again())
    if names.issuperset(BURST_GPT):
        return table(again(), BURST_GPT, lambda text: float(text) * 1000)
    if names.issuperset(AZURE):
        return table(again(), AZURE, milliseconds)
    sys.exit(f"llm_trace.py: the first line is of no known trace: {first.strip()[:80]!r}")


def main():
    """Reads a trace from stdin and writes a request file to stdout."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--model", default="m", help="name of the model")
    options.add_argument("--path", default="/v1/chat/completions", help="path on the server")
    options.add_argument("--limit", type=int, help="only so many requests")
    options.add_argument(
        "--ignore-eos",
        action="store_true",
        help="have the server generate as many tokens as in the trace (vLLM, SGLang)",
    )
    given = options.parse_args()
    written, left_out = 0, 0
    try:
        for at, prompt, output in requests_of(iter(sys.stdin)):
            if written == given.limit:
                break
            if not 0 <= at <= 9e12:
                raise ValueError(f"the moment is {at} ms")
            # Those that failed; a server refuses them, too.
            if not prompt or output == 0:
                left_out += 1
                continue
            body = {
                "model": given.model,
                "stream": True,
                "stream_options": {"include_usage": True},
                "max_tokens": output,
                "messages": [{"role": "user", "content": " ".join(prompt)}],
            }
            if given.ignore_eos:
                body["ignore_eos"] = True
            request = {
                "at": round(at, 6),
                "path": given.path,
                "headers": {"Content-Type": "application/json"},
                "body_text": json.dumps(body, separators=(",", ":")),
            }
            print(json.dumps(request, separators=(",", ":")))
            written += 1
    except (KeyError, TypeError, ValueError) as error:
        line = written + left_out + 1
        sys.exit(f"llm_trace.py: request {line} of the trace: {type(error).__name__}: {error}")
    print(f"llm_trace.py: {written} requests, {left_out} without tokens left out", file=sys.stderr)


if __name__ == "__main__":
    main()
