#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Has the library become slower?  Measure two builds of it in turns, and compare them case by case.

  compare.py [OPTION...] OLD_BUILD NEW_BUILD

OLD_BUILD and NEW_BUILD are build folders of two commits.  The benchmarks of this source tree are compiled against the
headers of each, and linked to its libaccel.a.  Both jobs then run at the same time, each under its own launcher; while
one measures a block of some milliseconds, the other sleeps (turns.h).

Blocks that were measured next to each other give a ratio, the median of a launch's blocks that of the launch.  Launches
differ, because the same lines of memory lie elsewhere in the caches of each, so "ratio" is the median of several
launches, and "from" and "to" are its 95 % confidence interval (of less than six launches: the least and the greatest).
"fastest" compares the fastest blocks of all launches.  A case is worse if the whole interval is above --limit.
Compare a build with itself to see how much of this is noise.

Exits with 1 if a case is worse.
"""
import argparse
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
CC = shlex.split(os.environ.get("CC", "cc"))


class Build:
    """A build folder and the benchmarks linked to its library."""

    def __init__(self, folder, name, work):
        self.folder, self.name, self.work = os.path.abspath(folder), name, work
        with open(os.path.join(self.folder, "Makefile"), encoding="utf-8") as makefile:
            found = re.search(r"^abs_top_srcdir = (.*)$", makefile.read(), re.M)
        self.source = found.group(1)
        self.programs = {}

    def program(self, name):
        if name not in self.programs:
            path = os.path.join(self.work, f"{name}_{self.name}")
            objects = plain_objects(self.work) if name == "bench_train" else []
            subprocess.run(CC + ["-std=gnu11", "-O2", "-pthread", "-o", path, f"-I{self.folder}",
                                 f"-I{self.source}/include", f"-I{TOP}", f"-I{TOP}/src", f"{HERE}/{name}.c"] + objects
                           + [f"{self.folder}/.libs/libaccel.a", "-lm"], check=True)
            self.programs[name] = path
        return self.programs[name]


def plain_objects(work):
    """The loops by hand of bench_train: the same for both builds."""
    parts = {"train_network": ["-O3"], "train_adamw_o3": ["-O3"], "train_adamw_native": ["-O3", "-march=native"],
             "train_adamw_fast": ["-O3", "-march=native", "-ffast-math"]}
    objects = []
    for part, flags in parts.items():
        path = os.path.join(work, part + ".o")
        objects.append(path)
        if os.path.exists(path):
            continue
        source, name = re.sub(r"(adamw)_.*", r"\1", part), part.replace("train_", "")
        subprocess.run(CC + flags + ["-std=gnu11", "-c", "-o", path, f"-I{TOP}", f"-DADAMW={name}",
                                     f"{HERE}/{source}.c"], check=True)
    return objects


def run_in_turns(builds, work, seconds, ranks, program, arguments):
    """Both jobs at once, for @seconds at most.  The build that is first has the first block.  @return what each printed
    """
    turns = os.path.join(work, "turns")
    open(turns, "w", encoding="utf-8").close()
    os.truncate(turns, 0)
    jobs = []
    for which, build in enumerate(builds):
        command = [build.program(program)] + [str(a) for a in arguments]
        if ranks > 1:
            command = [os.path.join(build.folder, "accelerate"), "launch", "--cpu", "--num_processes", str(ranks),
                       "--quiet", "--main_process_port", "0", "--num_cpu_threads_per_process", "1"] + command
        environment = dict(os.environ, BENCH_TURNS=f"{turns} {which} {2 * ranks}")
        output = open(os.path.join(work, f"output{which}"), "w+", encoding="utf-8")
        jobs.append((subprocess.Popen(command, env=environment, stdout=output), output))
    failed = False
    try:
        for job, _ in jobs:
            failed = job.wait(seconds) != 0 or failed
    except subprocess.TimeoutExpired:
        print(f"stopped after {seconds} s: cases that are not finished are left out")
    finally:
        for job, _ in jobs:
            job.terminate()
            job.wait()
    if failed:
        sys.exit(f"compare.py: {program} {' '.join(map(str, arguments))} failed")
    texts = []
    for _, output in jobs:
        output.seek(0)
        texts.append(output.read())
        output.close()
    return texts


def series(text):
    """Lines "name size times..." of @text."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) > 2 and not words[0].startswith(("loss-", "reduce-")):
            found[words[0], words[1]] = [float(word) for word in words[2:]]
    return found


