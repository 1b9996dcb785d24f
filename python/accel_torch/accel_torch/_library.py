# SPDX-License-Identifier: Apache-2.0
"""libaccel by ctypes: where it is, the functions that this package calls, and errors as exceptions.

Functions that wait for other ranks release the interpreter's lock (`waiting`).  The others do not (`quick`): that is
faster, and keeps two threads of the program from changing one job at the same time.  Starts wait with some engines, and
with others they wake a thread, which may take the processor of this one for so long.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import threading
from collections.abc import Sequence
from typing import Any, Optional

import torch.distributed as dist

OK, INVALID, NOMEM, SYSTEM, TIMEOUT, PEER, UNSUPPORTED = range(7)

_SONAME = "libaccel.so.0"
_ID_BYTES = 64  # ACCEL_GROUP_ID_BYTES


class ErrorStruct(ctypes.Structure):
    """struct accel_error"""

    _fields_ = [("code", ctypes.c_int), ("sys_errno", ctypes.c_int), ("text", ctypes.c_char * 488)]


class Options(ctypes.Structure):
    """The first fields of struct accel_options; libaccel takes what is missing for 0."""

    _fields_ = [("cpu", ctypes.c_bool), ("engine", ctypes.c_char_p), ("timeout_ms", ctypes.c_uint32)]


class AccelError(dist.DistBackendError):
    """A call of libaccel failed.  `status` is its enum accel_status, such as PEER or TIMEOUT."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class LibraryMissing(RuntimeError):
    """There is no libaccel, or it cannot be loaded."""


class _Errors(threading.local):
    """One struct accel_error for each thread, and the pointer that calls pass."""

    def __init__(self) -> None:
        self.struct = ErrorStruct()
        self.pointer = ctypes.byref(self.struct)


errors = _Errors()


def fail(status: int) -> AccelError:
    """The exception for the call that has just returned `status` on this thread."""
    return AccelError(status, errors.struct.text.decode(errors="replace"))


def _candidates() -> list[str]:
    """ACCEL_LIBRARY alone, if it is set; else what `make install-python` noted, then the loader's own search."""
    named = os.environ.get("ACCEL_LIBRARY")
    if named:
        return [named]
    found = []
    try:
        from ._installed import LIBRARY  # type: ignore[import-not-found]

        found.append(LIBRARY)
    except ImportError:
        pass
    return [*found, _SONAME]


_P, _I, _S, _N = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t
_PP = ctypes.POINTER(ctypes.c_void_p)

# name: (whether it waits for other ranks, result, arguments)
_FUNCTIONS: dict[str, tuple[bool, Any, list[Any]]] = {
    "accel_open_sized": (True, _I, [_N, _N, _N, _PP, _P, _P]),
    "accel_close": (True, None, [_P]),
    "accel_alloc": (False, _I, [_P, _N, _PP, _P]),
    "accel_free": (False, None, [_P, _P]),
    "accel_world": (False, _P, [_P]),
    "accel_process_index": (False, _I, [_P]),
    "accel_num_processes": (False, _I, [_P]),
    "accel_comm_engine": (False, _S, [_P]),
    "accel_comm_set_timeout": (False, _I, [_P, ctypes.c_uint32, _P]),
    "accel_comm_get_id": (False, _I, [_P, _I, _S, _P]),
    "accel_comm_from_id": (False, _I, [_PP, _P, _S, ctypes.POINTER(_I), _I, _P]),
    "accel_comm_destroy": (True, None, [_P]),
    "accel_comm_abort": (True, None, [_P, _S]),
    "accel_work_wait": (True, _I, [_P, _P]),
    "accel_work_test": (False, _I, [_P, ctypes.POINTER(ctypes.c_bool), _P]),
}
# Those of collectives, after file, line and communicator; each has a second form that ends in _start.
_COLLECTIVES: dict[str, list[Any]] = {
    "barrier": [],
    "all_reduce": [_P, _P, _N, _I, _I],
    "all_gather": [_P, _P, _N, _I],
    "broadcast": [_P, _N, _I, _I],
    "reduce_scatter": [_P, _P, _N, _I, _I],
    "all_to_all": [_P, _P, _N, _I],
}


class Library:
    """The functions, as attributes without their prefix: `open_sized`, `comm_all_reduce`, `comm_all_reduce_start`."""

    def __init__(self) -> None:
        reasons = []
        for path in _candidates():
            try:
                self._load(path)
                return
            except (OSError, AttributeError) as error:  # it cannot be loaded, or is of another version
                reasons.append(f"{path}: {error}")
        raise LibraryMissing(
            f"accel_torch: cannot load libaccel ({'; '.join(reasons)}): set ACCEL_LIBRARY to the path of another one"
        )

    def _load(self, path: str) -> None:
        self.path, self._waiting, self._quick = path, ctypes.CDLL(path), ctypes.PyDLL(path)
        for name, (waits, result, arguments) in _FUNCTIONS.items():
            self._bind(name.removeprefix("accel_"), name, waits, result, arguments)
        for name, arguments in _COLLECTIVES.items():
            symbol = f"accel_comm_{name}"
            self._bind(f"comm_{name}", f"{symbol}_at", True, _I, [_S, _I, _P, *arguments, _P])
            self._bind(f"comm_{name}_start", f"{symbol}_start_at", True, _I, [_S, _I, _PP, _P, *arguments, _P])

    def _bind(self, attribute: str, symbol: str, waits: bool, result: Any, arguments: list[Any]) -> None:
        function = getattr(self._waiting if waits else self._quick, symbol)
        function.restype = result
        function.argtypes = arguments
        setattr(self, attribute, function)

    def starts_at_once(self, comm: int) -> bool:
        """Whether starts never wait for a thread that waits for other ranks."""
        return self.comm_engine(comm) in (b"shm", b"self")

    def get_id(self, comm: int, size: int) -> bytes:
        """An id for a group of `size` members of `comm`."""
        buffer = ctypes.create_string_buffer(_ID_BYTES)
        status = self.comm_get_id(comm, size, buffer, errors.pointer)
        if status:
            raise fail(status)
        return buffer.raw

    def from_id(self, comm: int, identity: bytes, ranks: Sequence[int]) -> int:
        """The group of this id."""
        group = ctypes.c_void_p()
        members = (ctypes.c_int * len(ranks))(*ranks)
        status = self.comm_from_id(group, comm, identity, members, len(ranks), errors.pointer)
        if status or group.value is None:
            raise fail(status)
        return group.value

    def __getattr__(self, name: str) -> Any:  # for type checkers: bound by __init__()
        raise AttributeError(name)


_library: Optional[Library] = None


def library() -> Library:
    """libaccel, loaded by the first call.  Raises LibraryMissing."""
    global _library
    if _library is None:
        _library = Library()
    return _library
