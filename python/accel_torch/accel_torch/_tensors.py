# SPDX-License-Identifier: Apache-2.0
"""Tensors as buffers: dense copies where the elements do not lie row by row, and rows of one buffer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Optional

import torch
from torch import Tensor as Tensor  # which others import from here

from ._types import DTYPES, UINT8


def units(tensor: Tensor) -> tuple[int, int]:
    """Count and type with which a dense tensor is moved: types that libaccel does not have are bytes."""
    dtype = DTYPES.get(tensor.dtype)
    if dtype is None:
        return tensor.numel() * tensor.element_size(), UINT8
    return tensor.numel(), dtype


def dense(tensor: Tensor) -> Tensor:
    """The tensor itself, if its elements lie row by row, or a copy where they do."""
    if tensor.is_contiguous() and tensor.is_cpu and not tensor.is_conj() and not tensor.is_neg():
        return tensor
    if not tensor.is_cpu or tensor.layout != torch.strided:
        raise ValueError(f"accel: expected a dense tensor in host memory, got {tensor.layout} on {tensor.device}")
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def copy_back(tensor: Tensor, source: Tensor) -> None:
    tensor.detach().copy_(source.view(tensor.shape))


def back(tensor: Tensor, source: Tensor) -> Optional[Callable[[], None]]:
    """What is left to do when `source`, which is dense(tensor), has been written."""
    return None if source is tensor else lambda: copy_back(tensor, source)


def single(tensors: Sequence[Tensor] | Tensor) -> Tensor:
    """The one tensor of a list of one."""
    if isinstance(tensors, Tensor):
        return tensors
    if len(tensors) != 1:
        raise ValueError(f"accel: requires a single tensor, got {len(tensors)}")
    return tensors[0]


def check_rows(rows: Sequence[Tensor], count: int, like: Tensor, what: str) -> None:
    """One tensor for each rank, of the same type."""
    if len(rows) != count:
        raise ValueError(f"accel: {what} must have one tensor for each of {count} ranks, got {len(rows)}")
    for index, row in enumerate(rows):
        if row.dtype != like.dtype:
            raise ValueError(f"accel: invalid tensor type at index {index} (expected {like.dtype}, got {row.dtype})")


def are_even(rows: Sequence[Tensor], count: int) -> bool:
    return all(row.numel() == count for row in rows)


def as_rows(rows: Sequence[Tensor]) -> Optional[Tensor]:
    """The first of `rows`, if they lie one after the other in memory, so that all of them are one buffer."""
    address = rows[0].data_ptr()
    step = rows[0].numel() * rows[0].element_size()
    for row in rows:
        if not row.is_contiguous() or row.data_ptr() != address:
            return None
        address += step
    return rows[0]


def joined(rows: Sequence[Tensor]) -> Tensor:
    """The elements of all rows in one dimension; a copy unless they lie so."""
    first = as_rows(rows)
    return torch.cat([dense(row).detach().reshape(-1) for row in rows]) if first is None else first


def spread(flat: Tensor, rows: Sequence[Tensor]) -> None:
    """Copy the elements of `flat` to the rows, one after the other."""
    at = 0
    for row in rows:
        copy_back(row, flat[at : at + row.numel()])
        at += row.numel()


def split_rows(tensor: Tensor, splits: Sequence[int], size: int, what: str) -> list[int]:
    """Numbers of elements of the parts of a tensor along its first dimension; no splits: equal parts."""
    length = tensor.size(0) if tensor.dim() else 0
    if not splits:
        if length % size:
            raise RuntimeError(f"accel: the first dimension of {what} ({length}) is not a multiple of {size} ranks")
        return [tensor.numel() // size] * size
    if len(splits) != size or sum(splits) != length:
        raise RuntimeError(f"accel: {what} has {length} rows, but its split sizes are {list(splits)} for {size} ranks")
    row = tensor.numel() // length if length else 0
    return [part * row for part in splits]
