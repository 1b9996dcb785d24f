#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what torch's powerSGD_hook makes of gradients of one matrix; the lines of power_sgd.txt are those of 2 and of 3
processes.

Not run by the tests.  How to run, and with what the committed file was made (torch 2.15.0):

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch numpy
    for n in 2 3; do /tmp/venv/bin/torchrun --nproc_per_node $n tests/golden/make_power_sgd_goldens.py; done

Each line has the number of processes, the step, and every 37th element of the gradient.  Gradients come from an integer
hash that tests/conformance/power_sgd.c computes too.
"""

import numpy
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel


def noise(count, seed):
    mask = numpy.uint64(0xFFFFFFFF)
    x = numpy.arange(count, dtype=numpy.uint64) ^ numpy.uint64(seed * 2654435761 & 0xFFFFFFFF)
    x = x * numpy.uint64(2246822519) & mask
    x = (x ^ x >> numpy.uint64(15)) * numpy.uint64(3266489917) & mask
    x = (x ^ x >> numpy.uint64(13)) * numpy.uint64(668265263) & mask
    return ((x >> numpy.uint64(8)).astype(numpy.float64) * 2.0**-23 - 1).astype(numpy.float32)


class Matrix(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(40, 30))

    def forward(self, factor):
        return (self.weight * factor).sum()


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
model = DistributedDataParallel(Matrix())
state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
for step in range(1, 13):
    model.zero_grad()
    model(torch.from_numpy(noise(1200, 1000 * rank + 50000 * step)).view(40, 30)).backward()
    if rank == 0:
        values = model.module.weight.grad.flatten()[::37].tolist()
        print(size, step, " ".join(f"{value:.7g}" for value in values), flush=True)
dist.destroy_process_group()
