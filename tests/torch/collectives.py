# SPDX-License-Identifier: Apache-2.0
"""Every call of torch.distributed, with accel and with gloo: the results are the same.

collectives.py [NAME...]: only the checks with these names.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import accel_torch  # noqa: F401
from accel_torch import _work

REDUCED = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64)
MOVED = (*REDUCED, torch.bool, torch.int16, torch.complex64, torch.complex128)

dist.init_process_group("accel", timeout=timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()
gloo = dist.new_group(backend="gloo", timeout=timedelta(seconds=60))
accel = dist.group.WORLD
checks = {}


def check(function):
    checks[function.__name__] = function
    return function


def same(what, first, second):
    first, second = list(first), list(second)
    assert len(first) == len(second), what
    for a, b in zip(first, second):
        assert a.dtype == b.dtype and torch.equal(a, b), f"{what}: accel has {a}, gloo {b}"


def both(what, call, *, exact=True):
    """call (group) -> tensors"""
    with_accel = [tensor.clone() for tensor in call(accel)]
    with_gloo = call(gloo)
    if exact:
        same(what, with_accel, with_gloo)
    else:
        for a, b in zip(with_accel, with_gloo):
            torch.testing.assert_close(a, b)


def sample(shape, dtype, seed=0, of=rank):
    """What a rank has: small whole numbers, so that sums are exact in every order."""
    generator = torch.Generator().manual_seed(100 * of + seed)
    return torch.randint(0, 4, shape if isinstance(shape, tuple) else (shape,), generator=generator).to(dtype)


def wait(work, is_async):
    if is_async:
        work.wait()
        assert work.is_completed()


@check
def all_reduce():
    ops = dist.ReduceOp
    for dtype in REDUCED:
        for op in (ops.SUM, ops.PRODUCT, ops.MIN, ops.MAX):
            for is_async in (False, True):

                def call(group):
                    tensor = sample((3, 5), dtype)
                    wait(dist.all_reduce(tensor, op, group, is_async), is_async)
                    return [tensor]

                both(f"all_reduce {dtype} {op}", call)
    for dtype in (torch.int32, torch.uint8, torch.int64):
        for op in (ops.BAND, ops.BOR, ops.BXOR):

            def call(group):
                tensor = sample((3, 5), dtype)
                wait(dist.all_reduce(tensor, op, group, True), True)
                return [tensor]

            both(f"all_reduce {dtype} {op}", call)
    for dtype in (torch.complex64, torch.complex128):

        def call(group):
            tensor = torch.complex(sample(4, torch.float64), sample(4, torch.float64, 1)).to(dtype)
            dist.all_reduce(tensor, group=group)
            return [tensor]

        both(f"all_reduce {dtype}", call)
    average = torch.full((4,), float(rank))
    dist.all_reduce(average, ops.AVG)
    assert torch.equal(average, torch.full((4,), (size - 1) / 2)), average


@check
def strides():
    def call(group):
        tensor = sample((4, 6), torch.float32)
        part = tensor[:, ::2]
        dist.all_reduce(part, group=group)
        dist.broadcast(tensor.t(), 1 % size, group=group)
        rows = [torch.zeros(3, 4).t() for _ in range(size)]
        dist.all_gather(rows, sample((4, 3), torch.float32, 1), group=group)
        return [tensor, *rows]

    if size > 1:  # gloo refuses such tensors in some calls
        tensor = sample((4, 6), torch.float32)
        wanted = tensor.clone()
        rest = wanted[:, ::2].contiguous()
        dist.all_reduce(rest, group=gloo)
        wanted[:, ::2] = rest
        dist.all_reduce(tensor[:, ::2])
        assert torch.equal(tensor, wanted)
        dist.broadcast(tensor.t(), 1)
        copy = wanted.t().contiguous()
        dist.broadcast(copy, 1, group=gloo)
        assert torch.equal(tensor.t(), copy)


@check
def lists():
    """What PyTorch's own tests of gloo expect of several tensors in one call, and of futures."""

    def call(group):
        options = dist.BroadcastOptions()
        options.rootRank, options.rootTensor = 0, 1
        pair = [sample(3, torch.float32), sample(3, torch.float32, 1)]
        group.broadcast(pair, options).wait()
        twice = sample(3, torch.float32)
        group.allreduce_coalesced([twice, twice, sample(3, torch.float32)]).wait()
        rows = [torch.zeros(3) for _ in range(size)]
        value = dist.all_gather(rows, sample(3, torch.float32), group, True).get_future().wait()
        sparse = [sample(3, torch.float32, i).to_sparse() for i in (0, 1)]
        group.allreduce(sparse).wait()
        return [*pair, twice, *value, *(tensor.to_dense() for tensor in sparse)]

    both("lists", call)


