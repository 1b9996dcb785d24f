# SPDX-License-Identifier: Apache-2.0
"""The job that this process is a member of: accel_open() for the default process group, accel_close() at its end."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import weakref
from collections import Counter
from datetime import timedelta
from typing import Any, Optional

from . import _memory
from ._library import Options, errors, fail, library
from ._pending import ending


def milliseconds(timeout: timedelta) -> int:
    """As libaccel has it."""
    return min(max(int(timeout.total_seconds() * 1000), 1), 2**32 - 1)


class Job:
    """What accel_open() gives; one at a time in a process."""

    def __init__(self, timeout_ms: int, keys: str) -> None:
        options = Options(cpu=True, timeout_ms=timeout_ms)
        acc = ctypes.c_void_p()
        status = library().open_sized(ctypes.sizeof(Options), 0, 0, acc, ctypes.byref(options), errors.pointer)
        if status:
            raise fail(status)
        self.acc: Optional[ctypes.c_void_p] = acc
        self.process = os.getpid()
        self.timeout_ms = timeout_ms
        self.keys = keys  # with what those in the store begin
        self._made: Counter[str] = Counter()  # groups, by name
        self.rank: int = library().process_index(acc)
        self.size: int = library().num_processes(acc)
        self.world: int = library().world(acc)
        self.has_mpi = library().comm_engine(self.world) == b"mpi"
        self.arena = _memory.Arena(acc, self.world, self.size)
        self.groups: weakref.WeakSet[Any] = weakref.WeakSet()
        self.abandoned: list[Any] = []  # groups with calls that have timed out, but have not ended
        self._share()

    def _share(self) -> None:
        """Let several threads use communicators from now on: the first work that is started makes libaccel do that."""
        work = ctypes.c_void_p()
        status = library().comm_barrier_start(b"accel_torch", 0, work, self.world, errors.pointer)
        status = status or library().work_wait(work, errors.pointer)
        if status:
            raise fail(status)

    def keys_of(self, name: str) -> str:
        """With what the keys of a new group begin; its name may be that of a former one."""
        self._made[name] += 1
        return f"{self.keys}.{self._made[name]}"

    def is_open(self) -> bool:
        return self.acc is not None and self.process == os.getpid()

    def close(self) -> None:
        """Leave, after the groups of this job, of which the default one is the last."""
        if not self.is_open():
            return
        for group in sorted(self.groups, key=lambda group: bool(group._comm == self.world)):
            group.leave()
        for group in self.abandoned:
            group.give_up(b"a call of the program has timed out")
        for group in self.abandoned:
            group.end()
        self.arena.end()
        acc, self.acc = self.acc, None
        library().close(acc)


_job: Optional[Job] = None
_lock = threading.Lock()


def open_job(rank: int, size: int, timeout_ms: int, keys: str) -> Job:
    """Join the job; the one of a former default group is left first.

    Raises AccelError if libaccel cannot connect the processes, RuntimeError if it counts them differently than torch.
    """
    global _job
    with _lock:
        if _job is not None:
            _job.close()
        _job = None
        job = Job(timeout_ms, keys)
        if (job.rank, job.size) != (rank, size):
            job.close()
            raise RuntimeError(
                f"accel_torch: the environment says rank {job.rank} of {job.size}, but init_process_group() has rank "
                f"{rank} of {size}"
            )
        _job = job
        return job


def is_open() -> bool:
    return _job is not None and _job.is_open()


def current_job() -> Job:
    if _job is None or not _job.is_open():
        raise RuntimeError("accel_torch: the default process group is not one of accel")
    return _job


def _disown() -> None:
    """In a child of fork()."""
    ending.release()
    if _job is not None:
        for group in [*_job.groups, *_job.abandoned]:
            group.disown()
            if group.size() > 1:
                _job.groups.discard(group)


os.register_at_fork(before=ending.acquire, after_in_parent=ending.release, after_in_child=_disown)


@atexit.register
def _leave() -> None:
    """MPI ends a job of which a process ends without this.  Without MPI, the others hear with which status this process
    has ended, and what it did last, which says more; so it is if calls are still in flight, as after an error."""
    if _job is None or not _job.is_open() or not _job.has_mpi or _job.abandoned:
        return
    if any(group.is_busy() for group in _job.groups):
        return
    _job.close()
