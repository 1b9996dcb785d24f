# SPDX-License-Identifier: Apache-2.0
"""torch.distributed on CPUs: accel beside gloo, in turns in the same processes.

    accelerate launch --cpu --num_processes 2 peers.py [--fastest] [--large | --overlap] [ROUNDS [PARAMETERS...]]

Times are those of the slowest rank; printed are medians of all rounds.  "shared" is accel with tensors, and buckets of
DistributedDataParallel, in memory that all ranks have mapped; "accel" has all in torch's own.  "empty" has a process
group whose all-reduce is one line of Python, and does nothing: no group in Python can be faster.

PARAMETERS: only steps, of models of about so many
--fastest: not medians, but the lowest, for machines on which other programs run
--large: only all-reduces of 25 and 64 MiB, one in a turn
--overlap: only steps, as DistributedDataParallel makes them, and with the same buckets reduced after the backward pass
"""

from __future__ import annotations

import ctypes
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import nn
from torch._C import _distributed_c10d
from torch.nn.parallel import DistributedDataParallel

import accel_torch  # noqa: F401
from accel_torch import _memory
from accel_torch._library import errors, library

words = [word for word in sys.argv[1:] if not word.startswith("-")]
is_fastest = "--fastest" in sys.argv
LARGE = (25 * 2**20, 2**26)
rounds = int((words or ["5"])[0])
torch.set_num_threads(1)
dist.init_process_group("accel")
rank, size = dist.get_rank(), dist.get_world_size()
groups = {"accel": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}


def measure(calls: dict[str, Callable[[], object]], count: int) -> dict[str, float]:
    """Median, or the lowest, of the microseconds of `count` calls of each peer per round but the first."""
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
        medians[name] = (min if is_fastest else statistics.median)(slowest.tolist())
    return medians


def say(line: str) -> None:
    if rank == 0:
        print(line, flush=True)


def reduce(lengths: Sequence[int], most: int) -> None:
    say(f"all_reduce, float32 sum, {size} ranks: {'lowest' if is_fastest else 'medians'} of {rounds} rounds in turns")
    say("     bytes    accel us   shared us     gloo us  gloo/accel  gloo/shared")
    for length in lengths:
        tensor = torch.zeros(length // 4)
        calls = {name: lambda group=group: dist.all_reduce(tensor, group=group) for name, group in groups.items()}
        shared = groups["accel"].allocate_tensor(length // 4, dtype=torch.float32, device="cpu").zero_()
        if groups["accel"].arena.holds(shared):
            calls["shared"] = lambda shared=shared: dist.all_reduce(shared)
        times = measure(calls, min(most, max(4, min(200, 2**24 // length))))
        ratio = f"{times['gloo'] / times['shared']:12.2f}" if "shared" in times else ""
        between = f"{times['shared']:11.1f}" if "shared" in times else " " * 11
        say(
            f"{length:10} {times['accel']:11.1f} {between} {times['gloo']:11.1f} {times['gloo'] / times['accel']:11.2f}"
            f"{ratio}"
        )


def reduce_late(group: dist.ProcessGroup) -> Callable[[object, dist.GradBucket], torch.futures.Future[torch.Tensor]]:
    """@return a hook that averages all buckets when the last one is complete"""
    waiting: list[tuple[torch.Tensor, torch.futures.Future[torch.Tensor]]] = []

    def hook(_state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        waiting.append((bucket.buffer(), future))
        if bucket.is_last():
            for buffer, done in waiting:
                dist.all_reduce(buffer.div_(size), group=group)
                done.set_result(buffer)
            waiting.clear()
        return future

    hook.__annotations__.clear()  # these are texts, and torch expects types
    return hook


done: dict[int, dist.Work] = {}  # by the size of the bucket


def reduce_nothing(tensors: list[torch.Tensor], _options: object = None) -> dist.Work:
    work = done.get(tensors[0].numel())
    if work is None:
        future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
        future.set_result(tensors)
        work = done[tensors[0].numel()] = _distributed_c10d._create_work_from_future(future)
    return work


def make_step(name: str, width: int, depth: int, is_late: bool = False) -> tuple[Callable[[], None], int]:
    """A step of training, and the number of parameters."""
    torch.manual_seed(0)
    model = nn.Sequential(*(layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())))
    _memory.is_on = name == "shared"
    group = {**groups, "shared": groups["accel"], "empty": groups["accel"]}.get(name)
    ready = DistributedDataParallel(model, process_group=group) if group else model
    if is_late and group:
        ready.register_comm_hook(None, reduce_late(group))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    batch = torch.randn(16, width)

    def step() -> None:
        _memory.is_on = name == "shared"  # buckets are made again in the second step
        optimizer.zero_grad()
        ready(batch).square().mean().backward()
        optimizer.step()

    def step_empty() -> None:
        groups["accel"].allreduce = reduce_nothing
        step()
        del groups["accel"].allreduce

    return step_empty if name == "empty" else step, sum(parameter.numel() for parameter in model.parameters())


def steps(shapes: Sequence[tuple[int, int]]) -> None:
    say(f"\nsteps of DDP, {size} ranks, batches of 16, plain SGD; alone: the same without DDP, in all processes")
    say("parameters    accel us   shared us    empty us     gloo us    alone us  gloo/accel  gloo/shared")
    for width, depth in shapes:
        calls = {}
        names = ("accel", "shared", "empty", "gloo", "alone")
        for name in names:
            calls[name], count = make_step(name, width, depth)
        for _ in range(2):
            for call in calls.values():
                call()
        times = measure(calls, 30 if count < 1e6 else 10 if count < 3e7 else 3)
        columns = " ".join(f"{times[name]:11.1f}" for name in names)
        say(f"{count:10} {columns} {times['gloo'] / times['accel']:11.2f} {times['gloo'] / times['shared']:12.2f}")
    _memory.is_on = True


def overlaps(shapes: Sequence[tuple[int, int]]) -> None:
    say(f"\nsteps of DDP, {size} ranks, as above; late: the same buckets, but reduced after the backward pass")
    say("parameters    accel us  late  shared us  late    gloo us  late    alone us")
    for width, depth in shapes:
        calls, names = {}, ("accel", "shared", "gloo")
        for name in names:
            calls[name], _ = make_step(name, width, depth)
            calls[f"{name} late"], _ = make_step(name, width, depth, is_late=True)
        calls["alone"], count = make_step("alone", width, depth)
        for _ in range(3):
            for call in calls.values():
                call()
        times = measure(calls, 30 if count < 1e6 else 10 if count < 3e7 else 3)
        columns = " ".join(f"{times[name]:10.1f} {times[f'{name} late'] / times[name]:5.2f}" for name in names)
        say(f"{count:10}  {columns}  {times['alone']:10.1f}")
    _memory.is_on = True


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


if "--large" in sys.argv:
    reduce(LARGE, 1)
elif words[1:] or "--overlap" in sys.argv:
    shapes = [(round((float(word) / 3) ** 0.5), 3) for word in words[1:] or ("1e6", "1e7")]
    (overlaps if "--overlap" in sys.argv else steps)(shapes)
else:
    reduce((*(2**power for power in range(2, 25, 2)), *LARGE), 200)
    steps([(180, 3), (577, 3), (1825, 3)])
    overlaps([(577, 3), (1825, 3)])
    calls()
dist.destroy_process_group()
