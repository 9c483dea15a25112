"""The processes of a comparison: the tools and the built-in server, each on one core."""

import os
import re
import subprocess
import sys
import threading
import time

OWN_NAME = os.path.basename(sys.argv[0])


def first_line(command):
    done = subprocess.run(command, capture_output=True, text=True)
    return ((done.stdout or done.stderr).splitlines() or ["unknown"])[0]


def on_core(core, command):
    """taskset(1), where there are several cores."""
    return ["taskset", "-c", str(core)] + command if (os.cpu_count() or 1) > 1 else command


def cpu_of(command, core, limit_s, log):
    """CPU seconds of a command and its processes."""
    return measure(command, core, limit_s, log)["cpu_s"]


def measure(command, core, limit_s, log, result=None, core_of_memory=None):
    """What a command and its processes took: CPU seconds, and seconds until a line of the output
    has the regular expression `result`. With `core_of_memory`, the largest sum of their memory,
    read on this core.
    """
    began_s = time.monotonic()
    process = subprocess.Popen(
        on_core(core, ["timeout", str(limit_s)] + command), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, errors="replace",
        start_new_session=True,
    )
    took, ended = {}, threading.Event()
    if core_of_memory is not None:
        watch = threading.Thread(target=watch_memory,
                                 args=(process.pid, core_of_memory, ended, took))
        watch.start()
    with open(log, "w") as output:
        for line in process.stdout:
            output.write(line)
            if result and "result_s" not in took and re.search(result, line):
                took["result_s"] = time.monotonic() - began_s
    _, status, used = os.wait4(process.pid, 0)
    ended.set()
    if core_of_memory is not None:
        watch.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0 or (result and "result_s" not in took):
        with open(log) as file:
            tail = file.read()[-600:]
        sys.exit(f"{OWN_NAME}: {' '.join(command[:2])} ended with {process.returncode}: {tail}")
    return {"cpu_s": used.ru_utime + used.ru_stime, **took}


def watch_memory(session, core, ended, took):
    """The largest sum of the memory of a session's processes, until it has ended. A page that
    several of them share counts once (proc_pid_smaps(5)).
    """
    if (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {core})
    most_kb = 0
    while not ended.wait(0.25):
        most_kb = max(most_kb, sum(map(memory_kb, processes_of(session))))
    took["memory_mb"] = most_kb / 1000


def processes_of(session):
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getsid(int(name)) == session:
                yield name
        except ProcessLookupError:
            pass


def memory_kb(process):
    try:
        with open(f"/proc/{process}/smaps_rollup") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
    except (FileNotFoundError, ProcessLookupError):
        return 0


def serve(program, core, *options):
    """The built-in server, and its address with its port."""
    command = [program, "serve", "--poll", "--listen", "127.0.0.1:0", *options]
    server = subprocess.Popen(on_core(core, command), stdout=subprocess.PIPE, text=True)
    for line in server.stdout:
        found = re.search(r"127\.0\.0\.1:\d+", line)
        if found:
            return server, found[0]
    sys.exit(f"{OWN_NAME}: the server did not start")
