# SPDX-License-Identifier: Apache-2.0
"""What torch.distributed waits for: calls in flight, their Work objects and futures.

A flight is what one call has begun.  Whoever needs its end first waits for it: the thread that calls Work.wait(), or,
if somebody asked for a future or dropped the Work object, a waiter thread of the group.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Optional

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from ._library import TIMEOUT, AccelError, errors, fail, library
from ._pending import Limit, Pending, ending

After = Optional[Callable[[], None]]


def in_mode_of_caller(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function for another thread, in torch.inference_mode() if this thread is."""
    if not torch.is_inference_mode_enabled():
        return function

    def run(*arguments: Any) -> Any:
        with torch.inference_mode():
            return function(*arguments)

    return run


class Flight:
    """What one call has begun: its end, result, error and futures.  Kinds of flights differ in how one waits."""

    __slots__ = ("done", "error", "gates", "home", "late", "limit", "source", "tensors")

    def __init__(self, tensors: Any) -> None:
        self.tensors = tensors  # the result
        self.gates: list[torch.futures.Future[Any]] = []  # what the futures of callers wait for
        self.error: Optional[BaseException] = None
        self.done = False
        self.source = -1  # of a message from any rank: whose it was
        self.late = False  # a wait for it has timed out, so it may never end
        self.limit: Optional[Limit] = None  # of its futures, until they have failed
        self.home: Optional[Pending] = None  # the group's, of all that have not ended

    def join(self, flights: Pending) -> None:
        """Be one of `flights` until the end."""
        with ending:
            if not self.done:
                self.home = flights
                flights.add(self)

    def complete(self) -> None:
        """Wait for the end; whatever the outcome, `done` is set.  Any thread."""
        raise NotImplementedError

    def finish(self) -> None:
        """The same, and run what others have attached to futures."""
        self.complete()
        self.end()

    def is_over(self) -> bool:
        """Whether finish() would return at once."""
        raise NotImplementedError

    def attend(self) -> None:
        """Let another thread call finish(), because this one may not."""

    def end(self) -> None:
        """Set `done` and open the gates: callbacks of futures run here, and may wait for other flights."""
        while True:
            with ending:
                self.done = True
                gate = self.gates.pop(0) if self.gates else None
                if gate is None and self.home is not None:  # not before, for fork() in the meantime
                    self.home.discard(self)
                    self.home = None
            if gate is None:
                return
            gate.set_result(None)

    def expire(self, text: str) -> None:
        """Futures fail as wait() does when its time is over."""
        if self.is_over():
            self.finish()
            return
        self.late = True
        with ending:
            gates, self.gates = self.gates, []
        for gate in gates:
            gate.set_result(AccelError(TIMEOUT, text))

    def disown(self, error: BaseException) -> None:
        """In a child of fork(): it is over, with this error; its gates stay.  The parent's threads may have locks."""
        self.error, self.done = self.error or error, True

    def _outcome(self, gate: torch.futures.Future[Any]) -> Any:
        error = self.error or gate.value()
        if error is not None:
            raise error
        return self.tensors

    def get_future(self, limit: Optional[Limit] = None) -> torch.futures.Future[Any]:
        """The outcome, as what then() returns: set_exception() would give C++, such as DDP's reducer, the exception as
        a value, and it crashes.
        """
        gate: torch.futures.Future[Any] = torch.futures.Future()
        outcome = gate.then(self._outcome)
        if not self.done and self.is_over():
            self.finish()
        with ending:
            is_done, home = self.done, self.home
            if not is_done:
                self.gates.append(gate)
                self.limit = limit
        if is_done:
            gate.set_result(None)
        else:
            self.attend()
            if home is not None and limit is not None:
                home.limit(limit.deadline)
        return outcome

    def poll(self, deadline: Optional[float] = None, text: str = "") -> None:
        """Wait until it is over, or raise AccelError at `deadline` of time.monotonic(); it goes on then."""
        pause = 1e-5
        while not self.is_over():
            if deadline is not None and time.monotonic() >= deadline:
                self.late = True
                raise AccelError(TIMEOUT, text)
            time.sleep(pause)
            pause = min(pause * 2, 1e-3)

    def ends_within(self, seconds: float) -> bool:
        """Wait for so long at most.  @return whether it has ended"""
        deadline = time.monotonic() + seconds
        while not self.is_over():
            if time.monotonic() >= deadline:
                return False
            time.sleep(2e-5)
        self.finish()
        return True

    def wait_until(self, deadline: float, text: str) -> None:
        """finish(), or what poll() raises."""
        self.poll(deadline, text)
        self.finish()


