#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the golden data of the generator and of optimizers, from PyTorch.

Not run by the tests.  How to run, and with what the committed files were made (torch 2.15.0):

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch numpy
    /tmp/venv/bin/python tests/golden/make_goldens.py tests/golden

Every line is one case; '#' begins a comment.  Floats are written as the hexadecimal bits of a float32.
"""

import os
import struct
import sys

# The portable kernels: those for AVX2 fuse multiplications and additions in whole vectors but not after them, so that
# the bits of an element depend on where it lies.
os.environ["ATEN_CPU_CAPABILITY"] = "default"

import torch

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "."
SEEDS = (0, 1, 42, 2**32 + 5, 2**63)


def generator(seed):
    return torch.Generator().manual_seed(seed)


def words(source, count):
    """COUNT (even) draws of 32 bits, as full 64-bit draws hand them out."""
    wide = torch.empty(count // 2, dtype=torch.int64).random_(-(2**63), None, generator=source)
    halves = []
    for value in wide.tolist():
        value &= 2**64 - 1
        halves += [value >> 32, value & 0xFFFFFFFF]
    return halves


def checksum(values):
    total = 0
    for value in values:
        total = (total * 1099511628211 + value + 1) & (2**64 - 1)
    return total


def bits(tensor):
    flat = tensor.detach().reshape(-1).tolist()
    return " ".join(struct.pack(">f", value).hex() for value in flat)


def joined(values):
    return " ".join(str(value) for value in values)


def write(name, lines):
    with open(f"{FOLDER}/{name}", "w", encoding="ascii") as file:
        file.write("# Made by make_goldens.py.\n")
        file.writelines(line + "\n" for line in lines)


def make_generator():
    yield "# raw SEED first 8 draws of 32 bits, checksum of the first 3000"
    for seed in SEEDS:
        drawn = words(generator(seed), 3000)
        yield f"raw {seed} {joined(drawn[:8])} {checksum(drawn)}"
    yield "# uniform SEED first 8 float32, checksum of the bits of the first 2000"
    for seed in SEEDS:
        drawn = torch.rand(2000, generator=generator(seed))
        values = [int(text, 16) for text in bits(drawn).split()]
        yield f"uniform {seed} {bits(drawn[:8])} {checksum(values)}"
    yield "# permutation SEED COUNT checksum, the draw of 32 bits after it"
    for seed in SEEDS:
        for count in (0, 1, 2, 3, 4, 5, 7, 10, 31, 100, 623, 624, 625, 1000, 4096, 65537):
            source = generator(seed)
            order = torch.randperm(count, generator=source).tolist()
            yield f"permutation {seed} {count} {checksum(order)} {words(source, 2)[0]}"


SHAPES = ((5, 5), (11,), ())
SGD = (
    {"lr": 0.1},
    {"lr": 0.05, "weight_decay": 0.01},
    {"lr": 0.05, "momentum": 0.9},
    {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.001},
    {"lr": 0.05, "momentum": 0.9, "dampening": 0.1},
    {"lr": 0.05, "momentum": 0.8, "dampening": 0.5, "weight_decay": 0.01},
    {"lr": 0.01, "momentum": 0.9, "nesterov": True},
    {"lr": 0.01, "momentum": 0.95, "nesterov": True, "weight_decay": 0.01},
)
ADAMW = (
    {},
    {"weight_decay": 0.0},
    {"lr": 0.01, "weight_decay": 0.01},
    {"lr": 0.01, "betas": (0.8, 0.99), "weight_decay": 0.0},
    {"lr": 0.003, "betas": (0.4, 0.9), "weight_decay": 0.01},
    {"lr": 0.003, "betas": (0.95, 0.9999), "eps": 1e-4, "weight_decay": 0.1},
    {"lr": 0.5, "eps": 1e-6, "weight_decay": 0.0},
)


def trained(make, options, halving):
    """The parameters after 1, 10 and 50 steps; gradients are uniform in [-1, 1), parameters begin in [0.5, 1.5)."""
    source = generator(2026)
    parameters = [torch.nn.Parameter(torch.rand(shape, generator=source) + 0.5) for shape in SHAPES]
    optimizer = make(parameters, foreach=False, **options)
    for step in range(1, 51):
        for parameter in parameters:
            parameter.grad = torch.rand(parameter.shape, generator=source) * 2 - 1
        optimizer.step()
        if halving and step % 10 == 0:
            optimizer.param_groups[0]["lr"] /= 2
        if step in (1, 10, 50):
            yield step, " ".join(bits(parameter) for parameter in parameters)


class NearestSquareRoot(torch.overrides.TorchFunctionMode):
    """Square roots rounded to the nearest float32; torch's own, from MKL, are 1 ulp off for one value in five."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in (torch.Tensor.sqrt, torch.sqrt):
            return args[0].double().sqrt().float()
        return function(*args, **(kwargs or {}))


def adamw(parameters, **options):
    return torch.optim.AdamW(parameters, fused=False, **options)


def make_optimizers():
    yield "# sgd HALVING LR MOMENTUM DAMPENING WEIGHT_DECAY NESTEROV STEP, 37 parameters after so many steps"
    yield "# adamw HALVING LR BETA1 BETA2 EPS WEIGHT_DECAY STEP, the same; with HALVING lr is halved each 10 steps"
    yield "# adamw-nearest ..., the same with square roots rounded to the nearest float32"
    for halving in (0, 1):
        for options in SGD if not halving else SGD[3:4]:
            names = ("lr", "momentum", "dampening", "weight_decay", "nesterov")
            numbers = joined(repr(float(options.get(name, 0.0))) for name in names)
            for step, values in trained(torch.optim.SGD, options, halving):
                yield f"sgd {halving} {numbers} {step} {values}"
        for options in ADAMW if not halving else ADAMW[2:3]:
            beta1, beta2 = options.get("betas", (0.9, 0.999))
            numbers = (options.get("lr", 1e-3), beta1, beta2, options.get("eps", 1e-8))
            decay = options.get("weight_decay", 0.01)
            line = f"{halving} {joined(repr(float(n)) for n in numbers)} {decay}"
            # With a large learning rate those square roots add up to more than the last places.
            if options.get("lr", 0) < 0.1:
                for step, values in trained(adamw, options, halving):
                    yield f"adamw {line} {step} {values}"
            with NearestSquareRoot():
                cases = list(trained(adamw, options, halving))
            for step, values in cases:
                yield f"adamw-nearest {line} {step} {values}"


write("generator.txt", make_generator())
write("optimizer.txt", make_optimizers())