@check
def moves():
    """Gloo has fewer types in some of these calls."""
    for dtype in MOVED:
        all_ranks = [sample((2, 3), dtype, of=i) for i in range(size)]
        for is_async in (False, True):
            for root in range(size):
                tensor = sample((2, 3), dtype)
                wait(dist.broadcast(tensor, root, async_op=is_async), is_async)
                same(f"broadcast {dtype}", [tensor], [all_ranks[root]])
                rows = [torch.zeros(2, 3, dtype=dtype) for _ in range(size)] if rank == root else None
                wait(dist.gather(sample((2, 3), dtype), rows, root, async_op=is_async), is_async)
                if rank == root:
                    same(f"gather {dtype}", rows, all_ranks)
                own = torch.zeros(2, 3, dtype=dtype)
                parts = [sample((2, 3), dtype, i) for i in range(size)] if rank == root else None
                wait(dist.scatter(own, parts, root, async_op=is_async), is_async)
                same(f"scatter {dtype}", [own], [sample((2, 3), dtype, rank, of=root)])
            rows = [torch.zeros(2, 3, dtype=dtype) for _ in range(size)]
            wait(dist.all_gather(rows, sample((2, 3), dtype), async_op=is_async), is_async)
            same(f"all_gather {dtype}", rows, all_ranks)
            flat = torch.zeros(2 * size, 3, dtype=dtype)
            wait(dist.all_gather_into_tensor(flat, sample((2, 3), dtype), async_op=is_async), is_async)
            same(f"all_gather_into_tensor {dtype}", [flat], [torch.cat(all_ranks)])


@check
def scatters():
    for dtype in REDUCED:
        for is_async in (False, True):
            flat = torch.cat([sample(4, dtype, i) for i in range(size)])
            total = flat.clone()
            dist.all_reduce(total, group=gloo)
            own = torch.zeros(4, dtype=dtype)
            wait(dist.reduce_scatter_tensor(own, flat, async_op=is_async), is_async)
            same("reduce_scatter_tensor", [own], [total.view(size, 4)[rank]])
            own.zero_()
            wait(dist.reduce_scatter(own, list(flat.clone().view(size, 4)), async_op=is_async), is_async)
            same("reduce_scatter", [own], [total.view(size, 4)[rank]])
    parts = [sample(i + 1, torch.int32, i) for i in range(size)]
    wanted = parts[rank].clone()
    for i, part in enumerate(parts):
        total = part.clone()
        dist.all_reduce(total, group=gloo)
        if i == rank:
            wanted = total
    own = torch.zeros(rank + 1, dtype=torch.int32)
    dist.reduce_scatter(own, parts)
    same("reduce_scatter of different sizes", [own], [wanted])


@check
def reduces():
    for root in range(size):
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.BXOR):
            tensor, total = sample(5, torch.int64), sample(5, torch.int64)
            before = tensor.clone()
            dist.reduce(tensor, root, op)
            dist.all_reduce(total, op, group=gloo)
            same("reduce", [tensor], [total if rank == root else before])


@check
def uneven():
    def call(group):
        sends = [sample((1 + (rank + i) % 3, 2), torch.float32, i) for i in range(size)]
        receives = [torch.zeros(1 + (rank + i) % 3, 2) for i in range(size)]
        flat = torch.zeros(sum(t.size(0) for t in receives), 2)
        for is_async in (False, True):
            work = dist.all_to_all_single(
                flat, torch.cat(sends), [t.size(0) for t in receives], [t.size(0) for t in sends], group, is_async
            )
            wait(work, is_async)
        even = torch.zeros(size * 2, 3)
        dist.all_to_all_single(even, sample((size * 2, 3), torch.float32), group=group)
        return [flat, even]

    both("all_to_all_single", call)
    sends = [sample(1 + (rank + i) % 3, torch.int64, i) for i in range(size)]
    receives = [torch.zeros(1 + (rank + i) % 3, dtype=torch.int64) for i in range(size)]
    flat = torch.zeros(sum(len(t) for t in receives), dtype=torch.int64)
    for is_async in (False, True):
        wait(dist.all_to_all(receives, sends, async_op=is_async), is_async)
    dist.all_to_all_single(flat, torch.cat(sends), [len(t) for t in receives], [len(t) for t in sends], gloo)
    same("all_to_all", [torch.cat(receives)], [flat])
    rows = [torch.full((i + 1,), -1.0) for i in range(size)]
    dist.all_gather(rows, torch.full((rank + 1,), float(rank)))
    same("all_gather of different sizes", rows, [torch.full((i + 1,), float(i)) for i in range(size)])


