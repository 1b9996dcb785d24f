# SPDX-License-Identifier: Apache-2.0
"""The flights of a group that have not ended, and the end of the futures that may not wait for them."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING, NamedTuple, Optional

if TYPE_CHECKING:
    from ._work import Flight

# Around `done` and `gates` of all flights; never held while waiting.  A signal's handler, or __del__(), may come
# in between and fork, or end a flight: so the thread that has it may have it once more.
ending = threading.RLock()


class Limit(NamedTuple):
    """How long those who wait do so.  deadline: of time.monotonic();  text: of the error then"""

    deadline: float
    text: str


class Pending(set["Flight"]):
    """Flights of one group.  A thread fails their futures when wait() would fail; the calls continue."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()
        self._look = math.inf  # when the thread looks next
        self._thread: Optional[threading.Thread] = None

    def limit(self, deadline: float) -> None:
        """A flight of these, which somebody has asked for a future, has this limit now."""
        with self._changed:
            if deadline >= self._look:
                return
            self._look = deadline
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="accel_torch limits", daemon=True)
                self._thread.start()
            else:
                self._changed.notify()

    def _serve(self) -> None:
        while True:
            with self._changed:
                with ending:
                    limits = [flight.limit.deadline for flight in list(self) if flight.limit is not None]
                self._look = min(limits, default=math.inf)
                if not limits:
                    self._thread = None
                    return
                left = self._look - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                    continue
            self._expire()

    def _expire(self) -> None:
        """In other threads, because callbacks may wait for futures that this one has to fail."""
        now = time.monotonic()
        with ending:
            limited = [(flight, flight.limit) for flight in list(self) if flight.limit is not None]
            late = [(flight, limit) for flight, limit in limited if limit.deadline <= now]
            for flight, _ in late:
                flight.limit = None
        for flight, limit in late:
            threading.Thread(target=flight.expire, args=(limit.text,), name="accel_torch limit", daemon=True).start()

    def stop(self) -> None:
        """All flights have ended."""
        with self._changed:
            thread = self._thread
            self._changed.notify()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
