# SPDX-License-Identifier: Apache-2.0
"""What libaccel does not have as one call: other types and reductions, sparse tensors, parts of different sizes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from ._library import errors, fail, library
from ._site import call_site
from ._tensors import Tensor, back, copy_back, dense, units
from ._types import BITWISE, DTYPES, INT64, MAX, OPS, REDUCIBLE, UINT8
from ._work import After

if TYPE_CHECKING:
    from ._backend import Collectives, Sync

RedOpType = dist.ReduceOp.RedOpType


def _call(name: str, site: tuple[bytes, int], comm: int, *args: int) -> None:
    status = getattr(library(), name)(*site, comm, *args, errors.pointer)
    if status:
        raise fail(status)


def _refuse(dtype: torch.dtype, op: Any) -> ValueError:
    return ValueError(f"accel: cannot reduce {dtype} by {op}")


def all_reduce(group: Collectives, tensor: Tensor, sync: Sync, op: Any) -> dist.Work:
    """For all that allreduce() of the group does not pass on to libaccel."""
    if tensor.is_sparse:
        return _all_reduce_sparse(group, tensor, sync, op)
    if tensor.is_complex() and op in (RedOpType.SUM, RedOpType.AVG):
        source = dense(tensor)
        real = torch.view_as_real(source.detach())
        args = (real.data_ptr(), real.data_ptr(), real.numel(), DTYPES.get(real.dtype, -1), OPS[op])
        if real.dtype in REDUCIBLE:
            return group._run(sync, (("comm_all_reduce", args),), [tensor], (source, real), back(tensor, source))
    if op not in BITWISE or tensor.dtype.is_floating_point or tensor.is_complex():
        raise _refuse(tensor.dtype, op)
    combine, site = BITWISE[op], call_site()
    source = dense(tensor)

    def function(comm: int) -> None:
        rows = torch.empty((group._size, *source.shape), dtype=source.dtype, device="cpu")
        _call("comm_all_gather", site, comm, source.data_ptr(), rows.data_ptr(), *units(source))
        for row in rows[1:]:
            combine(rows[0], row)
        copy_back(tensor, rows[0])

    return group._run_steps(sync, function, [tensor])


def _all_reduce_sparse(group: Collectives, tensor: Tensor, sync: Sync, op: Any) -> dist.Work:
    """Indices and values of all ranks in one tensor, which adds what has the same index."""
    if op != RedOpType.SUM or tensor.layout != torch.sparse_coo:
        raise ValueError(f"accel: sparse tensors can only be added, as COO, not {op} of {tensor.layout}")
    site = call_site()

    def function(comm: int) -> None:
        own = tensor.detach().coalesce()
        number = torch.tensor([own._nnz()], device="cpu")
        numbers = torch.empty(group._size, dtype=torch.int64, device="cpu")
        _call("comm_all_gather", site, comm, number.data_ptr(), numbers.data_ptr(), 1, INT64)
        indices, values = [], []
        for root, count in enumerate(numbers.tolist()):
            mine = root == group._rank
            index = own.indices().contiguous() if mine else own.indices().new_empty((own.sparse_dim(), count))
            value = own.values().contiguous() if mine else own.values().new_empty((count, *own.values().shape[1:]))
            for part in (index, value):
                _call("comm_broadcast", site, comm, part.data_ptr(), *units(part), root)
            indices.append(index)
            values.append(value)
        total = torch.sparse_coo_tensor(torch.cat(indices, 1), torch.cat(values), own.shape).coalesce()
        with torch.no_grad():  # detach() of a sparse tensor would keep what is copied to itself
            tensor.copy_(total)

    return group._run_steps(sync, function, [tensor])


def reduce_scatter(
    group: Collectives, flat: Tensor, output: Tensor, sync: Sync, op: Any, first: int
) -> dist.Work:
    """Reduce `flat`, a copy, and keep what begins at element `first`."""

    def after() -> None:
        copy_back(output, flat[first : first + output.numel()])

    flat = flat.reshape(-1)
    if op in OPS and flat.dtype in REDUCIBLE:
        args = (flat.data_ptr(), flat.data_ptr(), flat.numel(), DTYPES[flat.dtype], OPS[op])
        return group._run(sync, (("comm_all_reduce", args),), [output], flat, after)
    work = all_reduce(group, flat, True, op)
    work.wait()
    after()
    return work


def exchange(
    group: Collectives,
    sync: Sync,
    source: Tensor,
    sends: Sequence[int],
    target: Tensor,
    receives: Sequence[int],
    result: Any,
    after: After,
) -> dist.Work:
    """All-to-all of parts whose sizes, in elements, may differ: all are sent as if they had the largest size of all.

    A rank knows only the sizes of its own parts, so ranks agree on that one first.
    """
    site, size = call_site(), group._size
    item = source.element_size()

    def function(comm: int) -> None:
        most = ctypes.c_int64(max((*sends, *receives), default=0))
        _call("comm_all_reduce", site, comm, ctypes.addressof(most), ctypes.addressof(most), 1, INT64, MAX)
        room = most.value
        if room * size == source.numel() == target.numel():
            outgoing, incoming = source if source.data_ptr() != target.data_ptr() else source.clone(), target
        else:
            outgoing = torch.empty((size, room), dtype=source.dtype, device="cpu")
            incoming = torch.empty((size, room), dtype=source.dtype, device="cpu")
            for row, part in zip(outgoing, source.detach().reshape(-1).split(list(sends))):
                row[: part.numel()] = part
        args = (outgoing.data_ptr(), incoming.data_ptr(), room * item, UINT8)
        if room:
            _call("comm_all_to_all", site, comm, *args)
        if incoming is not target:
            for row, part in zip(incoming, target.detach().view(-1).split(list(receives))):
                part.copy_(row[: part.numel()])
        if after is not None:
            after()

    return group._run_steps(sync, function, result)
