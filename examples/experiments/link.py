#!/usr/bin/env python3
"""A link with delay and loss between two network namespaces, for kernels without netem.

    sudo python3 link.py up                     # makes the namespaces, forwards until interrupted
    sudo python3 link.py set loss=1 rtt=40      # percent each way; milliseconds

The namespaces are wrkbench-client (10.99.0.1) and wrkbench-server (10.99.0.2):

    sudo ip netns exec wrkbench-server nginx ...
    sudo ip netns exec wrkbench-client wrkbench https://10.99.0.2:8443/

Each packet is delayed by half of the round trip time, and lost with the same probability in both
directions, independently of all others. The link has no limit of its own for its rate: on one core
it forwards some 100,000 packets a second. With netem, a settings command of the experiment such as
`tc qdisc change dev eth0 root netem delay 20ms loss $LEVEL%` takes the place of this script.
"""

import argparse
import collections
import contextlib
import fcntl
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import time

ENDS = (("wrkbench-client", "10.99.0.1"), ("wrkbench-server", "10.99.0.2"))
# A file, so that it can be reached from within the namespaces, too.
CONTROL = "/run/wrkbench-link.sock"
MTU_BYTES = 1500
READS_PER_TURN = 64
# linux/if_tun.h
TUNSETIFF = 0x400454CA
IFF_TUN = 0x0001
IFF_NO_PI = 0x1000


def ip(*words, may_fail=False):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0 and not may_fail:
        sys.exit(f"link.py: ip {' '.join(words)}: {done.stderr.strip()}")


def make_end(namespace, address, number):
    """The network device of one end. Packets that the namespace sends are read from it."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    name = f"wblink{number}"
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    # A namespace of this name is left over from a link that was killed.
    ip("netns", "delete", namespace, may_fail=True)
    ip("netns", "add", namespace)
    ip("link", "set", name, "netns", namespace)
    inside = ("-netns", namespace)
    ip(*inside, "link", "set", "lo", "up")
    ip(*inside, "address", "add", f"{address}/24", "dev", name)
    ip(*inside, "link", "set", name, "txqueuelen", "10000", "up")
    return device


class Direction:
    """Packets on their way from one end to the other."""

    def __init__(self, source, target):
        self.source = source
        self.target = target
        self.waiting = collections.deque()
        self.forwarded = 0
        self.lost = 0

    def take(self, now, settings, chance):
        for _ in range(READS_PER_TURN):
            try:
                packet = os.read(self.source, MTU_BYTES)
            except BlockingIOError:
                return
            if chance.random() < settings["loss"] / 100:
                self.lost += 1
            else:
                self.waiting.append((now + settings["rtt"] / 2000, packet))

    def give(self, now):
        while self.waiting and self.waiting[0][0] <= now:
            try:
                os.write(self.target, self.waiting.popleft()[1])
                self.forwarded += 1
            except OSError:
                self.lost += 1

    def due(self):
        return self.waiting[0][0] if self.waiting else float("inf")


def parse(words, settings):
    """The settings after words like `loss=1`; ValueError explains a word that is none."""
    changed = dict(settings)
    for word in words:
        name, _, value = word.partition("=")
        if name not in changed:
            raise ValueError(f"{word}: expected loss=PERCENT or rtt=MILLISECONDS")
        changed[name] = float(value)
    if not 0 <= changed["loss"] <= 100 or not 0 <= changed["rtt"] <= 60_000:
        raise ValueError("loss is 0 to 100 percent, rtt 0 to 60,000 ms")
    return changed


def forward(devices, control, settings, chance):
    ways = [Direction(devices[0], devices[1]), Direction(devices[1], devices[0])]
    while True:
        now = time.monotonic()
        pause = max(0.0, min(way.due() for way in ways) - now)
        readable, _, _ = select.select([*devices, control], [], [], min(pause, 3600.0))
        now = time.monotonic()
        for way in ways:
            if way.source in readable:
                way.take(now, settings, chance)
            way.give(now)
        if control in readable:
            asking, _ = control.accept()
            asking.settimeout(1)
            try:
                settings = parse(asking.recv(4096).decode().split(), settings)
                answer = f"loss {settings['loss']:g} %, rtt {settings['rtt']:g} ms"
                for (name, _), way in zip(ENDS, ways):
                    answer += f"; from {name}: {way.forwarded} forwarded, {way.lost} lost"
            except ValueError as why:
                answer = f"error: {why}"
            except OSError:
                continue
            with contextlib.suppress(OSError):
                asking.sendall(answer.encode())
            asking.close()


def up(seed):
    if os.geteuid() != 0:
        sys.exit("link.py: making network namespaces needs root: use sudo")
    if ask(" ") is not None:
        sys.exit("link.py: there is a link already: interrupt it, or use link.py set")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(CONTROL)
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.bind(CONTROL)
    control.listen()
    devices = [make_end(*end, number) for number, end in enumerate(ENDS)]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(f"link.py: ready, seed {seed}", flush=True)
    try:
        forward(devices, control, {"loss": 0.0, "rtt": 0.0}, random.Random(seed))
    except KeyboardInterrupt:
        pass
    finally:
        os.unlink(CONTROL)
        for namespace, _ in ENDS:
            ip("netns", "delete", namespace, may_fail=True)


def ask(words):
    """The answer of the link; None if there is no link."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.settimeout(5)
    try:
        control.connect(CONTROL)
        control.sendall(words.encode())
        return control.recv(4096).decode()
    except OSError:
        return None


def change(words):
    answer = ask(" ".join(words) or " ")
    if answer is None:
        sys.exit("link.py: there is no link: start one with link.py up")
    if answer.startswith("error: "):
        sys.exit(f"link.py: {answer.removeprefix('error: ')}")
    print(f"link.py: {answer}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    starting = commands.add_parser("up", help="make the namespaces and forward until interrupted")
    starting.add_argument("--seed", type=int, default=random.randrange(2**32))
    changing = commands.add_parser("set", help="change loss (percent) and rtt (milliseconds)")
    changing.add_argument("settings", nargs="*", metavar="NAME=VALUE")
    options = parser.parse_args()
    if options.command == "up":
        up(options.seed)
    else:
        change(options.settings)


if __name__ == "__main__":
    main()
