#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes groups.txt: 50 steps of PyTorch's optimizers with several parameter groups, and schedulers over them.

Not run by the tests.  How to run, and with what the committed file was made (torch 2.15.0, accelerate 1.15.0):

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch accelerate numpy
    /tmp/venv/bin/python tests/golden/make_group_goldens.py tests/golden

A gradient is the difference between a parameter and a target that is drawn for each step, which both sides compute
exactly alike.  Each line is

    KIND KEY=VALUE...                           the optimizer and its own numbers
    group match=PATTERNS|names=A,B|rest=1 KEY=VALUE...    any number of groups
    none, or schedule NAME KEY=VALUE..., or sequential MILESTONES schedule... schedule..., or chained schedule...
    clip LIMIT                                  one norm over all groups; 0: none
    at STEP, the learning rates of all groups, and all parameters

"-nearest" is torch with square roots rounded to the nearest float32, see make_train_goldens.py.
"""

import contextlib
import fnmatch
import os
import sys

os.environ["ATEN_CPU_CAPABILITY"] = "default"
os.environ["OMP_NUM_THREADS"] = "1"

import torch
from torch.optim import lr_scheduler

from make_scheduler_goldens import FACTORS, schedule
from make_train_goldens import MAKERS, NearestSquareRoot, bits, generator

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "."
PARAMETERS = {
    "wte": (3, 5),
    "h.0.attn.weight": (4, 4),
    "h.0.attn.bias": (7,),
    "h.0.ln_1.weight": (5,),
    "ln_f.bias": (),
    "head": (2, 9),
}
RECORDED = (1, 10, 50)

# What torch's own loop over llm.c-like models does most: no decay for vectors; then everything that can differ.
NO_DECAY = {"match": "*.bias,*ln_*", "weight_decay": 0.0}
CASES = {
    "sgd": (
        ({"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01}, [NO_DECAY]),
        ({"lr": 0.02, "momentum": 0.9}, [
            {"match": "h.*", "lr": 0.05, "momentum": 0.5, "dampening": 0.2},
            {"names": "head,wte", "nesterov": 1, "weight_decay": 0.1},
        ]),
        ({"lr": 0.03}, [
            {"rest": 1, "weight_decay": 0.02},
            {"names": "wte", "momentum": 0.9, "maximize": 1, "lr": 0.001},
        ]),
    ),
    "adam": (
        ({"lr": 0.01, "weight_decay": 0.02}, [NO_DECAY]),
        ({"lr": 0.003}, [
            {"match": "*.weight", "amsgrad": 1, "lr": 0.02},
            {"match": "wte", "beta1": 0.4, "beta2": 0.9, "eps": 1e-6},
            {"rest": 1, "maximize": 1, "weight_decay": 0.1},
        ]),
    ),
    "adamw": (
        ({"lr": 0.01, "weight_decay": 0.1}, [NO_DECAY]),
        ({"lr": 0.002, "beta1": 0.95, "beta2": 0.98, "weight_decay": 0.05}, [
            {"match": "h.?.*", "lr": 0.01, "beta2": 0.9999},
            {"names": "wte", "weight_decay": 0.5, "amsgrad": 1},
            {"names": "head", "eps": 1e-3, "maximize": 1},
        ]),
    ),
    "lion": (
        ({"lr": 0.003, "weight_decay": 0.1}, [NO_DECAY]),
        ({"lr": 0.001}, [{"match": "*[ae]*.bias", "beta1": 0.95, "beta2": 0.98}, {"names": "head", "lr": 0.01}]),
    ),
}
SCHEDULES = (
    ("none", ()),
    ("schedule", (("cosine", {"total_steps": 60, "warmup_steps": 5, "final_fraction": 0.1}),)),
    ("schedule", (("step", {"step_size": 7, "gamma": 0.5}),)),
    ("schedule", (("polynomial", {"total_steps": 45, "power": 2.0}),)),
    ("schedule", (("one-cycle", {"total_steps": 55, "max_lr": 0.02}),)),
    ("schedule", (("linear", {"total_steps": 40, "warmup_steps": 3, "group": 0}),)),
    ("schedule", (("wsd", {"total_steps": 48, "warmup_steps": 6, "decay_steps": 20, "final_fraction": 0.05,
                           "group": 1}),)),
    ("sequential 12", (("linear", {"total_steps": 12}), ("step", {"step_size": 5, "gamma": 0.7}))),
    # torch's OneCycleLR changes the momentum, and the base of what is recursive, before its turn has come.
    ("sequential 4,25", (("cosine", {"total_steps": 30}), ("polynomial", {"total_steps": 19}),
                         ("one-cycle", {"total_steps": 26, "max_lr": 0.01, "keep_momentum": 1}))),
    ("chained", (("step", {"step_size": 9, "gamma": 0.8}), ("polynomial", {"total_steps": 30}))),
    ("chained", (("step", {"step_size": 4, "gamma": 0.9}), ("step", {"step_size": 10, "gamma": 0.5}))),
)


def numbers(group, kind):
    """A group's numbers by torch's names."""
    result = {key: value for key, value in group.items() if key in ("lr", "weight_decay", "eps", "momentum", "dampening")}
    result.update({key: bool(group[key]) for key in ("nesterov", "amsgrad", "maximize") if key in group})
    if "beta1" in group or "beta2" in group:
        default = (0.9, 0.99) if kind == "lion" else (0.9, 0.999)
        result["betas"] = (group.get("beta1", default[0]), group.get("beta2", default[1]))
    return result


def chosen(group, names, taken):
    if "match" in group:
        return [name for name in names if any(fnmatch.fnmatchcase(name, one) for one in group["match"].split(","))]
    if "names" in group:
        return [name for name in names if name in group["names"].split(",")]
    return [name for name in names if name not in taken]


def make_optimizer(kind, defaults, groups, parameters):
    taken = [name for group in groups if "rest" not in group for name in chosen(group, parameters, ())]
    given, named = [], []
    for group in groups:
        merged = {key: value for key, value in defaults.items() if key in ("beta1", "beta2")} | group
        names = chosen(group, parameters, taken)
        given.append({"params": [parameters[name] for name in names], **numbers(merged, kind)})
        named += names
    rest = [parameters[name] for name in parameters if name not in named]
    if rest:
        given.append({"params": rest})
    return MAKERS[kind](given, **numbers(defaults, kind))


def make_one(optimizer, name, options):
    """One schedule over all groups, or over one: then the others' factor is 1."""
    options = dict(options)
    group = options.pop("group", None)
    if group is None:
        return schedule(optimizer, name, options)
    lambdas = [FACTORS[name](**options) if i == group else lambda step: 1.0 for i in range(len(optimizer.param_groups))]
    return lr_scheduler.LambdaLR(optimizer, lambdas)