def interval(ratios):
    """Between which values the median is, in 95 of 100 cases, whatever the distribution."""
    ordered, count = sorted(ratios), len(ratios)
    off = int(0.98 * count ** 0.5 + 0.5)
    return ordered[max(0, (count - 1) // 2 - off)], ordered[min(count - 1, count // 2 + off)]


def report(title, launches, limit):
    """Of each launch, what the old build printed and what the new one did.  @return how many cases are worse"""
    print(f"\n{title}\n{'case':36} {'size':>9} {'old us':>10} {'new us':>10} {'ratio':>7} {'from':>7} {'to':>7} "
          f"{'fastest':>7}")
    worse = 0
    for case in launches[0][0]:
        pairs = [(old.get(case, []), new.get(case, [])) for old, new in launches]
        pairs = [(before, after) for before, after in pairs if before and len(before) == len(after)]
        if not pairs:
            continue
        before, after = (sum(times, []) for times in zip(*pairs))
        ratios = [statistics.median(b / a for a, b in zip(old, new)) for old, new in pairs]
        low, high = interval(ratios)
        digits = 3 if min(before) < 10 else 1
        worse += low > limit
        print(f"{case[0]:36} {case[1]:>9} {statistics.median(before):10.{digits}f} "
              f"{statistics.median(after):10.{digits}f} {statistics.median(ratios):7.3f} {low:7.3f} {high:7.3f} "
              f"{min(after) / min(before):7.3f}{'  worse' if low > limit else ''}")
    sys.stdout.flush()
    return worse


def measure(builds, work, options, run):
    """@return how many cases of @run are worse"""
    ranks, program, arguments = run
    launches = []
    for launch in range(options.launches):
        order = builds if launch % 2 == 0 else builds[::-1]
        texts = run_in_turns(order, work, options.seconds, ranks, program, arguments)
        launches.append([series(text) for text in (texts if launch % 2 == 0 else texts[::-1])])
    return report(f"{program} {' '.join(map(str, arguments))}, {ranks} rank{'s' if ranks > 1 else ''}, "
                  f"{options.launches} launches", launches, options.limit)


def cases(part, blocks, largest):
    """Ranks, program and arguments of the runs of @part."""
    if part == "collectives":
        return [(2, "bench_compare", [blocks, largest])]
    if part == "data":
        return [(1, "bench_data", ["index", 1000000, min(100, blocks)]),
                (1, "bench_data", ["read", min(100, blocks)])]
    runs = []
    for size, steps in ((100000, 16 * blocks), (10000000, max(4, blocks))):
        runs += [(1, "bench_train", ["step", size, blocks]), (2, "bench_train", ["several", size, steps]),
                 (1, "bench_train", ["adamw", size, steps, 1])]
    return runs + [(2, "bench_train", ["overlap", 10000000, max(4, blocks)])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--launches", type=int, default=8, help="of each benchmark and build (8)")
    parser.add_argument("--blocks", type=int, default=5, help="blocks of each case in a launch (5)")
    parser.add_argument("--parts", default="collectives,data,train", help="of collectives,data,train (all)")
    parser.add_argument("--cases", default="", help="only runs whose command has this word")
    parser.add_argument("--largest", type=int, default=64 << 20, help="bytes of the largest collective (64 MiB)")
    parser.add_argument("--seconds", type=int, default=900, help="the longest launch (900)")
    parser.add_argument("--limit", type=float, default=1.02, help="the worst ratio allowed (1.02)")
    options = parser.parse_args()
    worse = 0
    with tempfile.TemporaryDirectory() as work:
        builds = [Build(options.old, "old", work), Build(options.new, "new", work)]
        for part in options.parts.split(","):
            for run in cases(part, options.blocks, options.largest):
                if options.cases in f"{run[1]} {' '.join(map(str, run[2]))}":
                    worse += measure(builds, work, options, run)
    print(f"\nworse than {options.limit}: {worse or 'none'}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
