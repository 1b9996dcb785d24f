# SPDX-License-Identifier: Apache-2.0
"""What tests/torch/faults.sh runs: a rank gets a fault after two calls that go well.

  faults.py FAULT CALL          under the launcher
  faults.py FAULT CALL ROUNDS   so many times, by forks of this process, which imports torch once
  faults.py named CALL ROUNDS LAUNCH...   starts LAUNCH... faults.py stops CALL FOLDER, whose rank 1 stops itself ten
                                times, until its launcher has said so; so often that these are ROUNDS stops
"""

from __future__ import annotations

import importlib
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import accel_torch  # noqa: F401
from accel_torch._library import errors

fault, call = sys.argv[1:3]
SIZE = 2
STOPPED_MS = 1000  # after which a stopped rank is named
STOPS = 10  # of which a launcher says all at once
WITHIN_S = 2  # half of the faults are named, or more: on a machine with much else to do, single ones take longer


def begin(backend: str, store: dist.Store, rank: int, seconds: float) -> Callable[[int], object]:
    """@return makes the call, with a size"""
    dist.init_process_group(backend, store=store, rank=rank, world_size=SIZE, timeout=timedelta(seconds=seconds))
    if call == "all_reduce":
        return lambda size: dist.all_reduce(torch.ones(size))
    if call == "barrier":
        return lambda _size: dist.barrier()
    model = DistributedDataParallel(torch.nn.Linear(10, 10))
    return lambda _size: model(torch.ones(4, 10)).sum().backward()


def strike(step: Callable[[int], object]) -> None:
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault == "exit":
        sys.exit(3)
    elif fault == "raise":
        raise ValueError("a mistake of the program")
    elif call == "all_reduce":
        step(5)
    else:
        dist.all_reduce(torch.ones(3))


def stop_again_and_again(step: Callable[[int], object], rank: int, folder: str) -> None:
    """Rank 1 says when it stops itself; it goes on when there is a file with the number of the stop."""
    for number in range(STOPS):
        step(4)
        if rank == 1:
            os.write(1, f"stop {time.monotonic()}\n".encode())
            os.kill(os.getpid(), signal.SIGSTOP)
            while not os.path.exists(f"{folder}/{number}"):
                time.sleep(0.01)
    step(4)


def launched() -> None:
    """Ranks meet in the store for as long as it takes: the short timeout is for what follows."""
    rank = int(os.environ["RANK"])
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), SIZE, rank == 0)
    step = begin("gloo", store, rank, 5 if fault == "stop" else 600)
    step(4)
    step(4)
    if fault == "stops":
        stop_again_and_again(step, rank, sys.argv[3])
        return
    if rank == 1:
        strike(step)
    step(4)


def forked(rank: int, path: str, say: int) -> None:
    """Tell the parent when the fault begins, or when it is named, and how."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(SIZE), LOCAL_WORLD_SIZE=str(SIZE))
    step = begin("accel", dist.FileStore(path, SIZE), rank, 600)
    step(4)
    step(4)
    if fault == "stop":
        world = dist.group.WORLD
        assert not world._library.comm_set_timeout(world._comm, STOPPED_MS, errors.pointer)
    try:
        if rank == 1:
            os.write(say, str(time.monotonic()).encode())
            strike(step)
        step(4)
    except Exception as error:
        if rank == 0:
            os.write(say, f"{time.monotonic()} {error}".encode())


def round_(folder: str, number: int) -> float:
    """@return the seconds from the fault until the other rank had named it"""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(free.getsockname()[1]))
    pipes, processes = [os.pipe() for _ in range(SIZE)], []
    for rank in range(SIZE):
        process = os.fork()
        if process == 0:
            try:
                for other, pipe in enumerate(pipes):
                    os.close(pipe[0])
                    if other != rank:
                        os.close(pipe[1])
                forked(rank, f"{folder}/{number}", pipes[rank][1])
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(0)
        processes.append(process)
    for _, end in pipes:
        os.close(end)
    said = [os.read(pipes[0][0], 4096).decode(), os.read(pipes[1][0], 4096).decode()]
    os.kill(processes[1], signal.SIGKILL)  # of which a stopped one sees no other signal
    for process in processes:
        os.waitpid(process, 0)
    for begin_, _ in pipes:
        os.close(begin_)
    named, _, text = said[0].partition(" ")
    if not re.search(r"rank 1 .*at \S*faults\.py:\d+", text) and not re.search(r"faults\.py:\d+.* on rank 1 at", text):
        sys.exit(f"{fault}, {call}, round {number}: {text or 'nothing was said'}")
    return float(named) - float(said[1])


def launch(launcher: list[str], folder: str) -> list[float]:
    """@return the seconds from each stop until its note"""
    command = [*launcher, __file__, "stops", call, folder]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout
    times: list[float] = []
    begin_ = 0.0
    stopped = r"rank 1 \(process (\d+)\) was stopped by signal 19 \(SIGSTOP\), after accel\w* at \S*faults\.py:\d+"
    for line in process.stdout:
        now = time.monotonic()
        sys.stderr.write(line)
        if found := re.match(r"stop ([\d.]+)$", line):
            begin_ = float(found[1])
        elif found := re.match(f"accelerate: note: {stopped}(; rank 0 is waiting)?; ", line):
            times.append(now - begin_)
            os.kill(int(found[1]), signal.SIGCONT)
        elif re.match(r"accelerate: note: rank 1 continues, ", line):
            with open(f"{folder}/{len(times) - 1}", "x"):
                pass
    if process.wait() or len(times) != STOPS:
        sys.exit(f"status {process.returncode}, {len(times)} notes")
    return times


def report(what: str, times: list[float]) -> None:
    median = statistics.median_low(times)
    print(f"{what} {len(times)} times, after {median:.3f} s, {max(times):.3f} at most")
    if median > WITHIN_S:
        sys.exit(f"expected at most {WITHIN_S} s")


def main() -> None:
    if fault == "named":
        times: list[float] = []
        while len(times) < int(sys.argv[3]):
            with tempfile.TemporaryDirectory() as folder:
                times += launch(sys.argv[4:], folder)
        report(f"stop, {call}: noted", times)
    elif sys.argv[3:] and fault != "stops":
        importlib.import_module("torch._dynamo")  # else DistributedDataParallel imports it in each fork
        with tempfile.TemporaryDirectory() as folder:
            times = [round_(folder, number) for number in range(int(sys.argv[3]))]
        report(f"{fault}, {call}: named", times)
    else:
        launched()


main()
