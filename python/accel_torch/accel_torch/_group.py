# SPDX-License-Identifier: Apache-2.0
"""How process groups come into being: the default one joins the job, others get communicators of their members."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed as dist

from ._backend import AccelProcessGroup
from ._job import current_job, open_job
from ._lane import meet


def create(options: Any) -> dist.ProcessGroup:
    """A group for torch's _DistributedBackendOptions."""
    rank, size, timeout, ranks = options.group_rank, options.group_size, options.timeout, options.global_ranks_in_group
    if not ranks:
        job = open_job(rank, size, milliseconds(timeout))
        return AccelProcessGroup(options.store, rank, size, timeout, job, job.world, range(size))
    job = current_job()
    comm = meet(options.store, "accel/group", job.world, ranks, rank == 0, timeout.total_seconds())
    return AccelProcessGroup(options.store, rank, size, timeout, job, comm, ranks)


def milliseconds(timeout: timedelta) -> int:
    return min(max(int(timeout.total_seconds() * 1000), 1), 2**32 - 1)
