# SPDX-License-Identifier: Apache-2.0
"""Messages between two ranks.

Each pair of ranks has a lane for each direction and tag, whose communicator has these two members, and on which a message
is a broadcast.  So messages of different tags do not wait for each other, and both directions work at the same time.

A receiver from any rank must know who sends.  A sender whose message has not been received for some milliseconds says
so in the store of the group; the receiver looks there.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Optional

import torch.distributed as dist

from ._lane import Lane
from ._library import errors, fail, library
from ._site import call_site
from ._tensors import Tensor, copy_back, dense, units
from ._work import Waiter

_C10D = vars(dist.distributed_c10d)
_SOON_S = 0.005


def caller_waits(name: str) -> bool:
    """Whether torch's function `name`, which waits, has called the function that calls this one."""
    frame = sys._getframe(2)
    return frame.f_code.co_name == name and frame.f_globals is _C10D


class _Channel:
    """Of one direction and tag between two ranks; `begun` counts its messages on this rank."""

    def __init__(self, lane: Lane, key: str) -> None:
        self.lane = lane
        self.key = key
        self.begun = 0
        self.told = 0  # the latest message of which the store says that it waits
        self.since = 0.0  # when the one that waits to be received began; 0: none does


class Messages:
    """Those of one process group."""

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        size: int,
        make: Callable[[str, Sequence[int]], int],
        wait_s: float,
        waiter: Waiter,
    ) -> None:
        self._store = store
        self._rank = rank
        self._size = size
        self._make = make
        self._wait_s = wait_s
        self._channels: dict[tuple[int, int, int], _Channel] = {}
        self._waiter = waiter
        self._any = Lane(lambda: 0, waiter)
        self._lock = threading.Lock()
        self._sends = threading.Event()
        self._stops = False
        self._teller: Optional[threading.Thread] = None

    def _channel(self, source: int, to: int, tag: int) -> _Channel:
        for rank in (source, to):
            if not 0 <= rank < self._size:
                raise ValueError(f"accel: no rank {rank} in a group of size {self._size}")
        if source == to:
            raise ValueError("accel: a rank cannot send to itself")
        with self._lock:
            channel = self._channels.get((source, to, tag))
            if channel is None:
                key = f"message/{source}/{to}/{tag}"
                channel = _Channel(
                    Lane(lambda: self._make(key, (source, to)), self._waiter), f"accel/waits/{source}/{to}/{tag}"
                )
                self._channels[source, to, tag] = channel
            return channel

    def send(self, tensor: Tensor, to: int, tag: int, waits: bool, timeout_s: Optional[float]) -> dist.Work:
        channel, site = self._channel(self._rank, to, tag), call_site()
        source = dense(tensor)

        def function(comm: int) -> None:
            channel.begun += 1
            channel.since = time.monotonic()
            self._sends.set()
            status = library().comm_broadcast(*site, comm, source.data_ptr(), *units(source), 0, errors.pointer)
            channel.since = 0.0
            if status:
                raise fail(status)

        self._need_teller()
        return channel.lane.run(function, [tensor], waits, timeout_s)

    def recv(self, tensor: Tensor, source: int, tag: int, waits: bool, timeout_s: Optional[float]) -> dist.Work:
        channel, site = self._channel(source, self._rank, tag), call_site()
        target = dense(tensor)

        def function(comm: int) -> int:
            channel.begun += 1
            status = library().comm_broadcast(*site, comm, target.data_ptr(), *units(target), 0, errors.pointer)
            if status:
                raise fail(status)
            if target is not tensor:
                copy_back(tensor, target)
            return source

        return channel.lane.run(function, [tensor], waits, timeout_s)

    def recv_any(self, tensor: Tensor, tag: int, timeout_s: Optional[float]) -> dist.Work:
        def function(_comm: int) -> int:
            source = self._find_sender(tag)
            self.recv(tensor, source, tag, True, None).wait()
            return source

        return self._any.run(function, [tensor], False, timeout_s)

    def _find_sender(self, tag: int) -> int:
        deadline, pause = time.monotonic() + self._wait_s, 1e-3
        while time.monotonic() < deadline and not self._stops:
            for source in range(self._size):
                if source == self._rank:
                    continue
                channel = self._channel(source, self._rank, tag)
                if self._store.check([channel.key]) and int(self._store.get(channel.key)) > channel.begun:
                    return source
            time.sleep(pause)
            pause = min(pause * 2, 0.02)
        raise RuntimeError(f"accel: no rank sent a message with tag {tag} within {self._wait_s:.0f} s")

    # ---- saying who waits ----

    def _need_teller(self) -> None:
        if self._teller is None:
            with self._lock:
                if self._teller is None:
                    self._teller = threading.Thread(target=self._tell, name="accel_torch messages", daemon=True)
                    self._teller.start()

    def _tell(self) -> None:
        while not self._stops:
            self._sends.wait()
            self._sends.clear()
            while not self._stops and self._tell_once():
                time.sleep(_SOON_S)

    def _tell_once(self) -> bool:
        """Whether there are messages that may still have to be told."""
        with self._lock:
            channels = list(self._channels.values())
        left = False
        for channel in channels:
            since, number = channel.since, channel.begun
            if not since or channel.told == number:
                continue
            left = True
            if time.monotonic() - since >= _SOON_S:
                self._store.set(channel.key, str(number))
                channel.told = number
        return left

    def is_busy(self) -> bool:
        return self._any.is_busy() or any(channel.lane.is_busy() for channel in self._channels.values())

    def stop(self) -> None:
        self._stops = True
        self._sends.set()
        if self._teller is not None:
            self._teller.join()
        self._any.stop()
        for channel in self._channels.values():
            channel.lane.stop()


def missing(store: dist.Store, key: str, size: int, wait_s: float, all_ranks: bool) -> str:
    """Wait for the keys `key`/1 to `key`/(size - 1).  @return who did not come, in words; "": all came"""
    deadline = time.monotonic() + wait_s
    absent = []
    for rank in range(1, size):
        while not store.check([f"{key}/{rank}"]):
            if time.monotonic() >= deadline:
                absent.append(rank)
                break
            time.sleep(1e-3)
        if absent and not all_ranks:
            break
    if not absent:
        return ""
    names = ", ".join(map(str, absent))
    return f"[Rank 0]: Ranks {names} failed to pass monitoredBarrier in {wait_s * 1000:.0f} ms"
