#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the golden data of random numbers, from PyTorch: random.txt, and random_large.txt with `large` (1.7 GB).

Not run by the tests.  How to run, and with what the committed files were made (torch 2.15.0, glibc 2.36, a processor
with AVX2 and FMA):

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch numpy
    /tmp/venv/bin/python tests/golden/make_random_goldens.py tests/golden

A line is a block of cases, whose parameters are picked from its KEY (picks.py), and the checksum of all that they
give; '#' begins a comment.  What depends on log(), sin() and cos() of the C library has a sum of its own.

    libm SUM                           of what libm() below computes; other C libraries may round differently
    perm SEED COUNT STRIDE SUM         torch.randperm(COUNT), each STRIDEth entry, and 64 bits drawn after it
    perms KEY CASES SUM                permutations
    multis KEY CASES SUM               torch.multinomial(); the weights are weights() below; 64 bits after it
    draws KERNELS KEY CASES SUM LIBM   generators with one draw after the other, then the generator's state
    state HEX KEY SUM LIBM             the same, beginning with the whole state

A test that fails prints each case of the block.  With the words of the line before the sums, this prints PyTorch's:

    /tmp/venv/bin/python tests/golden/make_random_goldens.py show draws avx2 7
"""

import ctypes
import math
import os
import subprocess
import sys

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "."
WORDS = sys.argv[2:] or ["all"]
SHOW = FOLDER == "show"
KERNELS = (WORDS + [""])[SHOW]
if KERNELS in ("avx2", "default"):
    os.environ["ATEN_CPU_CAPABILITY"] = KERNELS

import numpy
import torch

from picks import PRIME, Picks, checksum

DTYPES = {"i64": torch.int64, "r64": torch.int64, "u32": torch.float32, "u64": torch.float64,
          "n32": torch.float32, "n64": torch.float64}
KINDS = ["i64", "r64", "u32", "u64", "n32", "n32", "n64", "n64"]
EDGES = [2**28 - 1, 2**28, 2**28 + 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**62]


def said(text, total):
    if SHOW:
        print(f"{text} {total:x}")
    return total


def generator(seed):
    return torch.Generator().manual_seed(seed)


def array_checksum(values):
    """checksum() of an array."""
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
    return f"libm {array_checksum(numpy.array(values)):x}"


def seed_of(picks):
    kind = picks.below(4)
    return picks.below(100) if kind < 2 else picks.below(65536) if kind == 2 else picks.bits_64()


def permutation(seed, count, stride):
    source = generator(seed)
    values = torch.randperm(count, generator=source).numpy()[::stride].view(numpy.uint64)
    return said(f"perm {seed} {count} {stride}", array_checksum(numpy.concatenate([values, after(source)])))


def permutations(key, cases):
    """The first three blocks go through all lengths up to 299."""
    picks = Picks(key)
    for case in range(cases):
        seed, most = seed_of(picks), picks.choice([50, 1000, 5001])
        yield permutation(seed, key * 100 + case if key < 3 else picks.below(most), 1)


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


def multinomials(key, cases):
    picks = Picks(key)
    for _ in range(cases):
        seed, recipe, replace = picks.below(65536), picks.below(4), picks.below(2)
        count = 1 + picks.below(picks.choice([10, 3000]))
        weight = weights(recipe, seed, count)
        positive, kind = int((weight > 0).sum()), picks.below(4)
        samples = (1 + picks.below(positive) if kind == 1 else positive if kind == 2
                   else 1 + picks.below(2999) if kind == 3 and replace else 1)
        source = generator(seed)
        drawn = torch.multinomial(weight, samples, bool(replace), generator=source)
        yield said(f"multi {seed} {count} {samples} {replace} {recipe}",
                   array_checksum(numpy.concatenate([drawn.numpy().view(numpy.uint64), after(source)])))


def integer_bounds(picks):
    kind = picks.below(4)
    if kind == 0:
        return 0, 1 + picks.below(99)
    if kind == 1:
        return 0, picks.choice(EDGES)
    if kind == 2:
        low = (picks.bits_64() >> 1) - 2**62
        width = picks.below(10)
        return low, low + (1 if width == 8 else 10 if width == 9 else EDGES[width])
    return -(2**63), picks.choice([-(2**63) + 7, 0, 2**63 - 1])


def float_bounds(picks, normal):
    kind = picks.below(4)
    if kind < 2:
        return 0.0, 1.0
    a, b = (picks.real() - 0.5) * 12, picks.real() * 20
    if kind == 3:
        a, b = picks.choice([(0.0, 0.02), (1e-3, 1e3), (5.0, 0.0), (-1e30, 1e29)])
    return (a, b) if normal else (a, a + b)


def needs_libm(kind, count):
    return kind in ("s", "n64") or kind == "n32" and (count < 16 or torch.backends.cpu.get_cpu_capability() == "DEFAULT")


def step(picks, source):
    """One draw: its checksum, and whether it needs the C library."""
    kind = picks.choice(KINDS)
    room = picks.below(4)
    count = 16 + picks.below(54) if room == 2 else picks.below(2000 if room == 3 else 16)
    values, a, b = torch.empty(count, dtype=DTYPES[kind]), 0, 0
    if kind == "i64":
        a, b = integer_bounds(picks)
        values.random_(a, b, generator=source)
    elif kind == "r64":
        values.random_(generator=source)
    else:
        a, b = float_bounds(picks, kind[0] == "n")
        (values.normal_ if kind[0] == "n" else values.uniform_)(a, b, generator=source)
    text = f"{kind} {count} {a} {b}" if kind == "i64" else f"{kind} {count} {a:.17g} {b:.17g}"
    return said(text, array_checksum(bits(values))), needs_libm(kind, count)


def steps(picks, source, count):
    for _ in range(count):
        yield step(picks, source)
    yield said("s", array_checksum(source.get_state().numpy())), True


def draws(key, cases):
    picks = Picks(key)
    for _ in range(cases):
        seed = seed_of(picks)
        said("seed", seed)
        yield from steps(picks, generator(seed), 1 + picks.below(5))


def two_sums(pairs):
    pairs = list(pairs)
    return " ".join(f"{checksum(total for total, libm in pairs if libm == which):x}" for which in (False, True))


def state_of(key):
    picks = Picks(key)
    source = generator(picks.bits_64())
    torch.empty(1 + picks.below(11)).normal_(generator=source)
    return source


def part():
    """The draws of one kind of kernels; each process has one kind."""
    assert torch.backends.cpu.get_cpu_capability() == KERNELS.upper()
    for key in range(24 if KERNELS == "avx2" else 10):
        print(f"draws {KERNELS} {key} 50 {two_sums(draws(key, 50))}")
    for key in range(4 if KERNELS == "avx2" else 0):
        source = state_of(key)
        blob = bytes(source.get_state().tolist()).hex()
        print(f"state {blob} {key} {two_sums(steps(Picks(key), source, 3))}")


def show(kind, *words):
    numbers = [int(word) for word in words[kind == "draws":]]
    blocks = {"perms": lambda: permutations(numbers[0], 100), "multis": lambda: multinomials(numbers[0], 20),
              "draws": lambda: draws(numbers[0], 50), "perm": lambda: [permutation(*numbers)],
              "state": lambda: steps(Picks(numbers[0]), state_of(numbers[0]), 3)}
    list(blocks[kind]())


def write(name, lines):
    with open(os.path.join(FOLDER, name), "w", encoding="ascii") as file:
        file.write("# Made by make_random_goldens.py, which says what stands here.\n")
        file.writelines(line + "\n" for line in lines)


def single(seed, count, stride):
    return f"perm {seed} {count} {stride} {permutation(seed, count, stride):x}"


if SHOW:
    show(*WORDS)
elif KERNELS == "large":
    write("random_large.txt", [single(5, 214748363, 65537), single(5, 214748364, 65537)])
elif KERNELS == "all":
    lines = [libm(), *(single(7, count, 1) for count in (65535, 65536, 65537, 100003, 1000000, 3000017))]
    lines += (f"perms {key} 100 {checksum(permutations(key, 100)):x}" for key in range(103))
    lines += (f"multis {key} 20 {checksum(multinomials(key, 20)):x}" for key in range(20))
    for kernels in ("avx2", "default"):
        command = [sys.executable, sys.argv[0], FOLDER, kernels]
        lines += subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    write("random.txt", lines)
else:
    part()
