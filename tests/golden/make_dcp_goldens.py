#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sharded checkpoints as PyTorch writes them, and what Accelerate merges them to; see README.md.

    make_dcp_goldens.py [FOLDER [NAME...]]     needs torch, accelerate and safetensors

Writes FOLDER/NAME/ (torch.distributed.checkpoint, saved by several processes on the CPU) and FOLDER/NAME.safetensors
(by accelerate's merge_fsdp_weights) for each case but the last; and
FOLDER/codes.safetensors and FOLDER/values.safetensors: small floating-point types.
"""
import os
import shutil
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from accelerate.utils import merge_fsdp_weights
from safetensors.torch import save_file
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import ShardedStateDictConfig, StateDictType, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor


def numbers(shape, dtype):
    values = torch.arange(1, 1 + torch.Size(shape).numel(), dtype=torch.float64).reshape(shape) / 4 - 3
    return values.to(dtype)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 5)
        self.layers = nn.ModuleList([nn.Linear(5, 3), nn.Linear(3, 5, bias=False)])
        self.norm = nn.BatchNorm1d(5)


def fsdp1(mesh):
    """Uneven shards of ShardedTensor, in three processes; accelerate saves {"model": ...}."""
    torch.manual_seed(7)
    model = FSDP(Net(), device_id=torch.device("cpu"), use_orig_params=True)
    FSDP.set_state_dict_type(model, StateDictType.SHARDED_STATE_DICT, ShardedStateDictConfig(offload_to_cpu=True))
    return {"model": model.state_dict()}


def fsdp2(mesh):
    """DTensors of fully_shard in bfloat16."""
    torch.manual_seed(8)
    model = Net().to(torch.bfloat16)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return {"model": model.state_dict()}


def rows_of(tensor, mesh):
    """Sharded by rows, without communication: gloo lacks some element types."""
    parts = tensor.chunk(mesh.size())
    local = parts[mesh.get_rank()] if mesh.get_rank() < len(parts) else tensor[:0]
    return DTensor.from_local(local, mesh, [Shard(0)], run_check=False, shape=tensor.shape, stride=tensor.stride())


def dtypes(mesh):
    """Each element type, sharded or not; scalars, empty tensors, and no key "model" around them."""
    state = {}
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
                  torch.int8, torch.uint8):
        name = str(dtype).split(".")[1]
        state[f"{name}.sharded"] = rows_of(numbers((5, 2), dtype), mesh)
        state[f"{name}.scalar"] = torch.tensor(3, dtype=dtype)
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.uint16, torch.uint32, torch.uint64):
        state[str(dtype).split(".")[1]] = numbers((2, 3), torch.float32).abs().to(dtype)
    state["bool"] = torch.tensor([True, False, True])
    state["complex64"] = torch.tensor([1 + 2j, 3 - 4j])
    state["empty"] = torch.empty(0, 4)
    state["one"] = torch.tensor([5.0])
    return state


def layouts(mesh):
    """Chunks that are columns, blocks and slabs; memory in other orders than the elements'; names of all kinds."""
    def rows(first, *rest):
        return numbers((first, *rest), torch.float32)
    state = {
        "columns": distribute_tensor(rows(3, 7), mesh, [Shard(1)]),
        "slabs": distribute_tensor(rows(5, 3, 2), mesh, [Shard(0)]),
        "middle": distribute_tensor(rows(2, 5, 3), mesh, [Shard(1)]),
        "last": distribute_tensor(rows(2, 3, 4), mesh, [Shard(2)]),
        "replicated": distribute_tensor(rows(2, 2), mesh, [Replicate()]),
        "fewer rows than ranks": distribute_tensor(rows(1, 4), mesh, [Shard(0)]),
        "vector": distribute_tensor(rows(10), mesh, [Shard(0)]),
        "transposed": rows(3, 4).t(),
        "permuted": rows(2, 3, 4).permute(2, 0, 1),
        "channels last": rows(2, 3, 2, 2).contiguous(memory_format=torch.channels_last),
        "view": rows(6, 6)[1:4, 2:5],
        "expanded": torch.tensor([[1.5], [2.5]]).expand(2, 3),
        "parameter": nn.Parameter(rows(2)),
        "a.b/c d\u00e9 \u4e2d": rows(2),
    }
    return {"model": state}


def grid(mesh):
    """Sharded along two dimensions by four processes."""
    mesh = init_device_mesh("cpu", (2, 2))
    return {"model": {"both": distribute_tensor(numbers((5, 7), torch.float32), mesh, [Shard(0), Shard(1)]),
                      "twice": distribute_tensor(numbers((7, 2), torch.bfloat16), mesh, [Shard(0), Shard(0)])}}


def objects(mesh):
    """What safetensors does not store; Accelerate fails."""
    return {"text": "hello", "number": 3, "tensor": torch.ones(2), "list": [torch.zeros(1), {"deep": torch.ones(3)}]}


def write_small_types(target):
    """Codes of all small floating-point types, and what they mean in float32."""
    codes, values = {}, {}
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
                  torch.float8_e8m0fnu):
        codes[str(dtype)] = torch.arange(256, dtype=torch.uint8).view(dtype)
    for dtype in (torch.float16, torch.bfloat16):
        codes[str(dtype)] = torch.arange(0, 65536, 61, dtype=torch.int32).to(torch.uint16).view(dtype)
    for name, tensor in codes.items():
        values[name] = tensor.to(torch.float32)
    save_file(codes, os.path.join(target, "codes.safetensors"))
    save_file(values, os.path.join(target, "values.safetensors"))


CASES = [(fsdp1, 3), (fsdp2, 2), (dtypes, 2), (layouts, 3), (grid, 4), (objects, 1)]


def rank_main(rank, make, world, folder, port):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port))
    dist.init_process_group("gloo")
    dcp.save(make(init_device_mesh("cpu", (world,))), checkpoint_id=folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    target = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "dcp")
    os.makedirs(target, exist_ok=True)
    write_small_types(target)
    for number, (make, world) in enumerate(CASES):
        if sys.argv[2:] and make.__name__ not in sys.argv[2:]:
            continue
        folder = os.path.join(target, make.__name__)
        shutil.rmtree(folder, ignore_errors=True)
        mp.spawn(rank_main, (make, world, folder, 29811 + number), nprocs=world)
        if make is objects:
            continue
        merge_fsdp_weights(folder, folder + ".merged")
        os.replace(os.path.join(folder + ".merged", "model.safetensors"), folder + ".safetensors")
        os.rmdir(folder + ".merged")
