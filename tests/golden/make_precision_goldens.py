#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes precision.txt: 200 steps of torch.amp.GradScaler with clipping, and of float32 masters with copies of few bits.

Not run by the tests.  How to run, and with what the committed file was made (torch 2.15.0):

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch numpy
    /tmp/venv/bin/python tests/golden/make_precision_goldens.py tests/golden

Every line is one case; '#' begins a comment.  Floats are written as the hexadecimal bits of a float32.
"""

import math
import os
import random
import struct
import sys

# The portable kernels, see make_goldens.py.
os.environ["ATEN_CPU_CAPABILITY"] = "default"

import torch

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "."
SHAPES = ((5, 5), (11,), ())
STEPS = 200
TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float8_e4m3fn": torch.float8_e4m3fn,
         "float8_e5m2": torch.float8_e5m2}
LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}


def bits(tensor):
    return " ".join(struct.pack(">f", value).hex() for value in tensor.detach().reshape(-1).tolist())


class Nearest(torch.overrides.TorchFunctionMode):
    """Square roots rounded to the nearest float32; torch's own, from MKL, are 1 ulp off for one value in five.  The same
    for norms, whose sums torch makes in float32: 1 ulp in a factor of all gradients is 32 ulp in a sum near zero."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in (torch.Tensor.sqrt, torch.sqrt):
            return args[0].double().sqrt().float()
        if function is torch.linalg.vector_norm:
            return args[0].double().square().sum().float().double().sqrt().float()
        return function(*args, **(kwargs or {}))


def make_optimizer(kind, parameters):
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, foreach=False, fused=False)
    return torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1, foreach=False, fused=False)


def scaled(kind, clip, options, seed):
    """One line: what is wrong with the gradients of each step (f: nothing), and what comes of it; the parameters."""
    source, chance = torch.Generator().manual_seed(seed), random.Random(seed)
    parameters = [torch.nn.Parameter(torch.rand(shape, generator=source) + 0.5) for shape in SHAPES]
    optimizer = make_optimizer(kind, parameters)
    names = ("init_scale", "growth_factor", "backoff_factor", "growth_interval")
    scaler = torch.amp.GradScaler("cpu", **dict(zip(names, options)))
    unscaled = torch.tensor(1.0)
    words = []
    for _ in range(STEPS):
        scale = scaler.scale(unscaled)
        gradients = [torch.rand(shape, generator=source) * 2 - 1 for shape in SHAPES]
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient * scale
        event = chance.choice("ffffffffin")
        if event != "f":
            parameters[1].grad[chance.randrange(2)] = math.inf if event == "i" else math.nan
        if clip:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(parameters, clip, foreach=False)
        before = [parameter.detach().clone() for parameter in parameters]
        scaler.step(optimizer)
        scaler.update()
        skipped = all(torch.equal(a, b) for a, b in zip(before, parameters))
        words.append(f"{event} {'s' if skipped else 't'} {bits(scaler._scale)} {scaler._growth_tracker.item()}")
    values = " ".join(bits(parameter) for parameter in parameters)
    return f"scaler {kind} {clip} {' '.join(map(str, options))} {seed} {' '.join(words)} {values}"


def copy_of(name, master):
    """The copy's bytes as numbers, and its scale: a power of two, so that the largest magnitude just fits."""
    scale, largest = 1.0, master.abs().max().item() if master.numel() else 0.0
    if name in LARGEST and largest:
        scale = 2.0 ** (1 - math.frexp(LARGEST[name] / largest)[1])
    copy = (master.detach() / scale).to(TYPES[name])
    return copy.view(torch.uint8 if name in LARGEST else torch.uint16).reshape(-1).tolist(), scale


def copies(kind, name, seed):
    """One line: a checksum over the copies and their scales after each step; gradients are in 16 bits, too."""
    source = torch.Generator().manual_seed(seed)
    dtype = torch.float16 if name == "float16" else torch.bfloat16
    first = [(torch.rand(shape, generator=source) + 0.5).to(TYPES[name]) for shape in SHAPES]
    masters = [torch.nn.Parameter(copy.float()) for copy in first]
    optimizer = make_optimizer(kind, masters)
    words = []
    for _ in range(STEPS):
        for master in masters:
            master.grad = (torch.rand(master.shape, generator=source) * 2 - 1).to(dtype).float()
        optimizer.step()
        total = 0
        for master in masters:
            numbers, scale = copy_of(name, master)
            for number in numbers + [math.frexp(scale)[1] + 1000]:
                total = (total * 1099511628211 + number + 1) & (2**64 - 1)
        words.append(str(total))
    return f"copies {kind} {name} {seed} {' '.join(words)} {' '.join(bits(master) for master in masters)}"


def make():
    yield "# Made by make_precision_goldens.py."
    yield "# scaler KIND CLIP INIT GROWTH BACKOFF INTERVAL SEED, per step: f, i (infinite) or n (NaN); s (skipped) or t"
    yield "# (taken); the scale; the tracker.  Then 37 parameters"
    yield "# copies KIND TYPE SEED, per step a checksum over the copies, then 37 masters"
    options = ((65536.0, 2.0, 0.5, 2000), (65536.0, 2.0, 0.5, 3), (1024.0, 4.0, 0.25, 5), (1.0, 2.0, 0.5, 1),
               (1000.0, 1.5, 0.75, 4))
    seed = 100
    for kind in ("sgd", "adamw"):
        for clip in (0.0, 1.0):
            for each in options:
                seed += 1
                with Nearest():
                    yield scaled(kind, clip, each, seed)
        for name in TYPES:
            seed += 1
            with Nearest():
                yield copies(kind, name, seed)


with open(f"{FOLDER}/precision.txt", "w", encoding="ascii") as file:
    file.writelines(line + "\n" for line in make())
