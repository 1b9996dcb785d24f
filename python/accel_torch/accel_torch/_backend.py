# SPDX-License-Identifier: Apache-2.0
"""The process group: torch.distributed's collectives as calls of libaccel."""

from __future__ import annotations

import ctypes
import threading
import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Optional, Union

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from . import _complex, _messages
from ._job import Job, milliseconds
from ._barrier import monitor
from ._described import Described
from ._lane import Check, Function, Lane, meet
from ._library import errors, fail, library
from ._site import call_site
from ._tensors import (
    Tensor,
    are_even,
    as_rows,
    back,
    check_rows,
    copy_back,
    dense,
    joined,
    single,
    split_rows,
    spread,
    units,
)
from ._types import DTYPES, NUMBERS, OPS, REDUCIBLE, SUM
from ._pending import Pending
from ._work import After, DoneWork, FlightWork, ManyWork, NumberedWork, Started, Waiter, for_caller

RedOpType = dist.ReduceOp.RedOpType
# One call of libaccel: its name, and its arguments after the communicator.
Call = tuple[str, tuple[int, ...]]


_NO_TIME = timedelta()
_MOMENT_S = 2e-3  # how long the last bucket is waited for in the call


class _Limited:
    """In place of "the caller waits at once": it gives the call a timeout of its own, so the call is started."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __bool__(self) -> bool:
        return False


# Whether the caller waits at once.
Sync = Union[bool, _Limited]


def _is_sync(opts: Any, timeout: Optional[timedelta] = None) -> Sync:
    """Older versions of torch do not say whether the caller waits.  timeout: in place of that in the options"""
    given = timeout or getattr(opts, "timeout", None)
    if given is not None and given > _NO_TIME:
        return _Limited(given.total_seconds())
    return not getattr(opts, "asyncOp", True)


def _red_op(opts: Any, timeout: Any = None) -> Any:
    """The reduction, of options or given in place of them."""
    if opts is None:
        return RedOpType.SUM
    op = getattr(opts, "reduceOp", opts)
    return getattr(op, "op", op)


def _number(opts: Any) -> Optional[int]:
    """libaccel's number of the reduction, of options or given in place of them; None: it does not have this one."""
    return SUM if opts is None else NUMBERS.get(hash(getattr(opts, "reduceOp", opts)))


def _root(opts: Any) -> int:
    return opts if isinstance(opts, int) else getattr(opts, "rootRank", 0)


