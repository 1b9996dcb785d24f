#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes scheduler.txt, the learning rates of PyTorch's schedulers.

Not run by the tests.  How to run, and with what the committed file was made (torch 2.15.0, accelerate 1.15.0):

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch accelerate numpy
    /tmp/venv/bin/python tests/golden/make_scheduler_goldens.py tests/golden

Schedules with warm-up are those of transformers (get_..._schedule_with_warmup), whose published formulas are below.
Each line is NAME KEY=VALUE..., then "lr" and the learning rates of steps 0 to 200 (or to the schedule's end), for
one-cycle with momentum then "momentum" and those.  Numbers are written so that they are read back exactly (%a).
The `wrapped` lines are those of the original's AcceleratedScheduler, with the calls that it got:
s a step, x one whose optimizer step was skipped, a one while accumulating.
"""

import math
import sys
import types
import warnings

import accelerate.scheduler
import accelerate.state
import torch
from torch.optim import lr_scheduler

warnings.filterwarnings("ignore")
FOLDER = sys.argv[1] if len(sys.argv) > 1 else "."
STEPS = 200


def constant(warmup_steps=0):
    return lambda step: float(step) / float(max(1.0, warmup_steps)) if step < warmup_steps else 1.0


def linear(total_steps, warmup_steps=0, final_fraction=0.0):
    """With a final fraction: like transformers for a cosine (get_cosine_with_min_lr_schedule_with_warmup)."""

    def factor(step):
        if step < warmup_steps:
            return float(step) / float(max(1, warmup_steps))
        left = max(0.0, float(total_steps - step) / float(max(1, total_steps - warmup_steps)))
        return left * (1 - final_fraction) + final_fraction

    return factor


def cosine(total_steps, warmup_steps=0, cycles=0.5, final_fraction=0.0):
    def factor(step):
        if step < warmup_steps:
            return float(step) / float(max(1, warmup_steps))
        progress = float(step - warmup_steps) / float(max(1, total_steps - warmup_steps))
        wave = 0.5 * (1.0 + math.cos(math.pi * float(cycles) * 2.0 * progress))
        return max(0.0, wave * (1 - final_fraction) + final_fraction)

    return factor


SHAPES = (None, "linear", "cosine", "1-sqrt")


def wsd(warmup_steps=0, decay_steps=0, total_steps=0, stable_steps=0, warmup_shape=1, decay_shape=2, final_fraction=0.0,
        cycles=0.5):
    """transformers' _get_wsd_scheduler_lambda()."""
    stable_steps = stable_steps or total_steps - warmup_steps - decay_steps
    warmup_type, decay_type = SHAPES[warmup_shape], SHAPES[decay_shape]

    def factor(step):
        if step < warmup_steps:
            progress = float(step) / float(max(1, warmup_steps))
            if warmup_type == "linear":
                value = progress
            elif warmup_type == "cosine":
                value = 0.5 * (1.0 - math.cos(math.pi * progress))
            else:
                value = 1.0 - math.sqrt(1.0 - progress)
            return max(0.0, value * (1.0 - final_fraction) + final_fraction)
        if step < warmup_steps + stable_steps:
            return 1.0
        if step < warmup_steps + stable_steps + decay_steps:
            progress = float(step - warmup_steps - stable_steps) / float(max(1, decay_steps))
            if decay_type == "linear":
                value = 1.0 - progress
            elif decay_type == "cosine":
                value = 0.5 * (1.0 + math.cos(math.pi * float(cycles) * 2.0 * progress))
            else:
                value = 1.0 - math.sqrt(progress)
            return max(0.0, value * (1.0 - final_fraction) + final_fraction)
        return final_fraction

    return factor


def restarts(total_steps, warmup_steps=0, cycles=1, final_fraction=0.0):
    def factor(step):
        if step < warmup_steps:
            return float(step) / float(max(1, warmup_steps))
        progress = float(step - warmup_steps) / float(max(1, total_steps - warmup_steps))
        wave = 0.0
        if progress < 1.0:
            wave = max(0.0, 0.5 * (1.0 + math.cos(math.pi * ((float(cycles) * progress) % 1.0))))
        return wave * (1 - final_fraction) + final_fraction

    return factor


def own(step):
    """What the test's function computes, without anything that libraries round differently."""
    return 1.0 / (1.0 + 0.03125 * step)


FACTORS = {"constant": constant, "linear": linear, "cosine": cosine, "restarts": restarts, "wsd": wsd}
CASES = [
    ("constant", {}),
    ("constant", {"warmup_steps": 1}),
    ("constant", {"warmup_steps": 7}),
    ("constant", {"warmup_steps": 300}),
    ("linear", {"total_steps": 1}),
    ("linear", {"total_steps": 200}),
    ("linear", {"total_steps": 150, "warmup_steps": 13}),
    ("linear", {"total_steps": 200, "warmup_steps": 20}),
    ("linear", {"total_steps": 20, "warmup_steps": 20}),
    ("cosine", {"total_steps": 200}),
    ("cosine", {"total_steps": 150, "warmup_steps": 17}),
    ("cosine", {"total_steps": 100, "warmup_steps": 10, "cycles": 2.0}),
    ("cosine", {"total_steps": 200, "cycles": 0.45}),
    ("restarts", {"total_steps": 200}),
    ("restarts", {"total_steps": 190, "warmup_steps": 11, "cycles": 3.0}),
    ("restarts", {"total_steps": 100, "cycles": 7.0}),
    ("step", {"step_size": 1, "gamma": 0.97}),
    ("step", {"step_size": 30}),
    ("step", {"step_size": 7, "gamma": 0.5}),
    ("step", {"step_size": 13, "gamma": 1.1}),
    ("polynomial", {"total_steps": 5}),
    ("polynomial", {"total_steps": 1}),
    ("polynomial", {"total_steps": 200}),
    ("polynomial", {"total_steps": 150, "power": 2.0}),
    ("polynomial", {"total_steps": 199, "power": 0.9}),
    ("polynomial", {"total_steps": 60, "power": 0.5}),
    ("one-cycle", {"total_steps": 1, "max_lr": 0.1}),
    ("one-cycle", {"total_steps": 2, "max_lr": 0.1}),
    ("one-cycle", {"total_steps": 200, "max_lr": 0.1}),
    ("one-cycle", {"total_steps": 200, "max_lr": 0.01, "linear": 1}),
    ("one-cycle", {"total_steps": 173, "max_lr": 0.3, "pct_start": 0.25, "div_factor": 10.0}),
    ("one-cycle", {"total_steps": 200, "max_lr": 0.1, "three_phase": 1}),
    ("one-cycle", {"total_steps": 111, "max_lr": 0.1, "three_phase": 1, "linear": 1, "pct_start": 0.4}),
    ("one-cycle", {"total_steps": 200, "max_lr": 1.0, "final_div_factor": 100.0, "base_momentum": 0.8}),
    ("one-cycle", {"total_steps": 200, "max_lr": 1.0, "max_momentum": 0.9, "adam": 1}),
    ("one-cycle", {"total_steps": 200, "max_lr": 1.0, "keep_momentum": 1}),
    ("lambda", {}),
    ("linear", {"total_steps": 150, "warmup_steps": 13, "final_fraction": 0.1}),
    ("linear", {"total_steps": 200, "final_fraction": 1.5}),
    ("cosine", {"total_steps": 200, "warmup_steps": 20, "final_fraction": 0.1}),
    ("cosine", {"total_steps": 150, "cycles": 1.0, "final_fraction": 0.3}),
    ("restarts", {"total_steps": 190, "warmup_steps": 11, "cycles": 3.0, "final_fraction": 0.25}),
    ("wsd", {"warmup_steps": 20, "decay_steps": 50, "total_steps": 190}),
    ("wsd", {"warmup_steps": 20, "decay_steps": 50, "stable_steps": 30, "final_fraction": 0.1}),
    ("wsd", {"warmup_steps": 33, "decay_steps": 77, "total_steps": 110, "warmup_shape": 2, "decay_shape": 1}),
    ("wsd", {"decay_steps": 60, "total_steps": 180, "decay_shape": 3, "final_fraction": 0.05}),
    ("wsd", {"warmup_steps": 40, "decay_steps": 60, "total_steps": 180, "warmup_shape": 3, "final_fraction": 0.2}),
    ("wsd", {"warmup_steps": 1, "decay_steps": 100, "total_steps": 150, "cycles": 1.5}),
]


def schedule(optimizer, name, options):
    """A scheduler of that optimizer."""
    options = dict(options)
    if name in FACTORS:
        return lr_scheduler.LambdaLR(optimizer, FACTORS[name](**options))
    if name == "lambda":
        return lr_scheduler.LambdaLR(optimizer, own)
    if name == "step":
        return lr_scheduler.StepLR(optimizer, **options)
    if name == "polynomial":
        options["total_iters"] = options.pop("total_steps")
        return lr_scheduler.PolynomialLR(optimizer, **options)
    options["anneal_strategy"] = "linear" if options.pop("linear", 0) else "cos"
    options["cycle_momentum"] = not options.pop("keep_momentum", 0)
    options["three_phase"] = bool(options.pop("three_phase", 0))
    return lr_scheduler.OneCycleLR(optimizer, **options)


def make(name, options, lr=0.1):
    """An optimizer and its scheduler."""
    options = dict(options)
    parameter = torch.nn.Parameter(torch.zeros(1))
    if options.pop("adam", 0):
        optimizer = torch.optim.Adam([parameter], lr=lr)
    else:
        optimizer = torch.optim.SGD([parameter], lr=lr, momentum=0.5)
    return optimizer, schedule(optimizer, name, options)


def words(options):
    return "".join(f" {key}={value!r}" for key, value in options.items())


def run(name, options, lr):
    optimizer, scheduler = make(name, options, lr)
    group = optimizer.param_groups[0]
    rates, momenta = [], []
    end = min(STEPS, getattr(scheduler, "total_steps", STEPS))
    for step in range(end + 1):
        if step:
            optimizer.step()
            scheduler.step()
        assert scheduler.get_last_lr() == [group["lr"]]
        rates.append(float(group["lr"]).hex())
        momenta.append(float(group["betas"][0] if "betas" in group else group["momentum"]).hex())
    text = f"{name} base_lr={lr!r}{words(options)} lr {' '.join(rates)}"
    return text + (f" momentum {' '.join(momenta)}" if name == "one-cycle" else "")


class Skippable:
    """What the original's scheduler asks of an optimizer."""

    step_was_skipped = False


def wrapped(name, options, processes, calls, with_optimizer, split):
    accelerate.scheduler.AcceleratorState = lambda: types.SimpleNamespace(num_processes=processes)
    gradients = accelerate.state.GradientState()
    _, scheduler = make(name, options)
    optimizer = Skippable()
    inner = scheduler
    scheduler = accelerate.scheduler.AcceleratedScheduler(scheduler, optimizer, bool(with_optimizer), bool(split))
    rates = [inner.get_last_lr()[0].hex()]
    for call in calls:
        gradients._set_sync_gradients(call != "a")
        optimizer.step_was_skipped = call == "x"
        try:
            scheduler.step()
            rates.append(inner.get_last_lr()[0].hex())
        except ValueError:
            rates.append("error")
            break
    return (f"wrapped {name} base_lr=0.1{words(options)} processes={processes} calls={calls} "
            f"without_optimizer={int(not with_optimizer)} split_batches={int(split)} lr {' '.join(rates)}")


def main():
    with open(f"{FOLDER}/scheduler.txt", "w", encoding="ascii") as file:
        file.write("# Made by make_scheduler_goldens.py.\n")
        for number, (name, options) in enumerate(CASES):
            file.write(run(name, options, (0.1, 0.003, 1.0)[number % 3]) + "\n")
        for name, options in (("linear", {"total_steps": 20}), ("step", {"step_size": 3}), ("lambda", {}),
                              ("one-cycle", {"total_steps": 11, "max_lr": 0.1})):
            for processes in (1, 2, 3):
                for with_optimizer, split in ((1, 0), (1, 1), (0, 0)):
                    file.write(wrapped(name, options, processes, "ssxaassxsaas", with_optimizer, split) + "\n")


if __name__ == "__main__":
    main()
