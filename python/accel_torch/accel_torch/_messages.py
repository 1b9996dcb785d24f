# SPDX-License-Identifier: Apache-2.0
"""Messages between two ranks.

Each pair of ranks has two lanes for each direction, whose communicators have these two members.  One is for messages
with tag 0, each of which is a broadcast.  On the other, a message is a broadcast of its envelope and one of its
elements, and the receiver keeps messages whose tags no call has asked for yet: so messages of different tags do not
wait for each other, however many tags there are.  Both directions work at the same time.

A receiver from any rank must know who sends.  A sender whose message has not been received for some milliseconds says
so in the store of the group; the receiver looks there.
"""

from __future__ import annotations

import ctypes
import math
import struct
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Optional

import torch
import torch.distributed as dist

from ._lane import Check, Lane, Task
from ._library import PEER, AccelError, errors, fail, library
from ._site import call_site
from ._tensors import Tensor, copy_back, dense, units
from ._types import UINT8
from ._work import FlightWork, Waiter, in_mode_of_caller

_C10D = vars(dist.distributed_c10d)
_SOON_S = 0.005
_LAST_S = 5.0  # for which the end of a group waits for the first message of a rank
_ENVELOPE = struct.Struct("<qqqqq216s")  # tag, bytes, count and type as libaccel has them, line and file of the sender

Site = tuple[bytes, int]


def caller_waits(name: str) -> bool:
    """Whether torch's function `name`, which waits, has called the function that calls this one."""
    frame = sys._getframe(2)
    return frame.f_code.co_name == name and frame.f_globals is _C10D


def _broadcast(comm: int, site: Site, address: int, count: int, dtype: int) -> None:
    """From the first member, who sends, to the second."""
    status = library().comm_broadcast(*site, comm, address, count, dtype, 0, errors.pointer)
    if status:
        raise fail(status)


class _Count:
    """Messages of one direction and tag between two ranks: sent, or received."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.begun = 0
        self.told = 0  # the latest message of which the store says that it waits
        self.since = 0.0  # when the one that waits to be received began; 0: none does


class _Envelope:
    def __init__(self, packed: bytes) -> None:
        self.tag, self.bytes, self.count, self.dtype, line, file = _ENVELOPE.unpack(packed)
        self.site = f"{file.rstrip(bytes(1)).decode(errors='replace')}:{line}"


class _Receipt(Task):
    """A call that waits for a message with a tag."""

    __slots__ = ("accept", "site", "source", "target")

    def __init__(self, tensor: Tensor, source: int, site: Site) -> None:
        super().__init__(None, [tensor])
        self.target = target = dense(tensor)
        self.source = source
        self.site = site
        self.accept = in_mode_of_caller(lambda: None if target is tensor else copy_back(tensor, target))

    def refuse(self, envelope: _Envelope) -> Optional[AccelError]:
        """The error of a message that has not the same number of elements of the same type."""
        count, dtype = units(self.target)
        if (count, dtype) == (envelope.count, envelope.dtype):
            return None
        own = f"{self.site[0].decode(errors='replace')}:{self.site[1]}"
        what, theirs, mine = "counts", envelope.count, count
        if envelope.dtype != dtype:
            what, theirs, mine = "types (enum accel_dtype)", envelope.dtype, dtype
        which = f"{what} of a message with tag {envelope.tag}"
        return AccelError(PEER, f"{which} differ: {theirs} sent at {envelope.site}, {mine} at {own}")


class _Inbox:
    """Messages with tags that come from one rank."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.asked: defaultdict[int, deque[_Receipt]] = defaultdict(deque)  # by tag, the oldest first
        self.kept: defaultdict[int, deque[tuple[_Envelope, Tensor]]] = defaultdict(deque)

    def take(self, tag: int) -> Optional[_Receipt]:
        """With the lock."""
        return self.asked[tag].popleft() if self.asked[tag] else None