class Collectives:
    """What a process group and a backend of torch have in common here."""

    _comm: int
    _rank: int
    _size: int
    options: Any  # of Described

    def _set_up(
        self,
        store: dist.Store,
        rank: int,
        size: int,
        timeout: timedelta,
        job: Job,
        comm: int,
        ranks: Sequence[int],
        keys: str,
    ) -> None:
        self._store = store
        self._keys = keys  # with what those in the store begin
        self._rank = rank
        self._size = size
        self._job = job
        self._comm = comm
        self.arena = job.arena
        self._world_ranks = list(ranks)
        self._library = library()
        self._polls = not library().starts_at_once(comm)
        self._waiter = Waiter(self._polls)
        self._calls = threading.Lock()  # one thread at a time may be in a call on the communicator
        self._flights = Pending()
        self._closed = ""  # why no further call can be made
        self._steps: Optional[Lane] = None
        self._messages: Optional[_messages.Messages] = None
        self._gathered: Optional[list[dist.Work]] = None  # between start_coalescing() and end_coalescing()
        # Addresses of the last bucket of each DistributedDataParallel, and what the call on it returns, over and over.
        self.last_buckets: dict[int, Optional[tuple[Tensor, dist.Work]]] = {}
        self._barriers = 0
        self._sequence = 0  # collectives ever begun
        self._splits = 0
        self._lock = threading.Lock()
        self._comms = [comm]  # all of this group
        self.set_timeout(timeout)
        job.groups.add(self)

    # ---- calls ----

    def _run(self, sync: Sync, calls: Sequence[Call], tensors: Any, keep: Any = None, after: After = None) -> dist.Work:
        """Make calls of libaccel, one after the other.

        tensors: the result;  keep: all that must stay until the end;  after: what is left to do then
        """
        if sync and self._timeout_s is None and self._gathered is None:
            self._call(calls)
            if after is not None:
                after()
            work = DoneWork(tensors)
            work.sequence = self._sequence
            return work
        started = self._start(calls, tensors, keep, after)
        return self._note(FlightWork(started, sync.seconds if isinstance(sync, _Limited) else self._timeout_s))

    def _start(self, calls: Sequence[Call], tensors: Any, keep: Any, after: After) -> Started:
        """Start calls of libaccel, one after the other.  Arguments: as for _run()"""
        file, line = call_site()
        handles: list[ctypes.c_void_p] = []
        try:
            with self._calls:
                self._check_open()
                self._sequence += 1
                for name, args in calls:
                    handle = ctypes.c_void_p()
                    start = getattr(self._library, name + "_start")
                    status = start(file, line, handle, self._comm, *args, errors.pointer)
                    if status:
                        raise fail(status)
                    handles.append(handle)
        except BaseException:
            if handles:
                Started(handles, tensors, keep, None, self._waiter).attend()
            raise
        return Started(handles, tensors, keep, after, self._waiter)

    def _call(self, calls: Sequence[Call]) -> None:
        """Make calls of libaccel, and wait for each."""
        file, line = call_site()
        with self._calls:
            self._check_open()
            self._sequence += 1
            for name, args in calls:
                status = getattr(self._library, name)(file, line, self._comm, *args, errors.pointer)
                if status:
                    raise fail(status)

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(f"accel: the process group {self._closed}")

    def _run_steps(self, sync: Sync, function: Function, tensors: Any) -> dist.Work:
        """Run what takes several calls, each of which depends on the one before."""
        self._check_open()
        with self._lock:
            if self._steps is None:
                self._steps = Lane(lambda: self._meet("steps", range(self._size)), self._waiter)
        waits = bool(sync) and self._gathered is None
        limit = sync.seconds if isinstance(sync, _Limited) else self._timeout_s
        self._sequence += 1
        return self._note(self._steps.run(function, tensors, waits, limit))

    def _note(self, work: NumberedWork) -> dist.Work:
        work.sequence = self._sequence
        if isinstance(work, FlightWork):
            work.join(self._flights)
        if self._gathered is not None:
            self._gathered.append(work)
        return work

    def _meet(self, key: str, ranks: Sequence[int], check: Check = None) -> int:
        """Make a communicator of members of this group.  check: as for meet()"""
        first = self._rank == ranks[0]
        members = [self._world_ranks[rank] for rank in ranks]
        comm = meet(self._store, f"{self._keys}/{key}", self._job.world, members, first, self._wait_s, check)
        with self._lock:
            self._comms.append(comm)
            self._wait_as_long(comm)
        return comm

    # ---- collectives ----

    def allreduce(self, tensors: Any, opts: Any = None, timeout: Any = None) -> dist.Work:
        sync, number = _is_sync(opts, timeout), _number(opts)
        if type(tensors) is not list and isinstance(tensors, Tensor):  # isinstance() of tensors is slow
            return for_caller(self._reduce_one(tensors, sync, number, opts))
        if len(tensors) == 1:
            return for_caller(self._reduce_one(tensors[0], sync, number, opts))
        return for_caller(self._reduce_list(tensors, sync, _red_op(opts)))

    def _reduce_one(self, tensor: Tensor, sync: Sync, number: Optional[int], opts: Any) -> dist.Work:
        """number: _number(opts)"""
        dtype = REDUCIBLE.get(tensor.dtype)
        if number is None or dtype is None or tensor.is_sparse:
            return _complex.all_reduce(self, tensor, sync, _red_op(opts))
        source = dense(tensor)
        pointer = source.data_ptr()
        calls = (("comm_all_reduce", (pointer, pointer, source.numel(), dtype, number)),)
        if pointer in self.last_buckets and sync is False and source is tensor and self._gathered is None:
            return self._reduce_last(calls, pointer, tensor)
        return self._run(sync, calls, [tensor], source, back(tensor, source))

    def _reduce_last(self, calls: Sequence[Call], pointer: int, tensor: Tensor) -> dist.Work:
        """Wait a moment: the reducer waits next, and to wake threads for it takes longer than most ranks are late.

        Not longer: other ranks may need what this one does until the backward pass ends.
        """
        started = self._start(calls, [tensor], tensor, None)
        work = self._note(FlightWork(started, self._timeout_s))  # also in case of an interrupt
        if not started.ends_within(_MOMENT_S) or started.error is not None:
            return work
        known = self.last_buckets.get(pointer)
        if known is None or known[0] is not tensor:
            future: torch.futures.Future[Any] = torch.futures.Future()
            future.set_result([tensor])
            known = self.last_buckets[pointer] = (tensor, c10d._create_work_from_future(future))
        return known[1]

    def _reduce_list(self, tensors: Sequence[Tensor], sync: Sync, op: Any) -> dist.Work:
        """Several tensors in place of one count as those of several ranks."""
        if op not in (RedOpType.SUM, RedOpType.MIN, RedOpType.MAX, RedOpType.PRODUCT) or not tensors:
            raise ValueError(f"accel: {len(tensors)} tensors cannot be reduced by {op}")
        combine = {
            RedOpType.SUM: torch.add,
            RedOpType.MIN: torch.minimum,
            RedOpType.MAX: torch.maximum,
            RedOpType.PRODUCT: torch.mul,
        }[op]
        total = (tensors[0].detach() if tensors[0].is_sparse else dense(tensors[0])).clone()
        for tensor in tensors[1:]:
            if tensor.shape != total.shape or tensor.dtype != total.dtype:
                raise ValueError("accel: invalid tensor size or type: all must have the same")
            total = combine(total, tensor.detach())

        def after() -> None:
            for tensor in tensors:
                copy_back(tensor, total)

        def after_sparse() -> None:
            with torch.no_grad():  # detach() of a sparse tensor would keep what is copied to itself
                for tensor in tensors:
                    tensor.copy_(total)

        if total.dtype not in REDUCIBLE or total.is_sparse:
            _complex.all_reduce(self, total, True, op).wait()
            (after_sparse if total.is_sparse else after)()
            return DoneWork(list(tensors))
        pointer = total.data_ptr()
        call = ("comm_all_reduce", (pointer, pointer, total.numel(), DTYPES[total.dtype], OPS[op]))
        return self._run(sync, (call,), list(tensors), total, after)

    def allreduce_coalesced(self, tensors: Sequence[Tensor], opts: Any = None) -> dist.Work:
        sync, number = _is_sync(opts), _number(opts)
        if number is None or any(tensor.dtype not in REDUCIBLE or tensor.is_sparse for tensor in tensors):
            works = [self._reduce_one(tensor, sync, number, opts) for tensor in tensors]
            return for_caller(ManyWork(works, self._flights))
        sources = [dense(tensor) for tensor in tensors]
        seen: set[int] = set()
        for i, source in enumerate(sources):  # a tensor may be there twice, on this rank alone
            if source.numel() and source.data_ptr() in seen:
                sources[i] = source.clone()
            seen.add(source.data_ptr())
        calls = [
            ("comm_all_reduce", (source.data_ptr(), source.data_ptr(), source.numel(), DTYPES[source.dtype], number))
            for source in sources
        ]

        def after() -> None:
            for tensor, source in zip(tensors, sources):
                if source is not tensor:
                    copy_back(tensor, source)

        return for_caller(self._run(sync, calls, list(tensors), sources, after))

    def allreduce_sparse(self, tensors: Any, opts: Any = None) -> dist.Work:
        return for_caller(_complex.all_reduce(self, single(tensors), _is_sync(opts), _red_op(opts)))

    def broadcast(self, tensors: Any, opts: Any = None, timeout: Any = None, root: Any = None) -> dist.Work:
        root = _root(opts if root is None else root)
        parts = [tensors] if isinstance(tensors, Tensor) else list(tensors)
        if not 0 <= root < self._size:
            raise ValueError(f"accel: invalid root rank: {root}")
        chosen = parts[getattr(opts, "rootTensor", 0)]  # all of all ranks get that of the root
        source = dense(chosen)
        call = ("comm_broadcast", (source.data_ptr(), *units(source), root))
        others = [tensor for tensor in parts if tensor is not source]

        def after() -> None:
            for tensor in others:
                copy_back(tensor, source)

        return for_caller(self._run(_is_sync(opts, timeout), (call,), parts, source, after if others else None))

    def reduce(self, tensors: Any, opts: Any, op: Any = None, timeout: Any = None) -> dist.Work:
        tensor, root = single(tensors), _root(opts)
        red_op = _red_op(op if isinstance(opts, int) else opts)
        if not 0 <= root < self._size:
            raise ValueError(f"accel: invalid root rank: {root}")
        sync = _is_sync(opts, timeout)
        if red_op not in OPS or tensor.dtype not in REDUCIBLE:
            target = tensor if self._rank == root else tensor.detach().clone()
            return for_caller(_complex.all_reduce(self, target, sync, red_op))
        source = dense(tensor)
        target = source if self._rank == root else torch.empty_like(source)
        args = (source.data_ptr(), target.data_ptr(), source.numel(), DTYPES[source.dtype], OPS[red_op])
        after = back(tensor, source) if self._rank == root else None
        return for_caller(self._run(sync, (("comm_all_reduce", args),), [tensor], (source, target), after))

    # ---- gathering ----

    def _gather_rows(self, sync: Sync, rows: Sequence[Tensor], tensor: Tensor, result: Any) -> dist.Work:
        """The tensor of each rank to that row; rows may differ in their sizes.  No rows: nobody looks at them."""
        source = dense(tensor)
        if rows and not are_even(rows, source.numel()):
            return self._gather_uneven(sync, rows, source, result)
        place = as_rows(rows) if rows else None
        target = torch.empty((self._size, source.numel()), dtype=source.dtype, device="cpu") if place is None else place

        def after() -> None:
            for row, part in zip(rows, target):
                copy_back(row, part)

        call = ("comm_all_gather", (source.data_ptr(), target.data_ptr(), *units(source)))
        return self._run(sync, (call,), result, (source, target), after if place is None else None)

    def _gather_uneven(self, sync: Sync, rows: Sequence[Tensor], source: Tensor, result: Any) -> dist.Work:
        if rows[self._rank].numel() != source.numel():
            raise ValueError(
                f"accel: the output for rank {self._rank} has {rows[self._rank].numel()} elements, but its input "
                f"{source.numel()}"
            )
        targets = [dense(row) for row in rows]
        copy_back(targets[self._rank], source)
        calls = [("comm_broadcast", (target.data_ptr(), *units(target), root)) for root, target in enumerate(targets)]

        def after() -> None:
            for row, target in zip(rows, targets):
                if row is not target:
                    copy_back(row, target)

        return self._run(sync, calls, result, (source, targets), after)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None) -> dist.Work:
        if isinstance(inputs, Tensor):
            outputs, inputs = [outputs], [inputs]
        if len(inputs) != 1 or len(outputs) != 1:
            raise ValueError(f"accel: requires a single input and output list, got {len(inputs)} and {len(outputs)}")
        (rows,), (tensor,) = outputs, inputs
        check_rows(rows, self._size, tensor, "the output")
        return for_caller(self._gather_rows(_is_sync(opts, timeout), rows, tensor, list(rows)))

    def _gather_single(self, sync: Sync, output: Tensor, tensor: Tensor) -> dist.Work:
        if output.numel() != tensor.numel() * self._size or output.dtype != tensor.dtype:
            raise ValueError(
                f"accel: the output must have {self._size} times the elements of the input and its type, got "
                f"{tuple(output.shape)} of {output.dtype} for {tuple(tensor.shape)} of {tensor.dtype}"
            )
        source, target = dense(tensor), dense(output)
        call = ("comm_all_gather", (source.data_ptr(), target.data_ptr(), *units(source)))
        return self._run(sync, (call,), [output], (source, target), back(output, target))

    def all_gather_single(self, output: Tensor, tensor: Tensor, opts: Any = None) -> dist.Work:
        return for_caller(self._gather_single(_is_sync(opts), output, tensor))

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> dist.Work:
        sync = _is_sync(opts)
        return for_caller(ManyWork([self._gather_single(sync, *pair) for pair in zip(outputs, inputs)], self._flights))

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> dist.Work:
        works = []
        for index, tensor in enumerate(inputs):
            rows = [row[index] for row in outputs]
            check_rows(rows, self._size, tensor, "the output")
            works.append(self._gather_rows(_is_sync(opts), rows, tensor, rows))
        return for_caller(ManyWork(works, self._flights))

    def gather(
        self, outputs: Any, inputs: Any, opts: Any = None, root: Any = None, timeout: Any = None
    ) -> dist.Work:
        if isinstance(inputs, Tensor):
            outputs, inputs = [outputs] if outputs else [], [inputs]
        tensor, destination = single(inputs), opts.rootRank if hasattr(opts, "rootRank") else int(root or opts or 0)
        if not 0 <= destination < self._size:
            raise ValueError(f"accel: invalid root rank: {destination}")
        rows: Sequence[Tensor] = ()
        if self._rank == destination:
            if len(outputs) != 1:
                raise ValueError("accel: requires a single-element output list containing a list of tensors")
            rows = outputs[0]
            check_rows(rows, self._size, tensor, "the output")
            if not are_even(rows, tensor.numel()):
                raise ValueError("accel: the outputs of gather must have the size of the input")
        elif outputs:
            raise ValueError("accel: requires empty output on non-root")
        return for_caller(self._gather_rows(_is_sync(opts, timeout), rows, tensor, list(rows)))

    def gather_single(self, output: Tensor, tensor: Tensor, opts: Any = None) -> dist.Work:
        rows: Sequence[Tensor] = ()
        if self._rank == opts.rootRank:
            check_rows([output], 1, tensor, "the output")
            target = dense(output)
            work = self._gather_single(_is_sync(opts), target, tensor)
            if target is output:
                return for_caller(work)
            work.wait()
            copy_back(output, target)
            return for_caller(DoneWork([output]))
        return for_caller(self._gather_rows(_is_sync(opts), rows, tensor, []))

    gather_into_tensor = gather_single

    # ---- scattering ----

    def scatter(self, outputs: Any, inputs: Any, opts: Any, root: Any = None, timeout: Any = None) -> dist.Work:
        if isinstance(outputs, Tensor):
            outputs, inputs = [outputs], [inputs] if inputs else []
        output, source_rank = single(outputs), opts.rootRank if hasattr(opts, "rootRank") else int(root or opts or 0)
        if not 0 <= source_rank < self._size:
            raise ValueError(f"accel: invalid root rank: {source_rank}")
        if self._rank == source_rank:
            if len(inputs) != 1:
                raise ValueError("accel: requires a single-element input list containing a list of tensors")
            check_rows(inputs[0], self._size, output, "the input")
            if not are_even(inputs[0], output.numel()):
                raise ValueError("accel: invalid tensor size: the inputs of scatter must have the size of the output")
            flat = joined(inputs[0])
        else:
            if inputs:
                raise ValueError("accel: requires empty input on non-root")
            flat = torch.empty(self._size * output.numel(), dtype=output.dtype, device="cpu")
        count, dtype = units(flat)
        if self._rank == source_rank and flat is inputs[0][0]:
            count *= self._size
        own = inputs[0][self._rank] if self._rank == source_rank else flat.view(self._size, -1)[self._rank]
        call = ("comm_broadcast", (flat.data_ptr(), count, dtype, source_rank))
        return for_caller(
            self._run(_is_sync(opts, timeout), (call,), [output], (flat, inputs), lambda: copy_back(output, own))
        )

    def _scatter_single(self, sync: Sync, op: Any, output: Tensor, tensor: Tensor) -> dist.Work:
        if tensor.numel() != output.numel() * self._size or output.dtype != tensor.dtype:
            raise ValueError(
                f"accel: the input must have {self._size} times the elements of the output and its type, got "
                f"{tuple(tensor.shape)} of {tensor.dtype} for {tuple(output.shape)} of {output.dtype}"
            )
        if op not in OPS or tensor.dtype not in REDUCIBLE:
            copy = dense(tensor).detach().clone()
            return _complex.reduce_scatter(self, copy, output, sync, op, self._rank * output.numel())
        source, target = dense(tensor), dense(output)
        args = (source.data_ptr(), target.data_ptr(), target.numel(), DTYPES[target.dtype], OPS[op])
        after = back(output, target)
        return self._run(sync, (("comm_reduce_scatter", args),), [output], (source, target), after)

    def reduce_scatter_single(self, output: Tensor, tensor: Tensor, opts: Any = None) -> dist.Work:
        return for_caller(self._scatter_single(_is_sync(opts), _red_op(opts), output, tensor))

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> dist.Work:
        sync, op = _is_sync(opts), _red_op(opts)
        works = [self._scatter_single(sync, op, *pair) for pair in zip(outputs, inputs)]
        return for_caller(ManyWork(works, self._flights))

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None) -> dist.Work:
        if isinstance(outputs, Tensor):
            outputs, inputs = [outputs], [inputs]
        output, sync, op = single(outputs), _is_sync(opts, timeout), _red_op(opts)
        (rows,) = inputs
        check_rows(rows, self._size, output, "the input")
        if rows[self._rank].numel() != output.numel():
            raise ValueError("accel: the output of reduce_scatter must have the size of the input for this rank")
        flat = torch.cat([dense(row).detach().reshape(-1) for row in rows])
        if are_even(rows, output.numel()):
            return for_caller(self._scatter_single(sync, op, output, flat))
        before = sum(row.numel() for row in rows[: self._rank])
        return for_caller(_complex.reduce_scatter(self, flat, output, sync, op, before))

    # ---- exchanging ----

    def all_to_all_single(
        self, output: Tensor, tensor: Tensor, output_splits: Any = (), input_splits: Any = (), opts: Any = None
    ) -> dist.Work:
        sync = _is_sync(opts)
        if output.dtype != tensor.dtype:
            raise ValueError(f"accel: tensors are not of equal type: {output.dtype}, {tensor.dtype}")
        receives = split_rows(output, output_splits, self._size, "the output")
        sends = split_rows(tensor, input_splits, self._size, "the input")
        source, target = dense(tensor), dense(output)
        if not output_splits and not input_splits and source.numel() != target.numel():
            raise RuntimeError("accel: without split sizes, input and output must have the same number of elements")
        after = back(output, target)
        return for_caller(_complex.exchange(self, sync, source, sends, target, receives, [output], after))

    alltoall_base = all_to_all_single

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None) -> dist.Work:
        check_rows(outputs, self._size, inputs[0], "the output")
        check_rows(inputs, self._size, inputs[0], "the input")
        source = torch.cat([dense(row).detach().reshape(-1) for row in inputs])
        receives = [row.numel() for row in outputs]
        target = torch.empty(sum(receives), dtype=source.dtype, device="cpu")
        sends = [row.numel() for row in inputs]

        def after() -> None:
            spread(target, outputs)

        work = _complex.exchange(self, _is_sync(opts, timeout), source, sends, target, receives, list(outputs), after)
        return for_caller(work)

    # ---- messages ----

    def _need_messages(self) -> _messages.Messages:
        self._check_open()
        with self._lock:
            if self._messages is None:
                self._messages = _messages.Messages(
                    self._store, self._keys, self._rank, self._size, self._meet, self._wait_s, self._waiter
                )
        return self._messages

    def send(self, tensors: Any, to: int, tag: int = 0) -> dist.Work:
        waits = _messages.caller_waits("send") and self._gathered is None
        return for_caller(self._note(self._need_messages().send(single(tensors), to, tag, waits, self._timeout_s)))

    def recv(self, tensors: Any, source: int, tag: int = 0) -> dist.Work:
        waits = _messages.caller_waits("recv") and self._gathered is None
        return for_caller(self._note(self._need_messages().recv(single(tensors), source, tag, waits, self._timeout_s)))

    def recv_anysource(self, tensors: Any, tag: int = 0) -> dist.Work:
        return for_caller(self._note(self._need_messages().recv_any(single(tensors), tag, self._timeout_s)))

    recvAnysource = recv_anysource

    # ---- waiting ----

    def barrier(self, opts: Any = None, timeout: Any = None) -> dist.Work:
        return for_caller(self._run(_is_sync(opts, timeout), (("comm_barrier", ()),), []))

    def monitored_barrier(self, timeout: Optional[timedelta] = None, wait_all_ranks: bool = False) -> None:
        """A barrier in which rank 0 says who did not come."""
        self._check_open()
        wait_s = self._wait_s if timeout is None else timeout.total_seconds()
        self._barriers += 1
        key = f"{self._keys}/barrier/{self._barriers}"
        text = monitor(self._store, key, self._rank, self._size, wait_s, wait_all_ranks)
        if text:
            raise RuntimeError(text)

    def start_coalescing(self, device: Any = None) -> None:
        self._gathered = []

    _start_coalescing = start_coalescing

    def end_coalescing(self, device: Any = None) -> dist.Work:
        works, self._gathered = self._gathered or [], None
        return ManyWork(works, self._flights)

    _end_coalescing = end_coalescing

    # ---- memory ----

    def supports_tensor_alloc(self, device: Any) -> bool:
        return torch.device(device).type == "cpu"

    def allocate_tensor(self, size: int, *, dtype: torch.dtype, device: Any) -> Tensor:
        """A tensor of one dimension on which collectives copy nothing, if there is room for one."""
        made = self.arena.empty(size, dtype)
        return torch.empty(size, dtype=dtype, device=device) if made is None else made

    # ---- the end ----

    def set_timeout(self, timeout: timedelta) -> None:
        """Of later calls.

        A longer wait than that of the job is libaccel's.  A shorter one is up to those who wait: they leave the call in
        flight, because the job ends with the first call of libaccel that times out.
        """
        with self._lock:
            self.options._timeout = timeout
            self._wait_s = timeout.total_seconds()
            self._timeout_s = self._wait_s if self._wait_s * 1000 < self._job.timeout_ms else None
            for comm in self._comms:
                self._wait_as_long(comm)

    def _wait_as_long(self, comm: int) -> None:
        longest_ms = max(milliseconds(self.options._timeout), self._job.timeout_ms)
        status = self._library.comm_set_timeout(comm, longest_ms, errors.pointer)
        if status and longest_ms > self._job.timeout_ms:
            warnings.warn(f"accel: {fail(status)}; calls end after {self._job.timeout_ms / 1000:.0f} s", stacklevel=4)

    def _set_default_timeout(self, timeout: timedelta) -> None:
        self.set_timeout(timeout)

    def shutdown(self) -> None:
        """Wait for what is in flight, and leave; the default group takes all others with it."""
        if self._comm == self._job.world and self in self._job.groups:
            self._job.close()
        else:
            self.leave()

    def leave(self) -> None:
        """Wait for what is in flight, and free it.  Calls that have timed out may never end: they end with the job."""
        if self not in self._job.groups:
            return
        self._job.groups.discard(self)
        if any(flight.late and not flight.is_over() for flight in list(self._flights)):
            self._job.abandoned.append(self)
        else:
            self.end()

    def end(self) -> None:
        """Wait for what is in flight, and free all but the world."""
        with self._lock:
            self._comms = []
        if self._messages is not None:
            self._messages.stop()
        if self._steps is not None:
            self._steps.stop()
        self._waiter.stop()
        for flight in list(self._flights):  # whoever has its Work may still ask for the outcome
            flight.finish()
        self._flights.stop()
        with self._calls:  # another thread's call, which uses the communicator
            self._closed = "has been destroyed"
        if self._comm != self._job.world:
            self._library.comm_destroy(self._comm)

    def disown(self) -> None:
        """In a child of fork(): what has begun is the parent's, and so are the threads that may have locks.

        A group of one process serves both, as it does in libaccel.
        """
        owner = "is that of the parent, from which fork() has made this process"
        if self._size > 1:
            self._closed = owner
        self._calls, self._lock = threading.Lock(), threading.Lock()
        self._waiter, self._messages = Waiter(self._polls), None
        if self._steps is not None:
            self._steps.disown(self._waiter)
        flights, self._flights = list(self._flights), Pending()
        for flight in flights:
            flight.disown(RuntimeError(f"accel: the process group {owner}"))
        for flight in flights:  # in threads, because callbacks may wait for each other, or for a lock of this one
            gates, flight.gates, flight.home = flight.gates, [], None
            for gate in gates:
                threading.Thread(target=gate.set_result, args=(None,), name="accel_torch forked", daemon=True).start()

    def give_up(self, reason: bytes) -> None:
        """End what is in flight, here and on the other ranks, with an error.  Any thread."""
        if self._job.is_open():
            self._library.comm_abort(self._comm, reason)

    def is_busy(self) -> bool:
        """Whether threads of this group wait for other ranks, or calls that have timed out are left."""
        lanes = [lane for lane in (self._steps, self._messages) if lane is not None]
        late = any(flight.late for flight in list(self._flights))
        return late or self._waiter.is_busy() or any(lane.is_busy() for lane in lanes)

    def abort(self) -> None:
        """End what is in flight, here and on the other ranks, with an error, and leave."""
        self.give_up(b"the program called abort()")
        for flight in list(self._flights):
            flight.late = False
        self.shutdown()