@check
def mixed():
    """Only some ranks give the sizes of parts; several tensors of one rank are reduced, too."""
    sends, got = torch.arange(2 * size, dtype=torch.float32) + 100 * rank, torch.zeros(2 * size)
    splits = [2] * size if rank else None
    for is_async in (False, True):
        wait(dist.all_to_all_single(got, sends, splits, splits, async_op=is_async), is_async)
        assert torch.equal(got, torch.cat([torch.tensor([2.0 * rank, 2.0 * rank + 1]) + 100 * i for i in range(size)]))
    numbers = accel._get_sequence_number_for_group()
    several = [torch.full((2,), 1 + 2j), torch.full((2,), 3j)]
    accel.allreduce(several).wait()
    assert torch.equal(several[0], torch.full((2,), size * (1 + 5j))) and torch.equal(*several), several
    work = dist.all_reduce(torch.ones(1), async_op=True)
    assert work._get_sequence_number() == accel._get_sequence_number_for_group() > numbers
    work.wait()


@check
def coalesced():
    tensors = [sample(i + 1, torch.float32, i) for i in range(3)]
    wanted = [t.clone() for t in tensors]
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    for tensor in wanted:
        dist.all_reduce(tensor, group=gloo)
    same("coalesced", tensors, wanted)
    forgets = _work.FORGETS
    for forgets_too in (False, True):  # as versions before 2.9 do, for callers that may be C++
        _work.FORGETS = forgets_too
        pair = [torch.complex(sample(i + 1, torch.float32), sample(i + 1, torch.float32, 1)) for i in range(2)]
        wanted = [t.clone() for t in pair]
        accel.allreduce_coalesced(pair).wait()
        for tensor in wanted:
            dist.all_reduce(tensor, group=gloo)
        same(f"coalesced complex numbers, {forgets_too}", pair, wanted)
    _work.FORGETS = forgets


@check
def sparse():
    def call(group):
        indices = torch.tensor([[rank % 3, 3]])
        tensor = torch.sparse_coo_tensor(indices, sample((2, 2), torch.float32), (5, 2))
        dist.all_reduce(tensor, group=group)
        return [tensor.to_dense()]

    both("sparse", call)


