#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the golden data of random numbers, from PyTorch: random.txt, and random_large.txt with `large` (1.7 GB).

Not run by the tests.  How to run, and with what the committed files were made (torch 2.15.0, glibc 2.36, a processor
with AVX2 and FMA):

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch numpy
    /tmp/venv/bin/python tests/golden/make_random_goldens.py tests/golden

One case a line; '#' begins a comment.  Sums are checksum() below, doubles are C's hexadecimal ones.

    libm SUM                               of what libm() below computes; other C libraries may round differently
    perm SEED COUNT FIRST SECOND SUM       torch.randperm(COUNT), and 64 bits drawn after it
    thin SEED COUNT STRIDE SUM             the same, of each STRIDEth entry
    multi SEED COUNT SAMPLES REPLACE RECIPE SUM   torch.multinomial(); the weights are weights() below; 64 bits after it
    draw KERNELS SEED STEP...              one generator, one draw after the other
    state HEX SEED STEP...                 the same, beginning with the whole state; the seed is its initial one

A STEP is `KIND COUNT A B SUM`: KIND i64 (randint from A to B), r64 (random_()), u32, u64 (uniform from A to B), n32, n64
(normal, mean A and deviation B), s (the state itself; COUNT, A and B are 0).
"""

import ctypes
import math
import os
import random
import subprocess
import sys

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "."
KERNELS = sys.argv[2] if len(sys.argv) > 2 else "all"
if KERNELS in ("avx2", "default"):
    os.environ["ATEN_CPU_CAPABILITY"] = KERNELS

import numpy
import torch

PRIME = 1099511628211
DTYPES = {"i64": torch.int64, "r64": torch.int64, "u32": torch.float32, "u64": torch.float64,
          "n32": torch.float32, "n64": torch.float64}


def generator(seed):
    return torch.Generator().manual_seed(seed)


def checksum(values):
    """total * PRIME + value + 1 for each value, modulo 2^64."""
    values = numpy.ascontiguousarray(values).astype(numpy.uint64)
    powers = numpy.full(len(values), PRIME, dtype=numpy.uint64)
    if len(powers):
        powers[-1] = 1
    powers = numpy.cumprod(powers[::-1], dtype=numpy.uint64)[::-1]
    return int(((values + numpy.uint64(1)) * powers).sum(dtype=numpy.uint64))


def bits(tensor):
    array = tensor.numpy()
    return array.view(numpy.uint32 if array.dtype.itemsize == 4 else numpy.uint64)


def after(source):
    return torch.empty(1, dtype=torch.int64).random_(-(2**63), None, generator=source).numpy().view(numpy.uint64)


def libm():
    """The functions that normals use, at 20000 uniforms: a C library with another sum gives other last bits."""
    yield "# The C library."
    library = ctypes.CDLL("libm.so.6")
    singles = [getattr(library, name) for name in ("logf", "sinf", "cosf")]
    for function in singles:
        function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
    values = []
    for uniform in torch.rand(20000, dtype=torch.float64, generator=generator(0)).tolist():
        angle = 2 * math.pi * uniform
        for result in (math.log(1 - uniform), math.log1p(-uniform), math.sin(angle), math.cos(angle)):
            values.append(numpy.float64(result).view(numpy.uint64))
        for function, argument in zip(singles, (1 - uniform, angle, angle)):
            values.append(numpy.uint64(numpy.float32(function(argument)).view(numpy.uint32)))
    yield f"libm {checksum(numpy.array(values)):x}"


def seed_of(rng):
    return rng.choice([rng.randrange(100), rng.randrange(100), rng.getrandbits(16), rng.getrandbits(64)])


def permutation(seed, count, stride=0):
    source = generator(seed)
    values = torch.randperm(count, generator=source)
    if stride:
        total = checksum(numpy.concatenate([values.numpy()[::stride].view(numpy.uint64), after(source)]))
        return f"thin {seed} {count} {stride} {total:x}"
    first = (values[:2].tolist() + [0, 0])[:2]
    total = checksum(numpy.concatenate([values.numpy().view(numpy.uint64), after(source)]))
    return f"perm {seed} {count} {first[0]} {first[1]} {total:x}"


def permutations(rng):
    yield "# Permutations."
    for count in range(300):
        yield permutation(seed_of(rng), count)
    for _ in range(10000):
        yield permutation(seed_of(rng), rng.randrange(rng.choice([50, 1000, 5001])))
    for count in (65535, 65536, 65537, 100003, 1000000, 3000017):
        yield permutation(seed_of(rng), count)


def weights(recipe, seed, count):
    """0: uniform; 1: three of ten are zero, but not the first; 2: all 1; 3: of very different size."""
    uniform = torch.rand(count, dtype=torch.float64, generator=generator(seed ^ 1))
    if recipe == 1:
        uniform[1:][uniform[1:] < 0.3] = 0
    elif recipe == 2:
        uniform[:] = 1
    elif recipe == 3:
        fourth = (uniform * uniform) * (uniform * uniform)
        uniform = fourth * fourth
    return uniform


def multinomials(rng):
    yield "# Weighted samples."
    for _ in range(400):
        seed, recipe, replace = rng.getrandbits(16), rng.randrange(4), rng.random() < 0.5
        count = rng.randrange(1, rng.choice([10, 3000]))
        weight = weights(recipe, seed, count)
        positive = int((weight > 0).sum())
        samples = rng.choice([1, rng.randrange(1, positive + 1), positive, rng.randrange(1, 3000 if replace else 2)])
        source = generator(seed)
        drawn = torch.multinomial(weight, samples, replace, generator=source)
        total = checksum(numpy.concatenate([drawn.numpy().view(numpy.uint64), after(source)]))
        yield f"multi {seed} {count} {samples} {int(replace)} {recipe} {total:x}"


def integer_bounds(rng):
    edges = [2**28 - 1, 2**28, 2**28 + 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**62]
    kind = rng.randrange(4)
    if kind == 0:
        return 0, rng.randrange(1, 100)
    if kind == 1:
        return 0, rng.choice(edges)
    if kind == 2:
        low = rng.randrange(-(2**62), 2**62)
        return low, low + rng.choice([1, 10, rng.choice(edges)])
    return -(2**63), rng.choice([-(2**63) + 7, 0, 2**63 - 1])


def float_bounds(rng, normal):
    kind = rng.randrange(4)
    if kind < 2:
        return 0.0, 1.0
    a, b = rng.gauss(0, 3), abs(rng.gauss(0, 10))
    if kind == 3:
        a, b = rng.choice([(0.0, 0.02), (1e-3, 1e3), (5.0, 0.0), (-1e30, 1e29)])
    return (a, b) if normal else (a, a + b)


def step(rng, source):
    kind = rng.choice(["i64", "r64", "u32", "u64", "n32", "n32", "n64", "n64"])
    count = rng.choice([rng.randrange(16), rng.randrange(16), rng.randrange(16, 70), rng.randrange(2000)])
    values, a, b = torch.empty(count, dtype=DTYPES[kind]), 0, 0
    if kind == "i64":
        a, b = integer_bounds(rng)
        values.random_(a, b, generator=source)
    elif kind == "r64":
        values.random_(generator=source)
    else:
        a, b = float_bounds(rng, kind[0] == "n")
        (values.normal_ if kind[0] == "n" else values.uniform_)(a, b, generator=source)
        a, b = a.hex(), b.hex()
    return f"{kind} {count} {a} {b} {checksum(bits(values)):x}"


def state(source):
    return f"s 0 0 0 {checksum(source.get_state().numpy()):x}"


def draws(rng, kernels, cases):
    for _ in range(cases):
        seed = seed_of(rng)
        source = generator(seed)
        steps = [step(rng, source) for _ in range(rng.randrange(1, 6))]
        yield " ".join([f"draw {kernels} {seed}", *steps, state(source)])


def states(rng):
    yield "# States of torch."
    for _ in range(4):
        seed = rng.getrandbits(64)
        source = generator(seed)
        torch.empty(rng.randrange(1, 12)).normal_(generator=source)
        blob = bytes(source.get_state().tolist()).hex()
        yield " ".join([f"state {blob} {seed}", *(step(rng, source) for _ in range(3)), state(source)])


def part():
    """The draws of one kind of kernels; each process has one kind."""
    assert torch.backends.cpu.get_cpu_capability() == KERNELS.upper()
    rng = random.Random(KERNELS)
    print(f"# Draws with the kernels {KERNELS}.")
    for line in draws(rng, KERNELS, 1200 if KERNELS == "avx2" else 500):
        print(line)
    if KERNELS == "avx2":
        for line in states(rng):
            print(line)


def write(name, lines):
    with open(os.path.join(FOLDER, name), "w", encoding="ascii") as file:
        file.write("# Made by make_random_goldens.py, which says what stands here.\n")
        file.writelines(line + "\n" for line in lines)


if KERNELS == "large":
    write("random_large.txt", [permutation(5, 214748363, 65537), permutation(5, 214748364, 65537)])
elif KERNELS == "all":
    rng = random.Random(2026)
    lines = [*libm(), *permutations(rng), *multinomials(rng)]
    for kernels in ("avx2", "default"):
        command = [sys.executable, sys.argv[0], FOLDER, kernels]
        lines += subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    write("random.txt", lines)
else:
    part()
