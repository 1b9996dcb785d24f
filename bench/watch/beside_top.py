#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps of a job with `accelerate top` on a terminal beside it, and without it, in turns: beside_top.py ACCELERATE
BENCH_WATCH [ROUNDS].  Also how much processor time top takes."""
import os
import pty
import statistics
import subprocess
import sys
import threading
import time

accelerate, program = sys.argv[1:3]
rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
STEPS = 2500


def processor_time(pid):
    """@return seconds of its first thread; the other one waits for NVML"""
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0]) / 1e9


def read_all(controller):
    try:
        while os.read(controller, 65536):
            pass
    except OSError:  # top has ended
        pass


def run(watched):
    """@return median and mean time of a step in us, share of a processor that top took"""
    share = 0
    with subprocess.Popen([accelerate, "launch", "--quiet", "--cpu", "--num_processes", "2", program, "steps",
                           str(STEPS)], stdout=subprocess.PIPE, text=True) as job:
        if watched:
            time.sleep(0.5)
            controller, slave = pty.openpty()
            with subprocess.Popen([accelerate, "top", str(job.pid)], stdin=slave, stdout=slave, stderr=slave,
                                  start_new_session=True, env={**os.environ, "TERM": "xterm"}) as top:
                os.close(slave)
                threading.Thread(target=read_all, args=(controller,), daemon=True).start()
                time.sleep(1)
                before, begin = processor_time(top.pid), time.monotonic()
                time.sleep(4)
                share = (processor_time(top.pid) - before) / (time.monotonic() - begin)
                top.terminate()
        median, mean = job.communicate()[0].split()
    return float(median), float(mean), share


results = {False: [], True: []}
for _ in range(rounds):
    for watched in (False, True):
        results[watched].append(run(watched))
for column, name in ((0, "median"), (1, "mean")):
    alone, beside = (statistics.median(r[column] for r in results[w]) for w in (False, True))
    print(f"steps: {name} {alone:.1f} us alone, {beside:.1f} us beside top ({(beside / alone - 1) * 100:+.2f} %)")
print(f"top: {statistics.median(r[2] for r in results[True]) * 100:.2f} % of a processor")
