#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/save_state/ with Hugging Face Accelerate's save_state (accelerate 1.15.0, torch 2.15.0).

Each case trains a few steps, saves its state in a folder, and trains on; results.txt has the parameters then, and the
next numbers of torch's generator after the save.  test_python_state.c loads the folder and does the same.

make_save_state_goldens.py FOLDER writes FOLDER/save_state instead.

Element i of all parameters begins as (i % 11) / 4; its gradient in step s is ((7 i + 13 s) % 29 - 14) / 8.
"""
import pathlib
import random
import shutil
import sys

import numpy
import torch
from accelerate import Accelerator

BEFORE, AFTER = 7, 5
SHAPES = {"a": (5, 5), "b": (11,), "c": ()}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        first = 0
        for name, shape in SHAPES.items():
            count = torch.Size(shape).numel()
            values = torch.tensor([i % 11 / 4 for i in range(first, first + count)])
            self.register_parameter(name, torch.nn.Parameter(values.reshape(shape)))
            first += count


class Counter:
    """A registered object."""

    def state_dict(self):
        return {"count": 3, "rate": 0.5, "word": "abc", "on": True, "inner": {"list": [1, 2]}, "none": None,
                "tensor": torch.tensor([1.0, 2.0, 3.0])}

    def load_state_dict(self, state):
        pass


def adamw(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, betas=(0.8, 0.95), weight_decay=0.1)
    return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)


def amsgrad(model):
    model.b.requires_grad = False  # but the optimizer has it
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, amsgrad=True)
    return optimizer, None


def groups(model):
    optimizer = torch.optim.SGD([{"params": [model.a], "lr": 0.1}, {"params": [model.b, model.c], "weight_decay": 0.01}],
                                lr=0.05, momentum=0.9, nesterov=True)
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 20)


def adagrad(model):
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05, lr_decay=0.1, weight_decay=0.02,
                                    initial_accumulator_value=0.3, eps=1e-6)
    return optimizer, None


def rmsprop(model):
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01, alpha=0.9, eps=1e-5, weight_decay=0.03, momentum=0.8,
                                    centered=True)
    return optimizer, None


def fresh(model):
    return torch.optim.AdamW(model.parameters(), lr=0.01), None


CASES = {"adamw": (adamw, BEFORE, True), "amsgrad": (amsgrad, BEFORE, True), "groups": (groups, BEFORE, False),
         "fresh": (fresh, 0, True), "adagrad": (adagrad, BEFORE, True), "rmsprop": (rmsprop, BEFORE, True)}


def train(model, optimizer, scheduler, steps):
    for step in steps:
        first = 0
        for parameter in model.parameters():
            count = parameter.numel()
            if parameter.requires_grad:
                numbers = [((7 * i + 13 * step) % 29 - 14) / 8 for i in range(first, first + count)]
                parameter.grad = torch.tensor(numbers).reshape(parameter.shape)
            first += count
        optimizer.step()
        if scheduler:
            scheduler.step()


def main():
    top = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent) / "save_state"
    shutil.rmtree(top, ignore_errors=True)
    top.mkdir()
    lines = []
    for name, (make, before, safe) in CASES.items():
        accelerator = Accelerator(cpu=True)
        torch.manual_seed(42)
        random.seed(42)
        numpy.random.seed(42)
        model = Model()
        optimizer, scheduler = make(model)
        model, optimizer = accelerator.prepare(model, optimizer)
        if scheduler:
            scheduler = accelerator.prepare(scheduler)
        if name == "adamw":
            accelerator.register_for_checkpointing(Counter())
        train(model, optimizer, scheduler, range(before))
        accelerator.save_state(top / name, safe_serialization=safe)
        if name == "fresh":  # there is no GPU for fp16 where this runs; its file is this
            torch.save(torch.amp.GradScaler("cpu", init_scale=512.0, growth_interval=77).state_dict(), top / name / "scaler.pt")
        draws = torch.rand(3).tolist()
        train(model, optimizer, scheduler, range(before, before + AFTER))
        values = [value for parameter in model.parameters() for value in parameter.detach().reshape(-1).tolist()]
        lines.append(" ".join([name, *(value.hex() for value in draws + values)]))
    (top / "results.txt").write_text("\n".join(lines) + "\n")


main()
