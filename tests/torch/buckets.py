# SPDX-License-Identifier: Apache-2.0
"""What tests/torch/buckets.sh launches on 2 ranks: buckets.py HOW.  The last bucket of DistributedDataParallel.

  waited      the reducer's call on it waits for its end, the others do not
  late        not for long
  kept        the group forgets a bucket with its model, and one that is made again
  crossed     two models of two groups, through which the ranks pass in different orders
  compiled    a model that torch.compile() has compiled
  answered    a rank makes its last call when a message has come, which the other one sends after its own
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from typing import Any, Optional

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import accel_torch  # noqa: F401
from accel_torch import _backend

dist.init_process_group("accel")
rank = dist.get_rank()
world = dist.group.WORLD
WIDTH = 600  # a layer has more than the megabyte of the first bucket
finished: list[bool] = []  # whether each call had ended when it returned


def watch(name: str) -> None:
    """Calls of this method come later on rank 1."""
    own = getattr(world, name)

    def call(*args: Any) -> dist.Work:
        time.sleep(0.2 * rank)
        work = own(*args)
        finished.append(work.is_completed())
        return work

    setattr(world, name, call)


def make(group: Optional[dist.ProcessGroup] = None, depth: int = 1, **more: Any) -> DistributedDataParallel:
    torch.manual_seed(depth)
    layers = [nn.Linear(WIDTH, WIDTH) for _ in range(depth)]
    more = {"bucket_cap_mb": 0.01, **more}
    return DistributedDataParallel(nn.Sequential(*layers), process_group=group, **more)


def step(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    model(torch.full((2, WIDTH), rank + 1.0, requires_grad=True)).sum().backward()


def gradients(model: nn.Module) -> list[torch.Tensor]:
    return [parameter.grad for parameter in model.parameters()]


def train(**more: bool) -> None:
    """A model of several buckets, with the gradients of gloo."""
    models = [make(depth=3, **more), make(dist.new_group(backend="gloo"), depth=3, **more)]
    watch("_reduce_last")
    watch("_run")
    for number in range(3):
        finished.clear()
        for model in models:
            model.zero_grad()
            step(model)
        assert all(map(torch.equal, *map(gradients, models)))
        assert len(finished) > 1 or number == 0, finished  # torch begins with one bucket
    del world._reduce_last, world._run


def waited() -> None:
    _backend._MOMENT_S = 60
    train()
    assert finished[-1] and (rank == 1 or not any(finished[:-1])), finished
    train(find_unused_parameters=True)
    assert finished[-2], finished  # then the reducer asks which parameters were used


def late() -> None:
    train()
    assert rank == 1 or not any(finished), finished


def kept() -> None:
    model = make(depth=2)
    addresses = set()
    for _ in range(3):
        step(model)
        assert len(world.last_buckets) == 1
        addresses.update(world.last_buckets)
    assert len(addresses) == 2, addresses  # it was made again
    del model
    gc.collect()
    assert not world.last_buckets


def crossed() -> None:
    first, second = make(), make(dist.new_group())
    for _ in range(2):  # after the first, each makes its buckets again, on all ranks in one order
        step(lambda rows: second(first(rows)))
    assert world.last_buckets
    if rank == 0:
        step(lambda rows: second(first(rows)))
    else:
        step(lambda rows: first(second(rows)))


def compiled() -> None:
    models = [make(bucket_cap_mb=25), make(dist.new_group(backend="gloo"), bucket_cap_mb=25)]
    for model in models:
        run = torch.compile(model, backend="aot_eager")
        for _ in range(3):
            model.zero_grad()
            step(run)
    assert all(map(torch.equal, *map(gradients, models)))


def answered() -> None:
    model, word = make(), torch.zeros(1)
    for _ in range(2):
        step(model)
    assert world.last_buckets
    rows = 2 * torch.ones((2, WIDTH), requires_grad=True)  # whose gradient comes after those of the parameters
    out = model(rows)
    if rank == 0:
        rows.register_hook(lambda _grad: dist.send(word, 1))
    else:
        out.register_hook(lambda _grad: None if dist.recv(word, 0) else None)
    out.sum().backward()


globals()[sys.argv[1]]()
dist.destroy_process_group()
print(f"as expected: {sys.argv[1]}\n", end="", flush=True)
