"""llama.cpp's server with a model of random weights: llama.py FOLDER PORT."""

import random
import signal
import struct
import sys

import xllamacpp

WIDTH, HIDDEN, HEADS = 32, 64, 2
UNKNOWN, BEGIN, END = 0, 1, 2
# Types of tokens in llama.cpp.
NORMAL, UNKNOWN_TYPE, CONTROL, BYTE = 1, 2, 3, 6


def vocabulary():
    """Names and types. Without single bytes, no text can be made into tokens."""
    tokens = [("<unk>", UNKNOWN_TYPE), ("<s>", CONTROL), ("</s>", CONTROL)]
    tokens += [(f"<0x{byte:02X}>", BYTE) for byte in range(256)]
    syllables = [a + b for a in "bcdfghklmnprst" for b in "aeiou"]
    return tokens + [(space + it, NORMAL) for it in syllables for space in ("\u2581", "")]


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def model():
    """A file in the format of llama.cpp: docs/gguf.md of ggml, version 3."""
    u32, f32, string, array = 4, 6, 8, 9
    tokens = vocabulary()

    def listed(kind, items):
        return struct.pack("<IQ", kind, len(items)) + b"".join(items)

    one = lambda kind, value: (kind, struct.pack("<I" if kind == u32 else "<f", value))
    values = {
        "general.architecture": (string, text("llama")),
        "llama.context_length": one(u32, 4096),
        "llama.embedding_length": one(u32, WIDTH),
        "llama.block_count": one(u32, 1),
        "llama.feed_forward_length": one(u32, HIDDEN),
        "llama.attention.head_count": one(u32, HEADS),
        "llama.attention.layer_norm_rms_epsilon": one(f32, 1e-5),
        "llama.rope.dimension_count": one(u32, WIDTH // HEADS),
        "llama.vocab_size": one(u32, len(tokens)),
        "tokenizer.ggml.model": (string, text("llama")),
        "tokenizer.ggml.tokens": (array, listed(string, [text(name) for name, _ in tokens])),
        "tokenizer.ggml.scores": (
            array,
            listed(f32, [struct.pack("<f", -float(rank)) for rank in range(len(tokens))]),
        ),
        "tokenizer.ggml.token_type": (
            array,
            listed(5, [struct.pack("<i", kind) for _, kind in tokens]),
        ),
        "tokenizer.ggml.unknown_token_id": one(u32, UNKNOWN),
        "tokenizer.ggml.bos_token_id": one(u32, BEGIN),
        "tokenizer.ggml.eos_token_id": one(u32, END),
    }
    block = "blk.0."
    shapes = {"token_embd": (WIDTH, len(tokens)), "output": (WIDTH, len(tokens))}
    shapes |= {"output_norm": (WIDTH,), block + "attn_norm": (WIDTH,), block + "ffn_norm": (WIDTH,)}
    shapes |= {f"{block}attn_{name}": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")}
    shapes |= {block + "ffn_gate": (WIDTH, HIDDEN), block + "ffn_up": (WIDTH, HIDDEN)}
    shapes |= {block + "ffn_down": (HIDDEN, WIDTH)}

    drawn = random.Random(7)
    head, data = b"", b""
    for name, shape in shapes.items():
        size = shape[0] * (shape[1] if len(shape) == 2 else 1)
        weights = [drawn.gauss(0, 0.3) if len(shape) == 2 else 1.0 for _ in range(size)]
        head += text(name + ".weight") + struct.pack("<I", len(shape))
        # Of the type 0, numbers of 32 bits. Their sizes are multiples of the alignment.
        head += struct.pack(f"<{len(shape)}QIQ", *shape, 0, len(data))
        data += struct.pack(f"<{size}f", *weights)
    start = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(values))
    for name, (kind, value) in values.items():
        start += text(name) + struct.pack("<I", kind) + value
    start += head
    return start + bytes(-len(start) % 32) + data


folder, port = sys.argv[1:]
path = folder + "/model.gguf"
with open(path, "wb") as file:
    file.write(model())
params = xllamacpp.CommonParams()
params.model.path = path
params.hostnames = ["127.0.0.1"]
params.port = int(port)
params.n_ctx = 2048
params.n_parallel = 4
params.cpuparams.n_threads = 1
params.endpoint_metrics = True
server = xllamacpp.Server(params)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("ready at", server.listening_address, file=sys.stderr, flush=True)
signal.sigwait([signal.SIGTERM])
