"""The processes of a comparison: the tools and the built-in server, each on one core."""

import os
import re
import subprocess
import sys

OWN_NAME = os.path.basename(sys.argv[0])


def first_line(command):
    done = subprocess.run(command, capture_output=True, text=True)
    return ((done.stdout or done.stderr).splitlines() or ["unknown"])[0]


def on_core(core, command):
    """taskset(1), where there are several cores."""
    return ["taskset", "-c", str(core)] + command if (os.cpu_count() or 1) > 1 else command


def cpu_of(command, core, limit_s, log):
    """CPU seconds of a command and its processes."""
    with open(log, "w") as output:
        process = subprocess.Popen(
            on_core(core, ["timeout", str(limit_s)] + command), stdout=output, stderr=output,
            stdin=subprocess.DEVNULL,
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        with open(log) as file:
            tail = file.read()[-600:]
        sys.exit(f"{OWN_NAME}: {' '.join(command[:2])} ended with {process.returncode}: {tail}")
    return used.ru_utime + used.ru_stime


def serve(program, core, *options):
    """The built-in server, and its address with its port."""
    command = [program, "serve", "--poll", "--listen", "127.0.0.1:0", *options]
    server = subprocess.Popen(on_core(core, command), stdout=subprocess.PIPE, text=True)
    for line in server.stdout:
        found = re.search(r"127\.0\.0\.1:\d+", line)
        if found:
            return server, found[0]
    sys.exit(f"{OWN_NAME}: the server did not start")
