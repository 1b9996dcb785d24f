#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes trajectory.txt: parameters in 200 steps of training with all at once, by the original and PyTorch.

Not run by the tests.  How to run, and with what the committed file was made (torch 2.15.0, accelerate 1.15.0):

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch accelerate numpy
    /tmp/venv/bin/python tests/golden/make_trajectory_goldens.py tests/golden

Accumulation, division of the loss, clipping, the optimizer's step and the scheduler's are those of an Accelerator, with
torch's portable kernels (see make_goldens.py) and its single-tensor optimizers, which are its default on CPUs.

The loss is half the square of the distance between parameters and a target, which is drawn for every micro-batch; so
gradients are differences, which both sides compute exactly alike, and what goes wrong in one step shows in the next.
Where an optimizer maximises, it is the negative of that.

Each line is OPTIMIZER KEY=VALUE... "schedule" NAME KEY=VALUE... "clip" "none", "norm" MAX P or "value" LIMIT
"accumulate" K, then "at" STEP and all parameters for steps 1, 10, 50 and 200.  "-nearest" is torch with square roots
rounded to the nearest float32, see make_train_goldens.py.
"""

import contextlib
import os
import sys

os.environ["ATEN_CPU_CAPABILITY"] = "default"
os.environ["OMP_NUM_THREADS"] = "1"

import accelerate
import torch

from make_scheduler_goldens import schedule
from make_train_goldens import Lion, NearestSquareRoot, bits, generator

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "."
SHAPES = ((2, 5), (9,), ())
RECORDED = (1, 10, 50, 200)

OPTIMIZERS = (
    ("sgd", {"lr": 0.05}),
    ("sgd", {"lr": 0.05, "momentum": 0.9}),
    ("sgd", {"lr": 0.02, "momentum": 0.9, "nesterov": True}),
    ("sgd", {"lr": 0.1, "momentum": 0.8, "dampening": 0.3, "weight_decay": 0.01}),
    ("sgd", {"lr": 0.005, "maximize": True, "weight_decay": 0.1}),
    ("sgd", {"lr": 0.03, "momentum": 0.7, "nesterov": True, "weight_decay": 0.002}),
    ("adam", {"lr": 0.003}),
    ("adam", {"lr": 0.01, "weight_decay": 0.02, "betas": (0.8, 0.99)}),
    ("adam", {"lr": 0.005, "amsgrad": True, "eps": 1e-6}),
    ("adam", {"lr": 0.001, "maximize": True}),
    ("adamw", {"lr": 0.003, "weight_decay": 0.01}),
    ("adamw", {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True}),
    ("adamw", {"lr": 0.002, "betas": (0.95, 0.98), "weight_decay": 0.05, "maximize": True}),
    ("lion", {"lr": 0.001}),
    ("lion", {"lr": 0.003, "betas": (0.95, 0.98), "weight_decay": 0.1}),
)
SCHEDULES = (
    ("constant", {"warmup_steps": 7}),
    ("linear", {"total_steps": 180, "warmup_steps": 13}),
    ("cosine", {"total_steps": 200, "warmup_steps": 17}),
    ("restarts", {"total_steps": 190, "warmup_steps": 5, "cycles": 3.0}),
    ("step", {"step_size": 30, "gamma": 0.5}),
    ("polynomial", {"total_steps": 199, "power": 0.9}),
    ("one-cycle", {"total_steps": 200, "max_lr": 0.02}),
    ("one-cycle", {"total_steps": 200, "max_lr": 0.01, "linear": 1, "three_phase": 1, "pct_start": 0.4}),
    ("lambda", {}),
)
# Beside all pairs of these.
MORE = (
    (OPTIMIZERS[1], ("one-cycle", {"total_steps": 200, "max_lr": 0.02, "div_factor": 10.0, "final_div_factor": 100.0})),
    (OPTIMIZERS[10], ("one-cycle", {"total_steps": 150, "max_lr": 0.01, "three_phase": 1, "div_factor": 4.0})),
)
CLIPS = (
    ("none",),
    ("norm", 1.0, 2.0),
    ("norm", 4.0, 1.0),
    ("norm", 0.25, float("inf")),
    ("norm", 1.25, 3.0),
    ("value", 0.25),
)


class Model(torch.nn.Module):
    """Parameters that begin in [0.5, 1.5), and the loss."""

    def __init__(self, source, factor):
        super().__init__()
        self.factor = factor
        self.values = torch.nn.ParameterList(torch.rand(shape, generator=source) + 0.5 for shape in SHAPES)

    def forward(self, targets):
        return sum(((value - target) ** 2).sum() for value, target in zip(self.values, targets)) * self.factor


def make_optimizer(kind, parameters, options):
    maker = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "lion": Lion}[kind]
    return maker(parameters, **options)


def trained(kind, options, name, schedule_options, clip, accumulate):
    source = generator(2028)
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerate.state.GradientState._reset_state()
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
    model = Model(source, -0.5 if options.get("maximize") else 0.5)
    optimizer = make_optimizer(kind, model.parameters(), options)
    scheduler = schedule(optimizer, name, schedule_options)
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
    steps = 0
    while steps < RECORDED[-1]:
        with accelerator.accumulate(model):
            targets = [torch.rand(shape, generator=source) + 0.5 for shape in SHAPES]
            accelerator.backward(model(targets))
            if accelerator.sync_gradients and clip[0] == "norm":
                accelerator.clip_grad_norm_(model.parameters(), clip[1], norm_type=clip[2])
            elif accelerator.sync_gradients and clip[0] == "value":
                accelerator.clip_grad_value_(model.parameters(), clip[1])
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        steps += accelerator.sync_gradients
        if accelerator.sync_gradients and steps in RECORDED:
            yield f"at {steps} {' '.join(bits(value) for value in model.values)}"


def words(options):
    text = ""
    for key, value in options.items():
        text += f" beta1={value[0]} beta2={value[1]}" if key == "betas" else f" {key}={float(value)!r}"
    return text


def cases():
    pairs = [(optimizer, one) for optimizer in OPTIMIZERS for one in SCHEDULES] + list(MORE)
    for number, ((kind, options), (name, schedule_options)) in enumerate(pairs):
        schedule_options = dict(schedule_options)
        if name == "one-cycle" and not ("momentum" in options or kind in ("adam", "adamw", "lion")):
            schedule_options["keep_momentum"] = 1
        clip = CLIPS[number % len(CLIPS)]
        accumulate = (1, 4, 2, 3)[(number + number // len(CLIPS)) % 4]
        exact = contextlib.nullcontext()
        for suffix, mode in (("", exact), ("-nearest", NearestSquareRoot())):
            if suffix and not kind.startswith("adam"):
                continue
            with mode:
                records = list(trained(kind, options, name, schedule_options, clip, accumulate))
            yield (f"{kind}{suffix}{words(options)} schedule {name}{words(schedule_options)} "
                   f"clip {' '.join(str(word) for word in clip)} accumulate {accumulate} {' '.join(records)}")


with open(f"{FOLDER}/trajectory.txt", "w", encoding="ascii") as file:
    file.write("# Made by make_trajectory_goldens.py.\n")
    for line in cases():
        file.write(line + "\n")