class Started(Flight):
    """Work that libaccel has started, the tensors that it uses, and what is left to do after it."""

    __slots__ = ("after", "handles", "keep", "waiting", "waiter")

    def __init__(
        self, handles: Sequence[ctypes.c_void_p], tensors: Any, keep: Any, after: After, waiter: Waiter
    ) -> None:
        super().__init__(tensors)
        self.handles = handles
        self.keep = keep  # all that is read or written until the end
        self.after = after if after is None else in_mode_of_caller(after)
        self.waiter = waiter
        self.waiting = threading.Lock()  # held by the thread that waits

    def complete(self) -> None:
        with self.waiting:
            if self.done:
                return
            wait = library().work_wait
            for handle in self.handles:
                status = wait(handle, errors.pointer)
                if status and self.error is None:
                    self.error = fail(status)
            if self.error is None and self.after is not None:
                try:
                    self.after()
                except BaseException as error:  # noqa: BLE001: it is the outcome of the call
                    self.error = error
            self.keep = self.after = None
            self.done = True

    def is_over(self) -> bool:
        if self.done:
            return True
        if not self.waiting.acquire(blocking=False):
            return self.done  # another thread waits for it
        try:
            over = ctypes.c_bool()
            test = library().work_test
            return self.done or all(
                test(handle, ctypes.byref(over), None) or over.value for handle in self.handles  # or it has failed
            )
        finally:
            self.waiting.release()

    def attend(self) -> None:
        self.waiter.put(self)

    def disown(self, error: BaseException) -> None:
        self.waiting = threading.Lock()
        super().disown(error)


class Waiter:
    """Threads that wait for flights of one group: one of them at a time, in the order in which flights come.

    Before it runs callbacks, a thread lets another one wait, because callbacks may wait for flights themselves.

    polls: starts of the engine wait for the thread that waits in it, so look in turns
    """

    def __init__(self, polls: bool) -> None:
        self._polls = polls
        self._queue: deque[Flight] = deque()
        self._threads: list[threading.Thread] = []
        self._changed = threading.Condition()
        self._idle = 0  # threads that wait for their turn
        self._waits = False  # a thread waits for a flight
        self._stops = False

    def is_busy(self) -> bool:
        return self._waits or bool(self._queue)

    def put(self, flight: Flight) -> None:
        with self._changed:
            self._queue.append(flight)
            self._call_next()

    def _call_next(self) -> None:
        """With the lock: see to it that the next flight has a thread."""
        if self._waits or not self._queue:
            return
        if self._idle:
            self._changed.notify()
            return
        thread = threading.Thread(target=self._serve, name="accel_torch waiter", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        while (flight := self._next()) is not None:
            if self._polls:
                flight.poll()
            flight.complete()
            with self._changed:
                self._waits = False
                self._call_next()
            flight.end()
            del flight

    def _next(self) -> Optional[Flight]:
        """Wait for this thread's turn.  @return None: there is nothing left to do"""
        with self._changed:
            while self._waits or not self._queue:
                if self._stops and not self._queue:
                    return None
                self._idle += 1
                self._changed.wait(1)  # __del__() of a work may call put() just before, and wake no thread
                self._idle -= 1
            self._waits = True
            return self._queue.popleft()

    def stop(self) -> None:
        """Wait until all that was put has ended, with its callbacks."""
        with self._changed:
            self._stops = True
            self._changed.notify_all()
        while self._threads:
            thread = self._threads.pop()
            if thread is not threading.current_thread():
                thread.join()


class NumberedWork(dist.Work):
    """What every Work has here.  sequence: which collective of its group it is"""

    sequence = 0

    def _get_sequence_number(self) -> int:
        return self.sequence

    def synchronize(self) -> None:
        self.wait()

    def block_current_stream(self) -> None:
        self.wait()


class FlightWork(NumberedWork):
    """The Work of a flight.

    timeout_s: of the call, or of the process group if that is shorter than libaccel's.
    """

    def __init__(self, flight: Flight, timeout_s: Optional[float] = None) -> None:
        super().__init__()
        self._flight = flight
        self._timeout_s = timeout_s
        self._begin = time.monotonic() if timeout_s is not None else 0.0

    def join(self, flights: Pending) -> None:
        self._flight.join(flights)

    def _limit(self) -> Optional[Limit]:
        if self._timeout_s is None:
            return None
        text = f"timed out after {self._timeout_s * 1000:.0f} ms, the timeout of the call or its process group"
        return Limit(self._begin + self._timeout_s, text)

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        flight, limit = self._flight, self._limit()
        own = timeout.total_seconds() if timeout else 0
        if own > 0:
            flight.wait_until(time.monotonic() + own, f"wait() timed out after {own * 1000:.0f} ms")
        elif limit is not None:
            flight.wait_until(*limit)
        elif not flight.done:
            flight.finish()
        if flight.error is not None:
            raise flight.error
        return True

    def is_completed(self) -> bool:
        if not self._flight.is_over():
            return False
        self._flight.finish()
        return True

    def is_success(self) -> bool:
        return self.is_completed() and self._flight.error is None

    def exception(self) -> Optional[BaseException]:
        return self._flight.error

    def result(self) -> Any:
        self.wait()
        return _flat(self._flight.tensors)

    def source_rank(self) -> int:
        return _source(self._flight.source)

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future[Any]:
        return self._flight.get_future(self._limit())

    def __del__(
        self, is_ending: Any = sys.is_finalizing, hold: Any = ctypes.pythonapi.Py_IncRef, this: Any = ctypes.py_object
    ) -> None:
        """When the interpreter ends, no thread can begin, and modules may have lost their names."""
        flight = self._flight
        if flight.done:
            return
        if is_ending():
            hold(this(flight))  # its tensors have to stay
        else:
            flight.attend()


class DoneWork(NumberedWork):
    """The Work of a call that ended before it returned."""

    def __init__(self, tensors: Any, source: int = -1) -> None:
        super().__init__()
        self._tensors = tensors
        self._source = source

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self) -> None:
        return None

    def result(self) -> Any:
        return _flat(self._tensors)

    def source_rank(self) -> int:
        return _source(self._source)

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future[Any]:
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result(self._tensors)
        return future


