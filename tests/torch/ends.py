# SPDX-License-Identifier: Apache-2.0
"""What tests/torch/ends.sh launches: ends.py HOW.  Groups that end while calls are in flight, or after one timed out.

  destroyed   work whose outcome is asked for after destroy_process_group(); then the same process begins again
  replaced    a default group that was not shut down ends when the next one begins
  forked      a child of fork() makes no calls for its parent, and waits for none
  kept        gradients in buckets are still there when their group has ended
  unsent      a message that is never sent keeps no rank from leaving; one that is sent late still comes
  timed_out   a call that no other rank makes, in a group with a short timeout
  longer      a call that waits longer than the default group may, in a group with a longer timeout
  monitored   monitored_barrier(), after which rank 0 is gone
  left        a call that no other rank makes, whose Work a program still has when it ends
  aborted     abort() while another thread is in a call
  starts      (engine mpi) starts wait for no other rank, and keep no thread of Python waiting
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import accel_torch  # noqa: F401
from accel_torch._backend import AccelProcessGroup
from accel_torch._library import errors
from accel_torch._pending import ending
from accel_torch._work import FORGETS


def begin(seconds: float = 600, **more: Any) -> int:
    dist.init_process_group("accel", timeout=timedelta(seconds=seconds), **more)
    return dist.get_rank()


def with_store() -> dict[str, Any]:
    """For several calls of begin(): a store that keeps the keys of all."""
    rank, size, port = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
    return {"store": dist.TCPStore("localhost", port, size, rank == 0), "rank": rank, "world_size": size}


def must_fail(call: Callable[[], Any], text: str) -> None:
    try:
        call()
    except RuntimeError as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"expected an error with {text!r}")


def destroyed() -> None:
    more = with_store()
    size = more["world_size"]
    for number in range(2):
        begin(**more)
        pair = dist.new_group([0, size - 1])
        works = [dist.all_reduce(torch.full((1000,), float(number)), async_op=True) for _ in range(3)]
        dist.all_reduce(torch.ones(1), group=pair)
        dist.barrier()
        dist.destroy_process_group()
        for work in works:
            work.wait()
            assert torch.equal(work.result()[0], torch.full((1000,), float(number * size)))


def replaced() -> None:
    """As with PyTorch 2.4, which shuts down groups of nccl alone."""
    more, shutdown = with_store(), AccelProcessGroup.shutdown
    rank = begin(**more)
    former, rows = dist.group.WORLD, torch.arange(2.0)
    dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()  # a thread waits for it
    dist.all_to_all_single(torch.empty(2), rows, async_op=True).wait()  # and one makes this
    work = dist.all_reduce(torch.ones(3), async_op=True)
    AccelProcessGroup.shutdown = lambda _group: None
    dist.destroy_process_group()
    AccelProcessGroup.shutdown = shutdown
    begin(**more)
    work.wait()
    assert torch.equal(work.result()[0], torch.full((3,), 2.0))
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("accel_torch")]
    assert not left, left
    must_fail(lambda: former.allreduce([rows]).wait(), "has been destroyed")
    must_fail(lambda: former.send([rows], 1 - rank, 0).wait(), "has been destroyed")
    must_fail(lambda: former.alltoall_base(torch.empty(2), rows, [], []).wait(), "has been destroyed")
    must_fail(lambda: former.monitored_barrier(timedelta(seconds=9)), "has been destroyed")
    must_fail(lambda: former.split_group([0, 1], timedelta(seconds=9)), "has been destroyed")
    dist.all_reduce(torch.ones(3))
    dist.destroy_process_group()


def in_flight(rows: torch.Tensor) -> list[dist.Work]:
    """Calls of each kind, for which rank 0 waits in vain before it forks."""
    world = dist.group.WORLD
    works = [dist.all_reduce(torch.ones(3), async_op=True), dist.all_to_all_single(torch.empty(2), rows, async_op=True)]
    world.start_coalescing()
    dist.all_reduce(torch.ones(3), async_op=True)
    return [*works, world.end_coalescing()]


def in_child(rows: torch.Tensor, other: int, alone: dist.ProcessGroup, works: list[Any], futures: list[Any]) -> None:
    signal.alarm(600)
    calls = [
        lambda: dist.all_reduce(rows),
        lambda: dist.all_reduce(rows, async_op=True).wait(),
        lambda: dist.all_to_all_single(torch.empty(2), rows, async_op=True).wait(),
        lambda: dist.isend(rows, other).wait(),
        lambda: dist.isend(rows, other, tag=1).wait(),
    ]
    for call in [*calls, *(one.wait for one in [*futures, *works])]:
        must_fail(call, "from which fork() has made this process")
    must_fail(lambda: dist.group.WORLD.monitored_barrier(timedelta(seconds=9)), "from which fork()")
    must_fail(lambda: dist.group.WORLD.split_group([0, 1], timedelta(seconds=9)), "from which fork()")
    assert all(one.is_completed() and not one.is_success() for one in works)
    use_alone(alone, rows)
    dist.destroy_process_group()
    os._exit(0)


def use_alone(alone: dist.ProcessGroup, rows: torch.Tensor) -> None:
    """Calls of this group take each of its locks, and need its threads."""
    dist.all_reduce(rows, group=alone)
    dist.all_reduce(rows, group=alone, async_op=True).get_future().wait()
    dist.all_to_all_single(torch.empty(2), rows, group=alone, async_op=True).wait()


def fork_among_threads(group: dist.ProcessGroup) -> int:
    """fork(), while other threads have the locks of a group, and that of all flights for a moment."""
    forked, held = threading.Event(), threading.Event()

    def hold() -> None:
        with group._calls, group._lock:
            forked.wait()

    def hold_briefly() -> None:
        with ending:
            held.set()
            time.sleep(0.3)

    threads = [threading.Thread(target=hold), threading.Thread(target=hold_briefly)]
    for thread in threads:
        thread.start()
    while not (group._lock.locked() and held.is_set()):
        time.sleep(0.001)
    child = os.fork()
    if child:
        forked.set()
        for thread in threads:
            thread.join()
    return child


def forked() -> None:
    """As in a worker of a DataLoader, while a call of the parent is in flight."""
    rank = begin()
    rows = torch.arange(2.0)
    alone = [dist.new_group([member]) for member in range(2)][rank]
    use_alone(alone, rows)
    dist.all_to_all_single(torch.empty(2), rows, async_op=True).wait()
    works = in_flight(rows) if rank == 0 else []
    futures = [one.get_future() for one in works]
    called = threading.Lock()
    if works:
        works[0].get_future().then(lambda _future: called.acquire() and called.release())
        time.sleep(0.1)  # a thread waits for the first, with a lock
    with called:
        child = fork_among_threads(alone)
    if child == 0:
        in_child(rows, 1 - rank, alone, works, futures)
    if rank == 0:
        open("forked", "w").close()
    else:
        while not os.path.exists("forked"):
            time.sleep(0.01)
        works = in_flight(rows)
    status = os.waitpid(child, 0)[1]
    for one in [*works, *futures]:
        one.wait()
    assert status == 0 and torch.equal(works[0].result()[0], torch.full((3,), 2.0)), status
    use_alone(alone, rows)
    dist.destroy_process_group()


def kept() -> None:
    begin()
    model = DistributedDataParallel(nn.Linear(300, 300), gradient_as_bucket_view=True)
    for _ in range(3):
        model(torch.ones(2, 300)).sum().backward()
    grad, arena = model.module.weight.grad, dist.group.WORLD.arena
    wanted = grad.clone()
    assert arena.holds(grad) and wanted.sum() > 0
    group = dist.group.WORLD
    dist.destroy_process_group()
    group.shutdown()  # PyTorch 2.4 does this for NCCL alone
    assert torch.equal(grad, wanted) and not arena.holds(grad)
    grad.zero_()  # which is no other rank's, nor that of the next job
    assert arena._blocks
    del grad, model, group
    gc.collect()
    assert not arena._blocks


def leave() -> None:
    """PyTorch 2.4 shuts down groups of nccl alone."""
    world = dist.group.WORLD
    dist.destroy_process_group()
    world.shutdown()


def unsent() -> None:
    more = with_store()
    rank = begin(**more)
    begun = time.monotonic()
    works = []
    if rank == 0:
        works = [dist.irecv(torch.ones(1), 1, tag=tag) for tag in (0, 1)] + [dist.irecv(torch.ones(1), tag=2)]
    leave()
    for work in works:
        must_fail(work.wait, "was destroyed before")
    assert time.monotonic() - begun < 300
    begin(**more)
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        dist.isend(torch.full((1,), 3.0), 1)
        dist.isend(torch.full((1,), 4.0), 1, tag=1)
        store.set("leaves", b"1")
    else:
        store.wait(["leaves"])
        time.sleep(1)
        received = torch.zeros(2)
        dist.recv(received[:1])
        dist.recv(received[1:], tag=1)
        assert received.tolist() == [3, 4], received
    leave()


def timed_out() -> None:
    rank = begin()
    group, other = dist.new_group(timeout=timedelta(seconds=1)), dist.new_group()
    if rank == 0:
        work = dist.all_reduce(torch.ones(3), group=group, async_op=True)
        future = work.get_future()
        exchange = dist.all_to_all_single(torch.empty(2), torch.ones(2), group=group, async_op=True)
        options = dist.AllreduceOptions()
        options.timeout = timedelta(seconds=1)
        limited = other.allreduce([torch.ones(3)], options)
        for call in (
            work.wait,
            future.wait,
            future.then(lambda one: one.value()[0]).wait,
            exchange.get_future().wait,
            exchange.wait,
            limited.get_future().wait,
            *([] if FORGETS else [limited.wait]),  # there, it is torch's own, whose wait() ignores errors
            work.get_future().wait,
        ):
            must_fail(call, "timed out after 1000 ms")
    dist.all_reduce(torch.ones(3))  # other groups go on
    while rank and not os.path.exists("left"):
        time.sleep(0.01)
    dist.destroy_process_group()
    if rank == 0:
        open("left", "w").close()


def longer() -> None:
    """The timeout of the default group, which a slow machine may need to begin, is made short afterwards."""
    rank = begin()
    world, library = dist.group.WORLD, dist.group.WORLD._library
    assert library.comm_set_timeout(world._comm, 1000, errors.pointer) == 0
    world._job.timeout_ms = 1000
    group = dist.new_group(timeout=timedelta(seconds=900))
    if rank == 1:
        time.sleep(2)
    dist.all_reduce(torch.ones(3), group=group)
    if rank == 0:
        dist.send(torch.ones(3), 1, group)
    else:
        time.sleep(2)
        dist.recv(torch.ones(3), 0, group)


def monitored() -> None:
    """Rank 0, whose store it is, ends as soon as it may; others look seldom."""
    rank = begin()
    if rank:
        sleep, time.sleep = time.sleep, lambda seconds: sleep(1)
    else:
        time.sleep(0.5)
    dist.group.WORLD.monitored_barrier(timedelta(seconds=600))
    if rank == 0:
        print("as expected: monitored\n", end="", flush=True)
        os._exit(0)


def left() -> None:
    global work
    if begin() == 0:
        work = dist.all_reduce(torch.ones(3), async_op=True)
        sys.last_value = dist.all_reduce(torch.ones(3), async_op=True)  # which goes before modules do
    dist.distributed_c10d._get_default_store().add("there", 1)
    while dist.distributed_c10d._get_default_store().add("there", 0) < 2:
        time.sleep(0.01)


def aborted() -> None:
    rank = begin()
    group = dist.new_group()
    dist.barrier(group)
    if rank == 0:
        errors = []

        def wait() -> None:
            try:
                dist.barrier(group)
            except RuntimeError as error:
                errors.append(str(error))

        thread = threading.Thread(target=wait)
        thread.start()
        while not group._calls.locked() and not group._flights:
            time.sleep(0.01)
        group.abort()
        thread.join()
        assert len(errors) == 1, errors
        assert "the program called abort()" in errors[0] or "has been destroyed" in errors[0], errors
    else:
        try:
            dist.barrier()
        except RuntimeError as error:
            assert "the program called abort()" in str(error), error
        else:
            raise AssertionError("no error")


def starts() -> None:
    """A thread of rank 0 lets rank 1 begin, when rank 0 has started two calls."""
    for name, part in (("RANK", "RANK"), ("WORLD_SIZE", "SIZE")):  # of Open MPI, or MPICH
        os.environ[name] = os.environ.get(f"OMPI_COMM_WORLD_{part}") or os.environ[f"PMI_{part}"]
    rank = begin(60)
    assert dist.group.WORLD._library.comm_engine(dist.group.WORLD._comm) == b"mpi"
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        threading.Thread(target=lambda: (time.sleep(1), store.set("go", b"1"))).start()
    else:
        store.wait(["go"])
    futures = []
    for number in range(3):
        futures.append(dist.all_reduce(torch.full((4,), float(number)), async_op=True).get_future())
        time.sleep(0.1)  # a thread waits for the first by now
    if rank == 0:
        assert not any(future.done() for future in futures) or store.check(["go"])
    for number, future in enumerate(futures):
        assert torch.equal(future.wait()[0], torch.full((4,), float(number * dist.get_world_size())))
    dist.destroy_process_group()


globals()[sys.argv[1]]()
print(f"as expected: {sys.argv[1]}\n", end="", flush=True)