class AccelProcessGroup(Collectives, Described, dist.ProcessGroup):
    """A process group whose ranks are those of one communicator of libaccel."""

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        size: int,
        timeout: timedelta,
        job: Job,
        comm: int,
        ranks: Sequence[int],
        keys: str,
    ) -> None:
        dist.ProcessGroup.__init__(self, rank, size)
        self._describe([] if comm == job.world else ranks)
        self._set_up(store, rank, size, timeout, job, comm, ranks, keys)

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    getRank = rank
    getSize = size

    def get_group_store(self) -> dist.Store:
        return self._store

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _get_backend(self, device: torch.device) -> AccelProcessGroup:
        if torch.device(device).type != "cpu":
            raise RuntimeError(f"No backend type associated with device type {torch.device(device).type}")
        return self

    get_backend = _get_backend

    # ---- groups of this group ----

    def split_group(
        self,
        new_ranks: Sequence[int],
        timeout: Optional[timedelta] = None,
        opts: Any = None,
        group_name: Optional[str] = None,
        group_desc: Optional[str] = None,
        device_types: Any = None,
        *,
        kind: Optional[type[AccelProcessGroup]] = None,
    ) -> Optional[dist.ProcessGroup]:
        """The group of these ranks; None for others.  All ranks of this group call it.  kind: its class, if another"""
        self._check_open()
        self._splits += 1
        ranks = list(new_ranks)
        if self._rank not in ranks:
            return None
        name = group_name or f"{self._name}:split:{self._splits}:{ranks[0]}"
        store = dist.PrefixStore(f"{name}/", self._store)
        members = [self._world_ranks[rank] for rank in ranks]
        index = ranks.index(self._rank)
        wait = timeout or (opts or self.options)._timeout
        keys = self._job.keys_of(name)
        comm = meet(store, f"{keys}/group", self._job.world, members, index == 0, wait.total_seconds())
        made = (kind or type(self))(store, index, len(ranks), wait, self._job, comm, members, keys)
        made.setGroupName(name)
        made.setGroupDesc(group_desc or "undefined")
        return made
