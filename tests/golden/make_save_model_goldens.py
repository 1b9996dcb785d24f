#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/save_model/ with Hugging Face Accelerate's save_model (accelerate 1.15.0, safetensors 0.8.0), and
check what accel_save_model() wrote.

    make_save_model_goldens.py            # make the golden files
    make_save_model_goldens.py DIR...     # do Accelerate and safetensors read these?  Each must hold the model below

test_save_model.c saves the same model and compares all bytes.  Number i of tensor k is i / 8 + k.
"""
import pathlib
import shutil
import sys

import torch
from accelerate import Accelerator, load_checkpoint_in_model

SIZES = {"whole": "10GB", "sharded": "0.2KB", "each": "1KB"}


def numbers(k, *shape, dtype=torch.float32):
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float32) / 8 + k).reshape(shape).to(dtype)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Parameter(numbers(0, 10, 4))
        self.a = torch.nn.Parameter(numbers(1, 4, 4))
        self.b = torch.nn.Parameter(numbers(2, 4, dtype=torch.bfloat16))
        self.big = torch.nn.Parameter(numbers(3, 17, 17))
        self.head = self.embed  # tied
        self.c = torch.nn.Parameter(numbers(4, 3, 5, 2, dtype=torch.float16))
        self.scalar = torch.nn.Parameter(numbers(5))
        self.register_buffer("steps", torch.tensor([1, 2, 3]))


def check(folder):
    wanted, model = Model().state_dict(), Model()
    for parameter in model.state_dict().values():
        parameter.zero_()
    load_checkpoint_in_model(model, folder)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, wanted[name]) and tensor.dtype == wanted[name].dtype, name
    print(f"{folder}: {len(wanted)} tensors are equal")


if len(sys.argv) > 1:
    for each in sys.argv[1:]:
        check(each)
else:
    top = pathlib.Path(__file__).parent / "save_model"
    for name, size in SIZES.items():
        shutil.rmtree(top / name, ignore_errors=True)
        Accelerator(cpu=True).save_model(Model(), top / name, max_shard_size=size)
        check(top / name)
