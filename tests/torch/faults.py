# SPDX-License-Identifier: Apache-2.0
"""What tests/torch/faults.sh launches: faults.py FAULT CALL.  Rank 1 gets the fault after two calls that go well."""

import os
import signal
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

fault, call = sys.argv[1:]
# Ranks meet here for as long as it takes: the short timeout is for what follows.
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, rank == 0)
timeout = timedelta(seconds=5 if fault == "stop" else 600)
dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timeout)
model = DistributedDataParallel(torch.nn.Linear(10, 10)) if call == "ddp" else None


def step(size):
    if call == "all_reduce":
        dist.all_reduce(torch.ones(size))
    elif call == "barrier":
        dist.barrier()
    else:
        model(torch.ones(4, 10)).sum().backward()


step(4)
step(4)
if rank == 1:
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif call == "all_reduce":
        step(5)
    else:
        dist.all_reduce(torch.ones(3))
step(4)
