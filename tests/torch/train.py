# SPDX-License-Identifier: Apache-2.0
"""Training as programs do it: DDP (with parameters that are not used), FSDP2, tensor parallelism, stages of a pipeline,
and checkpoints.

train.py BACKEND FOLDER [STEPS]: prints all losses exactly, so that two backends can be compared.  Of two ranks each sum
has only one order, so theirs have the same bits.  Rank 0 prints the classes of its process groups to standard error.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

if torch.__version__ < (2, 5):  # which loads no backends by itself
    with contextlib.suppress(ImportError):
        import accel_torch  # noqa: F401

backend, folder, steps = sys.argv[1], sys.argv[2], int((sys.argv[3:] or ["100"])[0])
torch.set_num_threads(1)
dist.init_process_group(backend)
rank, size = dist.get_rank(), dist.get_world_size()


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(32, 64)
        self.second = nn.Linear(64, 32)
        self.rare = nn.Linear(64, 32)

    def forward(self, x: torch.Tensor, rare: bool = False) -> torch.Tensor:
        hidden = torch.relu(self.first(x))
        return self.rare(hidden) if rare else self.second(hidden)


def make() -> Model:
    torch.manual_seed(7)
    return Model()


def train(name: str, model: nn.Module, call, count: int = steps, same_data: bool = False) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(1 if same_data else 10 + rank)
    for step in range(count):
        x = torch.randn(8, 32, generator=generator)
        loss = ((call(x, step) - x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        if rank == 0:
            print(f"{name} {step} {total.item().hex()}", flush=True)


def ddp() -> None:
    model = DistributedDataParallel(make(), bucket_cap_mb=0.01, find_unused_parameters=True)
    train("ddp", model, lambda x, step: model(x, rare=(step + rank) % 3 == 0))


def fsdp2() -> None:
    from torch.distributed.checkpoint import load, save
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict

    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        from torch.distributed._composable.fsdp import fully_shard

    def shard() -> nn.Module:
        model = make()
        mesh = init_device_mesh("cpu", (size,))
        for layer in (model.first, model.second, model.rare):
            fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    model = shard()
    train("fsdp2", model, lambda x, step: model(x) + model(x, True))
    save(get_model_state_dict(model), checkpoint_id=f"{folder}/dcp")
    again = shard()
    state = get_model_state_dict(again)
    load(state, checkpoint_id=f"{folder}/dcp")
    set_model_state_dict(again, state)
    for one, other in zip(model.parameters(), again.parameters()):
        assert torch.equal(one.full_tensor(), other.full_tensor())
    train("resumed", again, lambda x, step: again(x) + again(x, True), 5)


def transformer() -> None:
    """A model of transformers, which cuts it itself."""
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=32, tie_word_embeddings=False,
    )  # fmt: skip
    torch.manual_seed(7)
    if rank == 0:
        transformers.LlamaForCausalLM(config).save_pretrained(f"{folder}/llama")
    dist.barrier()
    model = transformers.AutoModelForCausalLM.from_pretrained(f"{folder}/llama", tp_plan="auto")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(min(steps, 10)):
        tokens = torch.arange(32).remainder(7 + step).repeat(2, 1)
        loss = model(input_ids=tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"transformer {step} {loss.item().hex()}", flush=True)


def tensor_parallel() -> None:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (size,))
    model = parallelize_module(make(), mesh, {"first": ColwiseParallel(), "second": RowwiseParallel()})
    del model.rare
    train("tensors", model, lambda x, step: model(x), same_data=True)


def pipeline() -> None:
    """One stage on each rank; where torch can, each pair that exchanges messages has a group of its own."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    with contextlib.suppress(ImportError):  # before 2.15
        from torch.distributed import config

        config.pipeline_per_edge_p2p = True

    torch.manual_seed(7)
    model = [nn.Linear(32, 32) for _ in range(size)][rank]
    schedule = ScheduleGPipe(PipelineStage(model, rank, size, torch.device("cpu")), 4, nn.functional.mse_loss)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(1)
    for step in range(min(steps, 10)):
        x = torch.randn(8, 32, generator=generator)
        losses: list[torch.Tensor] = []
        optimizer.zero_grad()
        schedule.step(*([x] if rank == 0 else []), target=x, losses=losses)
        optimizer.step()
        total = torch.stack(losses).sum().detach() if losses else torch.zeros(())
        dist.broadcast(total, size - 1)
        if rank == 0:
            print(f"pipeline {step} {total.item().hex()}", flush=True)


ddp()
tensor_parallel()
if torch.__version__ >= (2, 6):  # before, a stage must be given examples of its input
    pipeline()
if torch.__version__ >= (2, 5):  # before, fully_shard() needs a GPU
    fsdp2()
    if importlib.util.find_spec("transformers"):
        transformer()
if rank == 0:
    groups = dist.distributed_c10d._world.pg_map
    print("groups:", *sorted({type(group).__name__ for group in groups}), file=sys.stderr, flush=True)
dist.destroy_process_group()
sys.stdout.flush()
os._exit(0)  # torch 2.15's own gloo sometimes aborts, or waits, when the interpreter ends
