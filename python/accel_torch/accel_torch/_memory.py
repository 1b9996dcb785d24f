# SPDX-License-Identifier: Apache-2.0
"""Tensors in memory that all ranks of the host have mapped: collectives on them copy nothing.

DistributedDataParallel's reducer makes its buckets in C++, with no argument that says where.  But torch passes each
at::empty() of a thread to a dispatch mode that is active there, and the reducer makes buckets only in its constructor
and in _rebuild_buckets(), which Python calls.  So a class derived from the reducer is active in both.

Such memory outlives the job: gradients may be views of a bucket, and programs read them after
destroy_process_group().  When the job ends, pages of the process's own take the place of the shared ones.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any, Optional

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from ._library import errors, library

_LEAST = 64 << 10  # bytes: such blocks of libaccel have pages of their own, and copying less costs next to nothing
_MREMAP_MAYMOVE, _MREMAP_FIXED = 1, 2
_FAILED = ctypes.c_void_p(-1).value

is_on = True  # the benchmark compares

_lock = threading.RLock()  # a finalizer may run in a thread that has it
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = _libc.mremap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Arena:
    """What a job has allocated."""

    def __init__(self, acc: ctypes.c_void_p, world: int, size: int) -> None:
        self._acc: Optional[ctypes.c_void_p] = acc
        self._process = os.getpid()
        self._blocks: dict[int, int] = {}  # bytes, by address
        self.is_shared = size > 1 and library().comm_engine(world) == b"shm"

    def empty(self, count: int, dtype: torch.dtype) -> Optional[torch.Tensor]:
        """@return None: it would be too small, or there is no room"""
        used = count * dtype.itemsize
        size = -(-used // mmap.PAGESIZE) * mmap.PAGESIZE
        if not is_on or not self.is_shared or used < _LEAST or os.getpid() != self._process:
            return None
        memory = ctypes.c_void_p()
        with _lock:
            if self._acc is None or library().alloc(self._acc, size, memory, errors.pointer):
                return None
            address = memory.value or 0
            if address % mmap.PAGESIZE:
                library().free(self._acc, address)
                return None
            self._blocks[address] = size
        buffer = (ctypes.c_ubyte * used).from_address(address)
        weakref.finalize(buffer, self._free, address).atexit = False
        return torch.frombuffer(buffer, dtype=dtype, count=count)

    def _free(self, address: int) -> None:
        if os.getpid() != self._process:
            return
        with _lock:
            size = self._blocks.pop(address)
            if self._acc is not None:
                library().free(self._acc, address)
            else:
                _libc.munmap(address, size)

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor lies in memory that is shared now."""
        at = tensor.data_ptr()
        return self._acc is not None and any(first <= at < first + size for first, size in list(self._blocks.items()))

    def end(self) -> None:
        """Before the job ends: what is still used becomes the process's own.  libaccel keeps its mapping then."""
        with _lock:
            self._acc = None  # what is freed from here on, by the garbage collector too, was the job's or is ours
            for address, size in list(self._blocks.items()):
                if address not in self._blocks:
                    continue
                own = _libc.mmap(
                    None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0
                )
                if own == _FAILED:
                    raise MemoryError(f"accel: no memory for {size} bytes of tensors that outlive their process group")
                ctypes.memmove(own, address, size)
                if _libc.mremap(own, size, size, _MREMAP_MAYMOVE | _MREMAP_FIXED, address) != address:
                    raise OSError(ctypes.get_errno(), "accel: cannot keep tensors that outlive their process group")


class _Buckets(TorchDispatchMode):
    """Large tensors that are made while it is active lie in the arena.  last: the address of the last bucket, if dense"""

    def __init__(self, arena: Arena) -> None:
        super().__init__()
        self._arena = arena
        self.last = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        if func is torch.ops.aten.empty.memory_format and _is_plain(options):
            (shape,), dtype = args, options["dtype"]
            shared = self._arena.empty(shape[0], dtype) if len(shape) == 1 else None
            made = func(*args, **options) if shared is None else shared
            if len(shape) == 1 and (dtype.is_floating_point or dtype.is_complex):  # no table of used parameters
                self.last = made.data_ptr()
            return made
        return func(*args, **options)


def _is_plain(options: dict[str, Any]) -> bool:
    device, layout = options.get("device"), options.get("layout") or torch.strided
    is_host = device is not None and torch.device(device).type == "cpu"
    return is_host and layout is torch.strided and options.get("dtype") is not None and not options.get("pin_memory")


def install() -> None:
    """From now on, buckets of DistributedDataParallel are in shared memory, where its group is one of accel."""
    base = dist.Reducer
    if getattr(base, "is_accel_torch", False):
        return

    class Reducer(base):  # type: ignore[misc, valid-type]
        is_accel_torch = True

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            groups = [value for value in (*args, *kwargs.values()) if isinstance(getattr(value, "arena", None), Arena)]
            self._group = groups[0] if groups and groups[0].arena.is_shared else None
            self._is_rebuilt = False
            self._forget: Any = None
            self._run(super().__init__, *args, **kwargs)

        @torch._disable_dynamo  # type: ignore[untyped-decorator]  # torch.compile() cannot follow it
        def _rebuild_buckets(self) -> bool:
            """Torch calls it before each forward pass, but makes buckets in one of them."""
            if self._is_rebuilt:  # a dispatch mode takes its time
                return super()._rebuild_buckets()
            self._is_rebuilt = self._run(super()._rebuild_buckets)
            return self._is_rebuilt

        def _reset_state(self) -> None:
            """Before torch makes buckets once more, for another group."""
            self._is_rebuilt = False
            super()._reset_state()

        def _run(self, function: Any, *args: Any, **kwargs: Any) -> Any:
            # Inside of another mode, such as that of fake tensors, nothing may be real.
            if self._group is None or torch._C._len_torch_dispatch_stack():
                return function(*args, **kwargs)
            with _Buckets(self._group.arena) as buckets:
                result = function(*args, **kwargs)
            if buckets.last:
                self._note_last(self._group.last_buckets, buckets.last)
            return result

        def _note_last(self, buckets: dict[int, Any], address: int) -> None:
            """As long as this bucket is there, buckets[address] is."""
            if self._forget is not None:
                self._forget()
            buckets[address] = None
            self._forget = weakref.finalize(self, buckets.pop, address, None)
            self._forget.atexit = False

    Reducer.__name__ = Reducer.__qualname__ = base.__name__
    Reducer.__module__ = base.__module__
    dist.Reducer = Reducer  # type: ignore[misc]
