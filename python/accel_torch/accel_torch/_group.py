# SPDX-License-Identifier: Apache-2.0
"""How process groups come into being: the default one joins the job, others get communicators of their members."""

from __future__ import annotations

import os
from typing import Any

import torch.distributed as dist

from . import _memory
from ._backend import AccelProcessGroup
from ._job import current_job, milliseconds, open_job
from ._lane import meet
from ._mixed import MixedProcessGroup

_begun = 0  # default groups of this process, and of all others


def begin() -> str:
    """A default group begins.  @return with what its keys in the store begin, which may still have those of others"""
    global _begun
    _begun += 1
    return f"accel/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}.{_begun}"


def create(options: Any, keys: str = "") -> dist.ProcessGroup:
    """A group for torch's _DistributedBackendOptions.  keys: of begin(), if that was called for it"""
    _memory.install()
    rank, size, timeout, ranks = options.group_rank, options.group_size, options.timeout, options.global_ranks_in_group
    if not ranks:
        job = open_job(rank, size, milliseconds(timeout), keys or begin())
        comm, keys, ranks = job.world, job.keys, range(size)
    else:
        job = current_job()
        keys = job.keys_of(options.group_id)
        comm = meet(options.store, f"{keys}/group", job.world, ranks, rank == 0, timeout.total_seconds())
    others = getattr(options, "process_group", None)
    if others is None or not others._device_types:
        return AccelProcessGroup(options.store, rank, size, timeout, job, comm, ranks, keys)
    return MixedProcessGroup(options.store, rank, size, timeout, job, comm, ranks, keys).join(others)