class Messages:
    """Those of one process group.  keys: with what those in the store begin"""

    def __init__(
        self,
        store: dist.Store,
        keys: str,
        rank: int,
        size: int,
        make: Callable[[str, Sequence[int], Check], int],
        wait_s: float,
        waiter: Waiter,
    ) -> None:
        self._store = store
        self._keys = keys
        self._rank = rank
        self._size = size
        self._make = make
        self._wait_s = wait_s
        self._waiter = waiter
        self._lanes: dict[tuple[int, int, bool], Lane] = {}
        self._counts: dict[tuple[int, int, int], _Count] = {}
        self._inboxes: defaultdict[int, _Inbox] = defaultdict(_Inbox)
        self._any = Lane(lambda: 0, waiter)
        self._lock = threading.Lock()
        self._sends = threading.Event()
        self._ends = math.inf  # when what has not begun to come is given up: set by stop()
        self._stops = False
        self._teller: Optional[threading.Thread] = None

    def _find(self, source: int, to: int, tag: int) -> tuple[Lane, _Count]:
        for rank in (source, to):
            if not 0 <= rank < self._size:
                raise ValueError(f"accel: no rank {rank} in a group of size {self._size}")
        if source == to:
            raise ValueError("accel: a rank cannot send to itself")
        kind = "tags" if tag else "message"
        with self._lock:
            lane = self._lanes.get((source, to, tag != 0))
            if lane is None:
                check = partial(self._check_end, source)
                lane = Lane(lambda: self._make(f"{kind}/{source}/{to}", (source, to), check), self._waiter)
                self._lanes[source, to, tag != 0] = lane
            count = self._counts.get((source, to, tag))
            if count is None:
                count = self._counts[source, to, tag] = _Count(f"{self._keys}/waits/{source}/{to}/{tag}")
            return lane, count

    def _check_end(self, source: int) -> None:
        if time.monotonic() >= self._ends:
            raise RuntimeError(f"accel: the process group was destroyed before rank {source} sent a message")

    def send(self, tensor: Tensor, to: int, tag: int, waits: bool, timeout_s: Optional[float]) -> dist.Work:
        (lane, count), site = self._find(self._rank, to, tag), call_site()
        source = dense(tensor)

        def function(comm: int) -> None:
            count.begun += 1
            count.since = time.monotonic()
            self._sends.set()
            try:
                if tag:
                    size = source.numel() * source.element_size()
                    envelope = _ENVELOPE.pack(tag, size, *units(source), site[1], site[0][-215:])
                    buffer = ctypes.create_string_buffer(envelope, _ENVELOPE.size)
                    _broadcast(comm, site, ctypes.addressof(buffer), _ENVELOPE.size, UINT8)
                    _broadcast(comm, site, source.data_ptr(), size, UINT8)
                else:
                    _broadcast(comm, site, source.data_ptr(), *units(source))
            finally:
                count.since = 0.0

        self._need_teller()
        return lane.run(function, [tensor], waits, timeout_s)

    def recv(self, tensor: Tensor, source: int, tag: int, waits: bool, timeout_s: Optional[float]) -> dist.Work:
        return self._recv(tensor, source, tag, waits, timeout_s, call_site())

    def _recv(
        self, tensor: Tensor, source: int, tag: int, waits: bool, timeout_s: Optional[float], site: Site
    ) -> dist.Work:
        lane, count = self._find(source, self._rank, tag)
        if tag:
            return self._recv_tagged(lane, _Receipt(tensor, source, site), tag, waits, timeout_s)
        target = dense(tensor)

        def function(comm: int) -> int:
            count.begun += 1
            _broadcast(comm, site, target.data_ptr(), *units(target))
            if target is not tensor:
                copy_back(tensor, target)
            return source

        return lane.run(function, [tensor], waits, timeout_s)

    # ---- tags ----

    def _recv_tagged(
        self, lane: Lane, receipt: _Receipt, tag: int, waits: bool, timeout_s: Optional[float]
    ) -> dist.Work:
        """What has come is taken; else the lane receives one message more, whose call need not be this one."""
        inbox = self._inboxes[receipt.source]
        with inbox.lock:
            kept = inbox.kept[tag].popleft() if inbox.kept[tag] else None
            if kept is None:
                inbox.asked[tag].append(receipt)
        if kept is not None:
            self._deliver(receipt, *kept)
        else:
            self._receive(lane, inbox, receipt, waits, timeout_s)
        return FlightWork(receipt, timeout_s)

    def _receive(self, lane: Lane, inbox: _Inbox, asker: _Receipt, waits: bool, timeout_s: Optional[float]) -> None:
        """Receive messages until one of them is for a call."""
        source, site = asker.source, asker.site

        def function(comm: int) -> None:
            while not self._receive_one(inbox, source, site, comm):
                pass

        def failed(error: BaseException) -> None:
            with inbox.lock:
                receipt = next(filter(None, map(inbox.take, list(inbox.asked))), None)
            if receipt is not None:
                receipt.error = error
                receipt.settle(self._waiter)

        lane.run(function, [], waits, timeout_s, failed)

    def _receive_one(self, inbox: _Inbox, source: int, site: Site, comm: int) -> bool:
        """@return whether it was for a call"""
        buffer = ctypes.create_string_buffer(_ENVELOPE.size)
        _broadcast(comm, site, ctypes.addressof(buffer), _ENVELOPE.size, UINT8)
        envelope = _Envelope(buffer.raw)
        self._find(source, self._rank, envelope.tag)[1].begun += 1
        with inbox.lock:
            receipt = inbox.take(envelope.tag)
        if receipt is not None and receipt.refuse(envelope) is None:
            elements = receipt.target
        else:
            elements = torch.empty(envelope.bytes, dtype=torch.uint8, device="cpu")
        try:
            _broadcast(comm, site, elements.data_ptr(), envelope.bytes, UINT8)
        except BaseException as error:
            if receipt is None:
                raise
            receipt.error = error
        with inbox.lock:
            if receipt is None:
                receipt = inbox.take(envelope.tag)  # it may have been asked for meanwhile
            if receipt is None:
                inbox.kept[envelope.tag].append((envelope, elements))
        if receipt is not None:
            self._deliver(receipt, envelope, elements)
        return receipt is not None

    def _deliver(self, receipt: _Receipt, envelope: _Envelope, elements: Tensor) -> None:
        try:
            receipt.error = receipt.error or receipt.refuse(envelope)
            if receipt.error is None:
                if elements is not receipt.target:
                    ctypes.memmove(receipt.target.data_ptr(), elements.data_ptr(), envelope.bytes)
                receipt.accept()
        except BaseException as error:  # noqa: BLE001: it is the outcome of the call
            receipt.error = error
        receipt.settle(self._waiter)

    # ---- from any rank ----

    def recv_any(self, tensor: Tensor, tag: int, timeout_s: Optional[float]) -> dist.Work:
        site = call_site()

        def function(_comm: int) -> int:
            source = self._find_sender(tag)
            self._recv(tensor, source, tag, True, None, site).wait()
            return source

        return self._any.run(function, [tensor], False, timeout_s)

    def _find_sender(self, tag: int) -> int:
        deadline, pause = time.monotonic() + self._wait_s, 1e-3
        while time.monotonic() < min(deadline, self._ends):
            for source in range(self._size):
                if source != self._rank and self._has_message(source, tag):
                    return source
            time.sleep(pause)
            pause = min(pause * 2, 0.02)
        if time.monotonic() >= self._ends:
            raise RuntimeError(f"accel: the process group was destroyed before any rank sent a message with tag {tag}")
        raise RuntimeError(f"accel: no rank sent a message with tag {tag} within {self._wait_s:.0f} s")

    def _has_message(self, source: int, tag: int) -> bool:
        count = self._find(source, self._rank, tag)[1]
        if tag and self._inboxes[source].kept[tag]:
            return True
        return self._store.check([count.key]) and int(self._store.get(count.key)) > count.begun

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
            counts = list(self._counts.values())
        left = False
        for count in counts:
            since, number = count.since, count.begun
            if not since or count.told == number:
                continue
            left = True
            if time.monotonic() - since >= _SOON_S:
                self._store.set(count.key, str(number))
                count.told = number
        return left

    def is_busy(self) -> bool:
        return self._any.is_busy() or any(lane.is_busy() for lane in list(self._lanes.values()))

    def stop(self) -> None:
        """Wait for what is in flight; a message of which nothing has come by then is given up soon."""
        self._ends = time.monotonic() + _LAST_S
        self._any.stop()
        for lane in self._lanes.values():
            lane.stop()
        self._stops = True  # the last: others may have to hear of a message that waits
        self._sends.set()
        if self._teller is not None:
            self._teller.join()