class ManyWork(FlightWork):
    """The Work of several calls, which were made between start_coalescing() and end_coalescing()."""

    class _All(Flight):
        __slots__ = ("flights", "works")

        def __init__(self, works: Sequence[dist.Work], flights: Pending) -> None:
            super().__init__([tensor for work in works for tensor in _tensors_of(work)])
            self.works = works
            self.flights = flights  # of the group

        def complete(self) -> None:
            for work in self.works:
                try:
                    work.wait()
                except BaseException as error:  # noqa: BLE001
                    self.error = self.error or error

        def is_over(self) -> bool:
            return all(work.is_completed() for work in self.works)

        def attend(self) -> None:
            self.join(self.flights)
            threading.Thread(target=self.finish, daemon=True).start()

    def __init__(self, works: Sequence[dist.Work], flights: Pending) -> None:
        super().__init__(ManyWork._All(works, flights))

    def __del__(self, *_: Any, **__: Any) -> None:
        pass  # the works of the single calls see to their tensors


def _source(rank: int) -> int:
    if rank < 0:
        raise RuntimeError("accel: source_rank() is for messages that were received")
    return rank


def _tensors_of(work: dist.Work) -> list[torch.Tensor]:
    return _flat(work._flight.tensors if isinstance(work, FlightWork) else work._tensors)  # type: ignore[attr-defined]


def _flat(tensors: Any) -> list[torch.Tensor]:
    return [tensor for part in tensors for tensor in (part if isinstance(part, (list, tuple)) else [part])]


# Versions of torch before 2.9 may forget the Python part of a Work object that its C++ code was given.
FORGETS = tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 9)
_C10D = vars(dist.distributed_c10d)


def for_caller(work: dist.Work) -> dist.Work:
    """The Work to return to the caller of the caller, which may be C++ code: then one that is C++, too."""
    if not FORGETS or type(work) is dist.Work or sys._getframe(2).f_globals is _C10D:
        return work
    return c10d._create_work_from_future(work.get_future())
