# SPDX-License-Identifier: Apache-2.0
"""Lanes: what takes more than one call of libaccel, and messages between two ranks.

A lane has a communicator of its own, on which it runs functions one after the other.  All members of the lane run the
same functions in the same order.  A caller that waits runs its function itself if nothing is before it; all others are
run by the thread of the lane.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Optional

import torch.distributed as dist

from ._library import library
from ._pending import ending
from ._work import DoneWork, Flight, FlightWork, Waiter, in_mode_of_caller

# A function gets the communicator.  Its result is the rank from which a message came, where that was open.
Function = Callable[[int], Optional[int]]
Failed = Optional[Callable[[BaseException], None]]
Check = Optional[Callable[[], None]]


class Task(Flight):
    """A function that waits for its turn, or runs.  None: another one calls settle()."""

    __slots__ = ("event", "failed", "function")

    def __init__(self, function: Optional[Function], tensors: Any, failed: Failed = None) -> None:
        super().__init__(tensors)
        self.failed = failed
        self.function = function if function is None else in_mode_of_caller(function)
        self.event = threading.Event()

    def run(self, comm: Callable[[], int], waiter: Waiter) -> None:
        assert self.function is not None
        try:
            source = self.function(comm())
            self.source = -1 if source is None else source
        except BaseException as error:  # noqa: BLE001: it is the outcome of the call
            self.error = error
            if self.failed is not None:
                self.failed(error)
        self.function = self.failed = None
        self.settle(waiter)

    def settle(self, waiter: Waiter) -> None:
        """It has ended.  Callbacks are left to the waiter, because they may wait for other tasks of the lane."""
        with ending:
            self.done = True
            has_gates = bool(self.gates)
        self.event.set()
        if has_gates:
            waiter.put(self)
        else:
            self.end()

    def complete(self) -> None:
        self.event.wait()

    def is_over(self) -> bool:
        return self.event.is_set()

    def disown(self, error: BaseException) -> None:
        self.event = threading.Event()
        self.event.set()
        super().disown(error)


class Lane:
    """See above.  `make` makes the communicator; it may wait for other members."""

    def __init__(self, make: Callable[[], int], waiter: Waiter) -> None:
        self._make = make
        self._waiter = waiter
        self._comm: Optional[int] = None
        self._queue: deque[Task] = deque()
        self._busy = False
        self._stop = False
        self._changed = threading.Condition()
        self._thread: Optional[threading.Thread] = None

    def comm(self) -> int:
        if self._comm is None:
            self._comm = self._make()
        return self._comm

    def run(
        self,
        function: Function,
        tensors: Any,
        waits: bool,
        timeout_s: Optional[float] = None,
        failed: Failed = None,
    ) -> dist.Work:
        """Run `function`, now if the caller waits.  failed: gets the exception if there is one"""
        task = Task(function, tensors, failed)
        with self._changed:
            is_next = waits and timeout_s is None and not self._busy and not self._queue
            if is_next:
                self._busy = True
            else:
                self._queue.append(task)
                self._need_thread()
                self._changed.notify_all()
        if not is_next:
            return FlightWork(task, timeout_s)
        task.run(self.comm, self._waiter)
        with self._changed:
            self._busy = False
            self._changed.notify_all()
        if task.error is not None:
            raise task.error
        return DoneWork(tensors, task.source)

    def _need_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="accel_torch lane", daemon=True)
            self._thread.start()

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._stop and (self._busy or not self._queue):
                    self._changed.wait()
                if not self._queue:
                    return
                task = self._queue.popleft()
                self._busy = True
            task.run(self.comm, self._waiter)
            del task
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def is_busy(self) -> bool:
        return self._busy or bool(self._queue)

    def disown(self, waiter: Waiter) -> None:
        """In a child of fork(): all but the communicator, which may serve both, is the parent's."""
        self._waiter, self._queue, self._busy, self._stop = waiter, deque(), False, False
        self._changed, self._thread = threading.Condition(), None

    def stop(self) -> None:
        """Wait until all that was queued has run, and free the communicator."""
        with self._changed:
            self._stop = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if self._comm is not None:
            library().comm_destroy(self._comm)
            self._comm = None


def meet(
    store: dist.Store,
    key: str,
    parent: int,
    ranks: Sequence[int],
    is_first: bool,
    timeout_s: float,
    check: Check = None,
) -> int:
    """A communicator of `ranks` of `parent`, whose id its first member brings to the others in `store`.

    check: called while this one waits for the first member; raises what ends the wait
    """
    if is_first:
        identity = library().get_id(parent, len(ranks))
        if len(ranks) > 1:
            store.set(key, identity)
    else:
        identity = fetch(store, key, timeout_s, check)
    return library().from_id(parent, identity, ranks)


def fetch(store: dist.Store, key: str, timeout_s: float, check: Check = None) -> bytes:
    """store.get(), without keeping other threads from using the store meanwhile.  check: as for meet()"""
    deadline, pause = time.monotonic() + timeout_s, 1e-4
    while not store.check([key]):
        if check is not None:
            check()
        if time.monotonic() >= deadline:
            raise dist.DistStoreError(f"accel: no other rank came within {timeout_s:.0f} s (key {key} of the store)")
        time.sleep(pause)
        pause = min(pause * 2, 5e-3)
    return store.get(key)
