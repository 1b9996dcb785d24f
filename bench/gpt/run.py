#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/gpt beside llm.c, PyTorch and Hugging Face Accelerate: tokens per second and peak memory.

    run.py [--rounds N] [--steps N] [--sizes 10,124] [--only REGEX] [--python PYTHON] [--llmc FOLDER] [BUILD_FOLDER]

PYTHON is one that has torch, transformers and accelerate, FOLDER a checkout of karpathy/llm.c.  Without them, these peers
are left out.  All train GPT-2 with steps of 4 sequences of 256 random tokens on 2 processors, AdamW and (but for llm.c)
clipped gradients, from weights that are drawn alike.  Programs run one after the other, in each second round backwards.
A step is the time between the lines that a program prints; speeds are medians over the steps of all rounds.

Peak memory is the sum over a job's processes of their largest resident sets, minus what they share, counted once.
Prints a table in Markdown, then what the products of matrices alone reach."""
import argparse
import os
import re
import selectors
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname (os.path.abspath (__file__))
LENGTH, BATCH, WARMUP = 256, 4, 2
#         vocabulary, positions, layers, heads, width; timed steps in a round
SIZES = { "10": ((256, 256, 6, 6, 384), 20), "124": ((50257, 1024, 12, 12, 768), 4) }
# Ours: what a row says, processes, options of the launcher, and of the program.  The last ones are for least memory.
LEAN = "--recompute 1 --batch_size 1"
DISK = "--use_deepspeed --zero_stage 1 --offload_optimizer_device nvme --offload_optimizer_nvme_path ."
OWN = [("", 1, "--cpu", ""), ("", 2, "--cpu", ""), (" --shard 1", 2, "--cpu", "--shard 1"),
       (" --shard 2", 2, "--cpu", "--shard 2"), (" --tp 2", 2, "--cpu", f"--tp 2 --batch_size {BATCH}"),
       (" " + LEAN, 1, "--cpu", LEAN),
       (" --shard 2 " + LEAN, 2, "--cpu", "--shard 2 " + LEAN), (" " + LEAN + ", states on disk", 1, DISK, LEAN)]


def parameters (vocab, positions, layers, heads, width):
    return (vocab + positions) * width + layers * (12 * width * width + 13 * width) + 2 * width


def descendants (pid):
    found = [pid]
    for task in os.listdir (f"/proc/{pid}/task"):
        with open (f"/proc/{pid}/task/{task}/children", encoding="ascii") as children:
            for child in children.read ().split ():
                found += descendants (int (child))
    return found


def kib (pid, name, *keys):
    with open (f"/proc/{pid}/{name}", encoding="ascii") as file:
        numbers = dict (re.findall (r"^(\w+):\s+(\d+) kB", file.read (), re.M))
    return [int (numbers.get (key, 0)) for key in keys]


def peak_mib (pids):
    """Of processes that now run: all the peaks, less than their sum by what they share now."""
    peaks = sum (kib (pid, "status", "VmHWM")[0] for pid in pids)
    shared = 0
    for pid in pids:
        resident, share = kib (pid, "smaps_rollup", "Rss", "Pss")
        shared += resident - share
    return (peaks - shared) / 1024


class Job:
    """The processes of one variant, for one round."""

    def __init__ (self, commands, environment, folder):
        self.log = open (os.path.join (folder, "errors"), "w+", encoding="utf-8")
        self.processes = [subprocess.Popen (command, stdout=subprocess.PIPE, stderr=self.log, cwd=folder,
                                            env={**environment, **own}) for command, own in commands]

    def steps (self, count):
        """@return the times of @count steps after those for warming up, and the peak, in MiB"""
        out, ends, pending, peak = self.processes[0].stdout, [], b"", None
        with selectors.DefaultSelector () as selector:
            selector.register (out, selectors.EVENT_READ)
            while len (ends) <= WARMUP + count:
                if not selector.select (300):
                    raise RuntimeError ("no step in 300 s")
                data = os.read (out.fileno (), 65536)
                if not data:
                    self.log.seek (0)
                    raise RuntimeError ("it ended early: " + self.log.read ()[-300:].strip ())
                *lines, pending = (pending + data).split (b"\n")
                ends += [time.monotonic () for line in lines if re.match (rb"step +\d+", line)]
        peak = peak_mib ([pid for process in self.processes for pid in descendants (process.pid)])
        return [b - a for a, b in zip (ends[WARMUP:], ends[WARMUP + 1:])][:count], peak

    def end (self):
        pids = [pid for process in self.processes if process.poll () is None for pid in descendants (process.pid)]
        for pid in pids:
            try:
                os.kill (pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for process in self.processes:
            process.stdout.close ()
            process.wait ()
        self.log.close ()


def own_commands (build, shape, tokens, folder, precision, processes, launch, options):
    vocab, positions, layers, heads, width = map (str, shape)
    return [([f"{build}/accelerate", "launch", "--quiet", *launch.split (), "--mixed_precision", precision,
              "--num_processes", str (processes), "--num_cpu_threads_per_process", str (2 // processes),
              f"{build}/examples/gpt/gpt", "--data", tokens, "--format", "uint16", "--vocab_size", vocab,
              "--n_positions", positions, "--n_layer", layers, "--n_head", heads, "--n_embd", width, "--length", str (LENGTH),
              "--batch_size", str (BATCH // processes), "--total_batch_size", str (BATCH), "--lr", "1e-4", "--warmup_steps", "0",
              "--evaluate_every", "100000", "--save_every", "100000", "--steps", "10000", "--sample", "0",
              "--project_dir", os.path.join (folder, "project"), *options.split ()], {})]


def peer_commands (python, shape, tokens, way):
    processes = 2 if way.startswith ("accelerate") else 1
    command = [python, os.path.join (HERE, "peer.py"), way, *map (str, shape), str (LENGTH), str (BATCH // processes),
               "10000", tokens]
    if processes == 1:
        return [(command, {"OMP_NUM_THREADS": "2"})]
    return [(command, {"OMP_NUM_THREADS": "1", "RANK": str (rank), "LOCAL_RANK": str (rank), "WORLD_SIZE": "2",
                       "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29631",
                       "ACCELERATE_USE_CPU": "true"}) for rank in range (2)]


def build_llmc (source, work):
    """@return its program, compiled as its makefile says, and how"""
    shown = subprocess.run (["make", "-n", "train_gpt2"], cwd=source, capture_output=True, text=True, check=True).stdout
    line = next (line for line in shown.splitlines () if "train_gpt2.c" in line)
    words = [os.path.join (HERE, "llmc.c") if word == "train_gpt2.c" else word for word in shlex.split (line)]
    program = words[words.index ("-o") + 1] = os.path.join (work, "llmc")
    subprocess.run (words + ["-I", os.path.abspath (source)], cwd=work, check=True)
    return program, " ".join (word for word in words[:words.index ("-o")] if "/" not in word)


def can_import (python, *names):
    return subprocess.run ([python, "-c", "import " + ", ".join (names)], capture_output=True, check=False).returncode == 0


def find_variants (args, work):
    """@return the commands of each variant, as functions of shape, tokens and folder"""
    found = {}
    for precision, name in (("no", "float32"), ("bf16", "bfloat16")):
        for title, *way in OWN:
            found[f"examples/gpt{title}, {name}, {way[0]} x {2 // way[0]}"] = \
                lambda *a, p=precision, w=way: own_commands (args.build, *a, p, *w)
    if args.llmc:
        program, how = build_llmc (args.llmc, work)
        print (f"llm.c: {how}\n")
        found["llm.c, float32, 1 x 2"] = lambda shape, tokens, folder: [
            ([program, *map (str, shape), str (LENGTH), str (BATCH), "10000", tokens], {"OMP_NUM_THREADS": "2"})]
    else:
        print ("llm.c: left out (--llmc FOLDER)\n")
    ways = []
    if can_import (args.python, "torch", "transformers"):
        ways += [("PyTorch eager", "eager", "1 x 2"), ("PyTorch compile", "compile", "1 x 2")]
        if can_import (args.python, "accelerate"):
            ways += [("Accelerate, gloo", "accelerate", "2 x 1")]
        else:
            print (f"Hugging Face Accelerate: left out ({args.python} cannot import accelerate)\n")
    else:
        print (f"PyTorch: left out ({args.python} cannot import torch and transformers)\n")
    for title, way, form in ways:
        found[f"{title}, float32, {form}"] = lambda s, t, f, w=way: peer_commands (args.python, s, t, w)
        found[f"{title}, bfloat16 autocast, {form}"] = \
            lambda s, t, f, w=way: peer_commands (args.python, s, t, w + "-bfloat16")
    return found


def products (args, shape, environment, precision):
    """@return GFLOP/s of the products alone, and their type and who computes them, as words"""
    vocab, _, layers, _, width = shape
    shown = subprocess.run ([f"{args.build}/bench/gpt/bench_products", str (vocab), str (layers), str (width),
                             str (BATCH * LENGTH), precision], env={**environment, "OMP_NUM_THREADS": "2"}, check=True,
                            capture_output=True, text=True).stdout.split (maxsplit=1)
    return float (shown[0]), shown[1].strip ()


def measure (args, variants, shape, steps, environment, work):
    times, peaks = {name: [] for name in variants}, {}
    tokens = os.path.join (work, "tokens")
    with open (tokens, "wb") as file:
        state = 1
        for _ in range (500000):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            file.write (((state >> 33) % shape[0]).to_bytes (2, "little"))
    for turn in range (args.rounds):
        for name in sorted (times, key=list (variants).index, reverse=turn % 2 == 1):
            folder = tempfile.mkdtemp (dir=work)
            job = Job (variants[name] (shape, tokens, folder), environment, folder)
            try:
                some, peak = job.steps (steps)
                times[name] += some
                peaks[name] = max (peak, peaks.get (name, 0))
                print (f"{name}: {BATCH * LENGTH / statistics.median (some):.0f} tokens/s, {peak:.0f} MiB", file=sys.stderr)
            except RuntimeError as error:
                print (f"{name}: left out: {error}\n")
                del times[name]
            finally:
                job.end ()
                shutil.rmtree (folder)
    return {name: (BATCH * LENGTH / statistics.median (times[name]), peaks[name]) for name in times}


def show (shape, results, speeds):
    """A row for each variant.  Ratios are to the fastest of PyTorch's and Accelerate's with float32."""
    _, _, layers, _, width = shape
    count = parameters (*shape)
    operations = 6 * count + 6 * layers * width * LENGTH  # for each token; half of the scores are masked
    rivals = [name for name in results if re.match ("PyTorch|Accelerate", name)]
    exact = max ((results[name][0] for name in rivals if "float32" in name), default=None)
    narrow = max ((results[name][0] for name in rivals if "bfloat16" in name), default=None)
    memory = min ((results[name][1] for name in rivals), default=None)
    print (f"{count / 1e6:.1f} million parameters (load {os.getloadavg ()[0]:.1f}):\n")
    print ("| Program, type, processes x threads | Tokens/s | of the fastest PyTorch, float32 | of its autocast "
           "| GFLOP/s | Peak MiB | of PyTorch's least |\n|---|---:|---:|---:|---:|---:|---:|")
    ratio = lambda a, b: f"{a / b:.2f}" if b else "-"
    for name, (speed, peak) in results.items ():
        print (f"| {name} | {speed:.0f} | {ratio (speed, exact)} | {ratio (speed, narrow)} "
               f"| {speed * operations / 1e9:.0f} | {peak:.0f} | {ratio (peak, memory)} |")
    print ()
    for precision, (reached, what) in speeds.items ():
        own = max ((speed for name, (speed, _) in results.items () if name.startswith ("examples/gpt")
                   and ("bfloat16" in name) == (precision == "bf16")), default=0)
        if precision == "bf16" and what.startswith ("float32"):
            print ("Products of bfloat16 are slower than float32 here, or missing: examples/gpt keeps such weights, and "
                   "multiplies in float32.\n")
        print (f"Of one step, {what}, alone: {reached:.0f} GFLOP/s; examples/gpt reaches "
               f"{own * operations / 1e7 / reached:.0f} % of it.\n")


def main ():
    parser = argparse.ArgumentParser (description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument ("--rounds", type=int, default=2)
    parser.add_argument ("--sizes", default="10,124", help="million parameters: 10, 124 or both")
    parser.add_argument ("--steps", type=int, default=0, help="timed steps in a round; 0: 20, or 4 of the large model")
    parser.add_argument ("--only", default="", help="regular expression: only variants whose name has it")
    parser.add_argument ("--python", default=sys.executable)
    parser.add_argument ("--llmc")
    parser.add_argument ("build", nargs="?", default=".")
    args = parser.parse_args ()
    args.build = os.path.abspath (args.build)
    # What this shell has set for OpenBLAS or OpenMP would decide the comparison.
    environment = {key: value for key, value in os.environ.items () if not re.match ("OPENBLAS_|OMP_|ACCEL", key)}
    with tempfile.TemporaryDirectory () as work:
        variants = {name: made for name, made in find_variants (args, work).items () if re.search (args.only, name)}
        for size in args.sizes.split (","):
            shape, steps = SIZES[size]
            speeds = {precision: products (args, shape, environment, precision) for precision in ("no", "bf16")}
            show (shape, measure (args, variants, shape, args.steps or steps, environment, work), speeds)
            sys.stdout.flush ()


main ()