@check
def messages():
    if size == 1:
        return
    right, left = (rank + 1) % size, (rank - 1) % size
    for dtype in MOVED:
        own, got = sample(7, dtype), torch.zeros(7, dtype=dtype)
        # Both directions at once, and tags out of order.
        works = [dist.isend(own, right, tag=5), dist.isend(own + 1 if dtype != torch.bool else own, right, tag=6)]
        second = torch.zeros(7, dtype=dtype)
        dist.recv(second, left, tag=6)
        assert dist.recv(got, left, tag=5) == left
        for work in works:
            work.wait()
        same(f"messages {dtype}", [got], [sample(7, dtype, of=left)])
    operations = [dist.P2POp(dist.isend, own, right), dist.P2POp(dist.irecv, got, left)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    same("a batch", [got], [sample(7, dtype, of=left)])
    if rank == 0:
        seen = set()
        for _ in range(size - 1):
            number = torch.zeros(1, dtype=torch.int64)
            source = dist.recv(number)
            assert number.item() == source * 10, (number, source)
            seen.add(source)
        assert seen == set(range(1, size)), seen
    else:
        dist.send(torch.tensor([rank * 10]), 0)


@check
def tags():
    """Messages of many tags, in another order than they are received, or of other sizes than they are awaited."""
    if rank > 1 or size == 1:
        return
    other, many = 1 - rank, 100
    before = threading.active_count()
    works = [dist.isend(torch.full((i,), float(rank)), other, tag=i + 1) for i in range(many)]
    got = [torch.zeros(i) for i in range(many)]
    works += [dist.irecv(got[i], other, tag=i + 1) for i in reversed(range(many))]
    for work in works:
        work.wait()
    same("tags", got, [torch.full((i,), float(other)) for i in range(many)])
    assert threading.active_count() <= before + 4, threading.enumerate()
    # An answer to a later tag makes the other rank send the earlier one.
    first, second = torch.zeros(2), torch.zeros(3).t()
    if rank == 0:
        early = dist.irecv(first, 1, tag=1)
        dist.recv(second, 1, tag=2)
        dist.send(second, 1, tag=3)
        early.wait()
        assert first.tolist() == [1.0, 1.0]
    else:
        dist.send(torch.ones(3), 0, tag=2)
        dist.recv(second, 0, tag=3)
        dist.send(torch.ones(2), 0, tag=1)
    # One that is kept, then found by a receiver from any rank.
    if rank == 0:
        dist.recv(first, 1, tag=5)
        assert dist.recv(second, tag=4) == 1 and second.tolist() == [4.0, 4.0, 4.0] and first.tolist() == [5.0, 5.0]
        try:
            dist.recv(second, 1, tag=6)
        except RuntimeError as error:
            here = f"{__file__}:"
            assert "counts of a message with tag 6 differ: 2 sent at" in str(error) and str(error).count(here) == 2, error
        else:
            raise AssertionError("no error")
        try:
            dist.recv(second, tag=7)
        except RuntimeError as error:
            assert str(error).count(f"{__file__}:") == 2, error  # of both calls
        else:
            raise AssertionError("no error of a receiver from any rank")
    else:
        works = [dist.isend(torch.full((3,), 4.0), 0, tag=4), dist.isend(torch.full((2,), 5.0), 0, tag=5)]
        works += [dist.isend(torch.ones(2), 0, tag=6), dist.isend(torch.ones(2), 0, tag=7)]
        for work in works:
            work.wait()


@check
def objects():
    everything = [None] * size
    dist.all_gather_object(everything, {"rank": rank, "text": "x" * rank})
    assert everything == [{"rank": i, "text": "x" * i} for i in range(size)], everything
    one = ["a", 3] if rank == 0 else [None, None]
    dist.broadcast_object_list(one, 0)
    assert one == ["a", 3], one
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(rank, gathered, 0)
    assert rank or gathered == list(range(size)), gathered
    mine = [None]
    dist.scatter_object_list(mine, [f"for {i}" for i in range(size)] if rank == 0 else [None] * size, 0)
    assert mine == [f"for {rank}"], mine


@check
def groups():
    """torch calls the maker of a group on its members alone."""
    for round_ in range(2):
        for first in range(size):
            members = sorted({first, size - 1})
            group = dist.new_group(members)
            if rank in members:
                tensor = torch.tensor([float(rank)])
                dist.all_reduce(tensor, group=group)
                assert tensor.item() == sum(members), (members, tensor)
                dist.broadcast(tensor, first, group=group)
            if round_:
                dist.destroy_process_group(group)
    halves = [list(range(size // 2)), list(range(size // 2, size))] if size > 1 else [[0]]
    own, _ = dist.new_subgroups_by_enumeration(halves)
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=own)
    assert tensor.item() == dist.get_world_size(own)
    if hasattr(accel, "split_group"):
        part = accel.split_group(halves[-1], group_name="part")
        assert (part is None) == (rank not in halves[-1])
        if part is not None:
            tensor = torch.ones(1)
            part.allreduce([tensor]).wait()
            assert tensor.item() == len(halves[-1]), tensor


@check
def described():
    """A group says of itself what that of gloo does."""
    own, others = (group._get_backend(torch.device("cpu")) for group in (accel, gloo))
    limit = timedelta(seconds=60)
    assert own.options._timeout == limit and own.options.backend == own.name() == "accel"
    accel.set_timeout(timedelta(seconds=50))
    assert own.options._timeout == timedelta(seconds=50)
    accel.set_timeout(limit)
    for name in ("window", "abort_hooks", "completion_hooks", "shrinking"):
        if hasattr(others, f"supports_{name}"):
            assert getattr(own, f"supports_{name}") == getattr(others, f"supports_{name}"), name
    assert not own.supports_reconfigure and not own._supports_time_estimate
    for register in (accel.register_pre_hook, accel.register_post_hook):
        try:
            register(1, lambda _: None)
        except RuntimeError as error:
            assert "does not call hooks" in str(error), error
        else:
            raise AssertionError("a hook that is never called")
    members = sorted({0, size - 1})
    group = dist.new_group(members, timeout=timedelta(seconds=30))
    if rank in members:
        assert group.options._timeout == timedelta(seconds=30)
        for option, wanted in (("global_ranks_in_group", members), ("group_name", group.group_name)):
            assert getattr(group.options, option, wanted) == wanted, option
    everybody, given = list(range(size)), type(own.options)("accel", timeout=timedelta(seconds=40))
    assert accel.split_group(everybody).options._timeout == limit
    assert accel.split_group(everybody, opts=given).options._timeout == timedelta(seconds=40)
    assert accel.split_group(everybody, limit, given).options._timeout == limit


@check
def modes():
    sends = [torch.full((1 + i,), float(rank)) for i in range(size)]
    wanted = torch.cat([torch.full((1 + rank,), float(i)) for i in range(size)])

    def exchange():
        flat = torch.zeros(len(wanted), device="cpu")
        counts = [1 + rank] * size, [len(t) for t in sends]
        dist.all_to_all_single(flat, torch.cat(sends), *counts, async_op=True).wait()
        assert torch.equal(flat, wanted)
        rows = [torch.zeros(2, device="cpu") for _ in range(size)] if rank == 0 else None
        dist.gather(torch.full((2,), float(rank), device="cpu"), rows)
        assert rows is None or all(row.tolist() == [i, i] for i, row in enumerate(rows))

    with torch.inference_mode():
        exchange()
    torch.set_default_device("meta")
    exchange()
    torch.set_default_device(None)


@check
def futures():
    tensor = torch.full((1000,), float(rank))
    work = dist.all_reduce(tensor, async_op=True)
    then = work.get_future().then(lambda future: future.value()[0] * 2)
    assert torch.equal(then.wait(), torch.full((1000,), float(size * (size - 1))))
    work.wait()
    assert work.get_future().wait()[0] is not None and work.is_success() and work.exception() is None
    # What nobody waits for stays alive until it is over.
    for _ in range(20):
        dist.all_reduce(torch.ones(10000), async_op=True)
    works = [dist.all_reduce(torch.ones(100), async_op=True) for _ in range(20)]
    for work in reversed(works):
        work.wait()
        assert torch.equal(work.result()[0], torch.full((100,), float(size)))


@check
def callbacks():
    """They may start other calls and wait for them, or for calls that were started later than theirs."""

    def start(*_):
        return dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()[0]

    def exchange(*_):
        sends, parts = torch.full((size,), float(rank)), [1] * size
        return dist.all_to_all_single(torch.empty(size), sends, parts, parts, async_op=True).get_future().wait()[0]

    many = 500000
    first = dist.all_reduce(torch.ones(many), async_op=True).get_future().then(start)
    assert torch.equal(first.wait(), torch.full((3,), float(size)))
    works = [dist.all_reduce(torch.ones(many), async_op=True) for _ in range(2)]
    later = works[1].get_future()
    assert works[0].get_future().then(lambda _: later.wait()[0]).wait().sum() == size * many
    wanted = torch.arange(size, dtype=torch.float32)
    parts = [1] * size
    works = [dist.all_to_all_single(torch.empty(size), wanted, parts, parts, async_op=True) for _ in range(3)]
    for future in [work.get_future().then(exchange) for work in works]:
        assert torch.equal(future.wait(), wanted)


@check
def hooks():
    """Communication hooks of DDP make several calls, one after the other, in callbacks."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook, quantization_hooks
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(3)
    quantizes = torch.__version__ >= (2, 9)  # before, that hook needs a GPU
    for name in ("power", "quantized") if quantizes else ("power",):
        model = DistributedDataParallel(torch.nn.Linear(200, 200))
        if name == "power":
            state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2)
            model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        else:
            model.register_comm_hook(None, quantization_hooks.quantization_pertensor_hook)
        for _ in range(4):
            model(torch.randn(4, 200)).sum().backward()
        mine = model.module.weight.grad.clone()
        dist.broadcast(mine, 0)
        assert torch.equal(mine, model.module.weight.grad), name


@check
def threads():
    """Calls of several threads on one group follow each other."""
    rounds = 20

    def use(which):
        for _ in range(rounds):
            tensor = torch.ones(100)
            dist.all_reduce(tensor)
            if not torch.equal(tensor, torch.full((100,), float(size))):
                wrong.append(f"thread {which}: {tensor}")

    def guarded(which):
        try:
            use(which)
        except Exception as error:  # noqa: BLE001
            wrong.append(f"thread {which}: {error}")

    wrong = []
    several = [threading.Thread(target=guarded, args=(i,)) for i in range(3)]
    for thread in several:
        thread.start()
    for thread in several:
        thread.join()
    assert not wrong, wrong
    # A start beside a call that waits for the others, which come when it has been made.
    if size == 1:
        return
    store = dist.distributed_c10d._get_default_store()
    first, second = torch.ones(7), torch.ones(9)
    if rank == 0:
        waits = threading.Thread(target=lambda: dist.all_reduce(first))
        waits.start()
        while not accel._calls.locked() and not accel._flights:
            time.sleep(0.001)
        threading.Timer(0.1, lambda: store.set("threads", b"1")).start()
    else:
        store.wait(["threads"])
        dist.all_reduce(first)
    work = dist.all_reduce(second, async_op=True)
    if rank == 0:
        waits.join()
    work.wait()
    assert torch.equal(first, torch.full((7,), float(size))) and torch.equal(second, torch.full((9,), float(size)))


@check
def memory():
    """Tensors and buckets in memory of the job: it goes back when they end."""
    count = 1 << 16

    def call(group):
        made = accel.allocate_tensor(count, dtype=torch.float32, device="cpu")
        assert accel.arena.holds(made) == (size > 1)
        made.copy_(sample(count, torch.float32))
        dist.all_reduce(made, group=group)
        return [made]

    def train(group):
        torch.manual_seed(1)
        model = DistributedDataParallel(nn.Linear(200, 200), process_group=group, gradient_as_bucket_view=True)
        for step in range(3):
            model.zero_grad()
            model(sample((2, 200), torch.float32, step)).sum().backward()
        assert accel.arena.holds(model.module.weight.grad) == (size > 1 and group is accel)
        return [parameter.grad for parameter in model.parameters()]

    both("allocate_tensor", call)
    both("buckets", train, exact=False)
    assert not accel.arena.holds(accel.allocate_tensor(3, dtype=torch.float32, device="cpu"))
    gc.collect()
    assert not accel.arena._blocks, accel.arena._blocks


@check
def forms():
    """One rank blocks in what the others start, and the other way round."""
    for blocks in range(size):
        is_async = rank != blocks
        for dtype, op in ((torch.float32, dist.ReduceOp.SUM), (torch.int32, dist.ReduceOp.BAND)):  # in one call, in several

            def call(group):
                tensor, rows = sample(5, dtype), [torch.zeros(3, dtype=dtype) for _ in range(size)]
                own, parts = torch.zeros(2, dtype=dtype), sample(2 * size, dtype)
                wait(dist.all_reduce(tensor, op, group, is_async), is_async)
                wait(dist.all_gather(rows, sample(3, dtype), group, is_async), is_async)
                wait(dist.broadcast(rows[0], size - 1, group, is_async), is_async)
                work = dist.reduce_scatter_tensor(own, parts, dist.ReduceOp.SUM, group, is_async)
                if is_async:
                    work.wait()  # with gloo, it is never "completed"
                wait(dist.barrier(group, is_async), is_async)
                return [tensor, *rows, own]

            both(f"rank {blocks} blocks {dtype}", call)


@check
def barriers():
    dist.barrier()
    dist.barrier(async_op=True).wait()
    accel.monitored_barrier(timedelta(seconds=60))
    if size > 1:
        try:
            if rank != 1:
                accel.monitored_barrier(timedelta(seconds=0.2))
            else:
                accel._barriers += 1
        except RuntimeError as error:
            assert "1 failed to pass monitoredBarrier" in str(error), error
        else:
            assert rank == 1


@check
def refusals():
    """Wrong arguments are errors of this rank that break nothing."""
    for wrong in (
        lambda: dist.all_reduce(torch.zeros(2, dtype=torch.int16)),
        lambda: dist.all_reduce(torch.zeros(2), dist.ReduceOp.BAND),
        lambda: dist.all_gather([torch.zeros(2)] * (size + 1), torch.zeros(2)),
        lambda: dist.all_gather_into_tensor(torch.zeros(2 * size + 1), torch.zeros(2)),
        lambda: dist.all_to_all_single(torch.zeros(size + 1), torch.zeros(size + 1), [1] * (size + 1)),
        lambda: dist.broadcast(torch.zeros(2, device="meta"), 0),
    ):
        try:
            wrong()
        except (RuntimeError, ValueError):
            continue
        raise AssertionError("no error")
    dist.barrier()


for name in sys.argv[1:] or checks:
    checks[name]()
    dist.barrier()
    if rank == 0:
        print(f"same: {name}", flush=True)
dist.destroy_process_group()
