# SPDX-License-Identifier: Apache-2.0
"""What bench_shard measures, with PyTorch: DDP and both kinds of FSDP2, over gloo.

    accelerate launch --cpu --num_processes 2 shard_peer.py PARAMETERS STEPS

A model has eight matrices.  A step uses one row of each, so that it computes almost nothing, writes all gradients,
averages them, and is one of AdamW (fused).  The ways take turns; printed are medians of the slowest rank, in ms.
"""

from __future__ import annotations

import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

TENSORS, COLUMNS, WARM_UP = 8, 256, 3


class Layer(nn.Module):
    def __init__(self, rows: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(rows, COLUMNS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.weight[0].sum()


class Way:
    def __init__(self, name: str, rows: int) -> None:
        model: nn.Module = nn.Sequential(*(Layer(rows) for _ in range(TENSORS)))
        if name == "DDP":
            model = DistributedDataParallel(model)
        else:
            mesh = init_device_mesh("cpu", (dist.get_world_size(),))
            for layer in model:
                fully_shard(layer, mesh=mesh, reshard_after_forward=name == "FSDP2")
            fully_shard(model, mesh=mesh, reshard_after_forward=name == "FSDP2")
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        self.times: list[float] = []

    def step(self) -> None:
        began = time.perf_counter()
        self.model(torch.ones(1)).sum().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.times.append((time.perf_counter() - began) * 1e3)


def main() -> None:
    parameters, steps = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    names = ("DDP", "FSDP2, whole after forward", "FSDP2")
    ways = {name: Way(name, parameters // TENSORS // COLUMNS) for name in names}
    for _ in range(WARM_UP + steps):
        for way in ways.values():
            dist.barrier()
            way.step()
    for name, way in ways.items():
        slowest = torch.tensor(way.times[WARM_UP:], dtype=torch.float64)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        if dist.get_rank() == 0:
            print(f"{dist.get_world_size()} processes, {parameters} parameters, {name}: a step takes "
                  f"{statistics.median(slowest.tolist()):.3f} ms, at least {slowest.min().item():.3f}", flush=True)
    dist.barrier()
    os._exit(0)  # with 4 processes, torch's threads ended one by "terminate called without an active exception"


main()
