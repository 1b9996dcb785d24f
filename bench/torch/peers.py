# SPDX-License-Identifier: Apache-2.0
"""torch.distributed on CPUs: accel beside gloo, in turns in the same processes.

    accelerate launch --cpu --num_processes 2 peers.py [ROUNDS]

Times are those of the slowest rank; printed are medians of all rounds.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import accel_torch  # noqa: F401
from accel_torch._library import errors, library

rounds = int((sys.argv[1:] or ["5"])[0])
torch.set_num_threads(1)
dist.init_process_group("accel")
rank, size = dist.get_rank(), dist.get_world_size()
groups = {"accel": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}


def measure(calls: dict[str, Callable[[], object]], count: int) -> dict[str, float]:
    """Median of the microseconds of `count` calls of each peer per round; the first round does not count."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for round_ in range(rounds + 1):
        for name, call in calls.items():
            dist.barrier()
            for _ in range(count if round_ else 1):
                began = time.perf_counter()
                call()
                times[name].append((time.perf_counter() - began) * 1e6)
    medians = {}
    for name, values in times.items():
        slowest = torch.tensor(values[1:], dtype=torch.float64)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        medians[name] = statistics.median(slowest.tolist())
    return medians


def say(line: str) -> None:
    if rank == 0:
        print(line, flush=True)


def reduce() -> None:
    say(f"all_reduce, float32 sum, {size} ranks: medians of {rounds} rounds in turns")
    say("     bytes    accel us     gloo us  gloo/accel")
    for power in range(2, 27, 2):
        tensor = torch.zeros(2**power // 4)
        times = measure(
            {name: lambda group=group: dist.all_reduce(tensor, group=group) for name, group in groups.items()},
            max(4, min(200, 2**24 // 2**power)),
        )
        say(f"{2**power:10} {times['accel']:11.1f} {times['gloo']:11.1f} {times['gloo'] / times['accel']:11.2f}")


def steps() -> None:
    say(f"\nsteps of DDP, {size} ranks, batches of 16, plain SGD; alone: the same without DDP, in both processes")
    say("parameters    accel us     gloo us    alone us  gloo/accel")
    for width, depth in ((180, 3), (577, 3), (1825, 3)):
        calls = {}
        for name, group in {**groups, "alone": None}.items():
            torch.manual_seed(0)
            model = nn.Sequential(*(layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())))
            ready = DistributedDataParallel(model, process_group=group) if group else model
            optimizer = torch.optim.SGD(model.parameters(), 0.01)
            batch = torch.randn(16, width)

            def step(ready=ready, optimizer=optimizer, batch=batch) -> None:
                optimizer.zero_grad()
                ready(batch).square().mean().backward()
                optimizer.step()

            calls[name] = step
        count = sum(parameter.numel() for parameter in model.parameters())
        times = measure(calls, 30 if count < 1e6 else 10)
        say(
            f"{count:10} {times['accel']:11.1f} {times['gloo']:11.1f} {times['alone']:11.1f} "
            f"{times['gloo'] / times['accel']:11.2f}"
        )


def calls() -> None:
    """What one call costs from Python to C and back, by the layers that add to it: an all-reduce of 4 bytes."""
    tensor, comm = torch.zeros(1), dist.group.WORLD._comm
    pointer, reduce_one = tensor.data_ptr(), library().comm_all_reduce
    options = dist.AllreduceOptions()
    options.asyncOp = False

    def start_and_wait() -> None:
        work = ctypes.c_void_p()
        library().comm_all_reduce_start(b"", 0, work, comm, pointer, pointer, 1, 0, 0, errors.pointer)
        library().work_wait(work, errors.pointer)

    times = measure(
        {
            "ctypes": lambda: reduce_one(b"", 0, comm, pointer, pointer, 1, 0, 0, errors.pointer),
            "ctypes, start and wait": start_and_wait,
            "ProcessGroup.allreduce": lambda: groups["accel"].allreduce([tensor], options),
            "dist.all_reduce": lambda: dist.all_reduce(tensor),
            "dist.all_reduce, async_op": lambda: dist.all_reduce(tensor, async_op=True).wait(),
            "gloo": lambda: dist.all_reduce(tensor, group=groups["gloo"]),
        },
        500,
    )
    say(f"\none all-reduce of 4 bytes, {size} ranks")
    for name, microseconds in times.items():
        say(f"  {name:26} {microseconds:8.1f} us")


reduce()
steps()
calls()
dist.destroy_process_group()
