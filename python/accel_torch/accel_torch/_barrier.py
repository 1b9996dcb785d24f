# SPDX-License-Identifier: Apache-2.0
"""The barrier in which rank 0 says who did not come: all that it needs is the store of the group."""

from __future__ import annotations

import time
from collections.abc import Iterable

import torch.distributed as dist

from ._lane import fetch

_LONGER_S = 1.0  # than rank 0, which says after its own time who is missing


def monitor(store: dist.Store, key: str, rank: int, size: int, wait_s: float, all_ranks: bool) -> str:
    """Meet.  all_ranks: name all who do not come, not only the first.  @return what went wrong, or "" """
    wait_ms = f"{wait_s * 1000:.0f} ms"
    if rank == 0:
        others = range(1, size)
        absent = _absent(store, key, others, wait_s, all_ranks)
        names = ("Ranks " if all_ranks else "Rank ") + ", ".join(map(str, absent))
        text = f"[Rank 0]: {names} failed to pass monitoredBarrier in {wait_ms}" if absent else ""
        if wait_s <= 0:
            text = f"[Rank 0]: Rank 0 timed out in monitoredBarrier after {wait_ms}"
        store.set(f"{key}/all", text.encode())
        # The store may end with this process, so the others read first.
        here = [other for other in others if store.check([f"{key}/{other}"])]
        _absent(store, f"{key}/seen", here, wait_s, False)
        return text
    came = f"Rank {rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
    came += "rank 0"
    try:
        store.set(f"{key}/{rank}", b"1")
        text = fetch(store, f"{key}/all", wait_s + _LONGER_S).decode()
        store.set(f"{key}/seen/{rank}", b"1")
        return text and f"{came}, which says: {text}"
    except dist.DistNetworkError:
        return f"{came}: the store has ended, as if rank 0 had"
    except dist.DistStoreError:
        return f"{came} in {wait_ms}"


def _absent(store: dist.Store, key: str, ranks: Iterable[int], wait_s: float, all_ranks: bool) -> list[int]:
    """Wait for the keys `key`/RANK.  @return whose did not come; not all_ranks: the first of these"""
    deadline = time.monotonic() + wait_s
    absent = []
    for rank in ranks:
        while not store.check([f"{key}/{rank}"]) and time.monotonic() < deadline:
            time.sleep(1e-3)
        if not store.check([f"{key}/{rank}"]):
            absent.append(rank)
            if not all_ranks:
                break
    return absent