def make_scheduler(optimizer, how, parts):
    parts = [make_one(optimizer, name, options) for name, options in parts]
    if how.startswith("sequential"):
        return lr_scheduler.SequentialLR(optimizer, parts, [int(word) for word in how.split()[1].split(",")])
    if how == "chained":
        return lr_scheduler.ChainedScheduler(parts)
    return parts[0] if parts else None


def trained(kind, defaults, groups, how, parts, limit):
    source = generator(2029)
    parameters = {name: torch.nn.Parameter(torch.rand(shape, generator=source) + 0.5) for name, shape in PARAMETERS.items()}
    optimizer = make_optimizer(kind, defaults, groups, parameters)
    scheduler = make_scheduler(optimizer, how, parts)
    for step in range(1, RECORDED[-1] + 1):
        for parameter in parameters.values():
            parameter.grad = parameter.detach() - (torch.rand(parameter.shape, generator=source) + 0.5)
        if limit:
            torch.nn.utils.clip_grad_norm_(parameters.values(), limit, foreach=False)
        optimizer.step()
        if scheduler:
            scheduler.step()
        if step in RECORDED:
            rates = " ".join(float(group["lr"]).hex() for group in optimizer.param_groups)
            yield f"at {step} {rates} {' '.join(bits(parameter) for parameter in parameters.values())}"


def words(options):
    return "".join(f" {key}={value if isinstance(value, str) else repr(float(value))}" for key, value in options.items())


def has_momentum(kind, defaults, groups):
    return kind != "sgd" or all((defaults | group).get("momentum") for group in groups) and "momentum" in defaults


def cases():
    number = 0
    for kind, setups in CASES.items():
        for defaults, groups in setups:
            for how, parts in SCHEDULES:
                parts = [(name, dict(options)) for name, options in parts]
                for name, options in parts:
                    if name == "one-cycle" and not has_momentum(kind, defaults, groups):
                        options["keep_momentum"] = 1
                number += 1
                limit = 1.5 if number % 5 == 0 else 0
                for suffix, mode in (("", contextlib.nullcontext()), ("-nearest", NearestSquareRoot())):
                    if suffix and not kind.startswith("adam"):
                        continue
                    with mode:
                        records = list(trained(kind, defaults, groups, how, parts, limit))
                    yield (f"{kind}{suffix}{words(defaults)}{''.join(' group' + words(group) for group in groups)} "
                           + ("" if how == "schedule" else how + " ")
                           + "".join(f"schedule {name}{words(options)} " for name, options in parts)
                           + f"clip {limit} {' '.join(records)}")


if __name__ == "__main__":
    with open(f"{FOLDER}/groups.txt", "w", encoding="ascii") as file:
        file.write("# Made by make_group_goldens.py.\n")
        for line in cases():
            file.write(line + "\n")
