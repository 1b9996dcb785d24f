#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the golden data of optimizers over 200 steps, clipping, GradScaler and 16- and 8-bit floats, from PyTorch.

Not run by the tests.  How to run, and with what the committed files were made (torch 2.15.0):

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch numpy
    /tmp/venv/bin/python tests/golden/make_train_goldens.py tests/golden

Every line is one case; '#' begins a comment.  Floats are written as the hexadecimal bits of a float32.
"""

import os
import struct
import sys

# The portable kernels, see make_goldens.py.
os.environ["ATEN_CPU_CAPABILITY"] = "default"

import torch

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "."
SHAPES = ((5, 5), (11,), ())


def generator(seed):
    return torch.Generator().manual_seed(seed)


def bits(tensor):
    return " ".join(struct.pack(">f", value).hex() for value in tensor.detach().reshape(-1).tolist())


def write(name, lines):
    with open(f"{FOLDER}/{name}", "w", encoding="ascii") as file:
        file.write("# Made by make_train_goldens.py.\n")
        file.writelines(line + "\n" for line in lines)


class NearestSquareRoot(torch.overrides.TorchFunctionMode):
    """Square roots rounded to the nearest float32; torch's own, from MKL, are 1 ulp off for one value in five."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in (torch.Tensor.sqrt, torch.sqrt):
            return args[0].double().sqrt().float()
        if function is torch.Tensor.sqrt_:
            return args[0].copy_(args[0].double().sqrt().float())
        return function(*args, **(kwargs or {}))


class Lion(torch.optim.Optimizer):
    """The published algorithm (Chen et al., 2023, algorithm 2) in torch's operations."""

    def __init__(self, parameters, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state["exp_avg"] = torch.zeros_like(parameter)
                mean = state["exp_avg"]
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                update = (mean * beta1).add_(parameter.grad, alpha=1 - beta1).sign_()
                parameter.add_(update, alpha=-group["lr"])
                mean.mul_(beta2).add_(parameter.grad, alpha=1 - beta2)


PORTABLE = {"foreach": False, "fused": False}
MAKERS = {
    "sgd": lambda parameters, **options: torch.optim.SGD(parameters, **PORTABLE, **options),
    "adam": lambda parameters, **options: torch.optim.Adam(parameters, **PORTABLE, **options),
    "adamw": lambda parameters, **options: torch.optim.AdamW(parameters, **PORTABLE, **options),
    "lion": Lion,
    "adagrad": lambda parameters, **options: torch.optim.Adagrad(parameters, **PORTABLE, **options),
    "rmsprop": lambda parameters, **options: torch.optim.RMSprop(parameters, foreach=False, **options),
}
OPTIMIZERS = (
    ("sgd", {"lr": 0.05, "momentum": 0.9}),
    ("sgd", {"lr": 0.02, "maximize": True}),
    ("sgd", {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True, "maximize": True}),
    ("adam", {}),
    ("adam", {"lr": 0.01, "weight_decay": 0.02}),
    ("adam", {"lr": 0.003, "betas": (0.4, 0.9), "eps": 1e-6}),
    ("adam", {"lr": 0.01, "amsgrad": True}),
    ("adam", {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True, "maximize": True}),
    ("adam", {"maximize": True}),
    ("adamw", {"weight_decay": 0.01}),
    ("adamw", {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True}),
    ("adamw", {"lr": 0.003, "betas": (0.95, 0.9999), "weight_decay": 0.02, "maximize": True}),
    ("lion", {}),
    ("lion", {"lr": 0.01, "weight_decay": 0.1}),
    ("lion", {"lr": 0.003, "betas": (0.95, 0.98), "weight_decay": 0.01}),
    ("adagrad", {}),
    ("adagrad", {"lr": 0.05, "lr_decay": 0.01, "weight_decay": 0.02, "initial_accumulator_value": 0.1}),
    ("adagrad", {"lr": 0.1, "eps": 1e-6, "maximize": True}),
    ("rmsprop", {}),
    ("rmsprop", {"lr": 0.003, "alpha": 0.9, "eps": 1e-6, "weight_decay": 0.02, "maximize": True}),
    ("rmsprop", {"lr": 0.005, "momentum": 0.9}),
    ("rmsprop", {"lr": 0.005, "centered": True, "weight_decay": 0.01}),
    ("rmsprop", {"lr": 0.003, "alpha": 0.4, "momentum": 0.5, "centered": True}),
)


def trained(kind, options):
    """The parameters after 1, 20 and 200 steps; gradients are uniform in [-1, 1), parameters begin in [0.5, 1.5)."""
    source = generator(2027)
    parameters = [torch.nn.Parameter(torch.rand(shape, generator=source) + 0.5) for shape in SHAPES]
    optimizer = MAKERS[kind](parameters, **options)
    for step in range(1, 201):
        for parameter in parameters:
            parameter.grad = torch.rand(parameter.shape, generator=source) * 2 - 1
        optimizer.step()
        if step in (1, 20, 200):
            yield step, " ".join(bits(parameter) for parameter in parameters)


def make_optimizers():
    yield "# KIND KEY=VALUE... steps, then 37 parameters after so many steps; -nearest: square roots are the nearest float"
    for kind, options in OPTIMIZERS:
        words = []
        for key, value in options.items():
            words += [f"beta1={value[0]}", f"beta2={value[1]}"] if key == "betas" else [f"{key}={float(value)}"]
        if kind not in ("adagrad", "rmsprop"):
            for step, values in trained(kind, options):
                yield f"{kind} {' '.join(words)} steps {step} {values}"
        if kind not in ("sgd", "lion"):
            with NearestSquareRoot():
                cases = list(trained(kind, options))
            for step, values in cases:
                yield f"{kind}-nearest {' '.join(words)} steps {step} {values}"


def gradients(seed, scale, special):
    source = generator(seed)
    parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in SHAPES]
    for parameter in parameters:
        parameter.grad = (torch.rand(parameter.shape, generator=source) * 2 - 1) * scale
    if special != "-":
        parameters[1].grad[3] = float(special)
    return parameters


def after(parameters):
    return " ".join(bits(parameter.grad) for parameter in parameters)


def make_clip():
    yield "# norm SEED SCALE SPECIAL MAX P, norm, 37 clipped gradients; SPECIAL is the fourth of the second tensor"
    yield "# value SEED SCALE SPECIAL LIMIT, 37 clipped gradients"
    cases = [(scale, "-", top, p) for scale in (1.0, 100.0, 1e-3) for top in (1.0, 0.5, 7.25)
             for p in (1.0, 1.5, 2.0, 3.0, 10.0, float("inf"), 0.0)]
    cases += [(1.0, special, 1.0, p) for special in ("inf", "-inf", "nan") for p in (0.0, 1.0, 2.0, 3.0, float("inf"))]
    cases += [(0.0, "-", 1.0, 2.0), (1.0, "-", 0.0, 2.0), (2.0**100, "-", 1.0, 2.0), (2.0**-100, "-", 1.0, 2.0),
              (2.0**100, "-", 1.0, float("inf")), (1.0, "-", float("inf"), 2.0)]
    for seed, (scale, special, top, p) in enumerate(cases):
        parameters = gradients(seed, scale, special)
        norm = torch.nn.utils.clip_grad_norm_(parameters, top, p, foreach=False)
        yield f"norm {seed} {scale} {special} {top} {p} {bits(norm)} {after(parameters)}"
    for seed, (scale, special, limit) in enumerate(
        ((1.0, "-", 0.5), (100.0, "-", 1.0), (1.0, "-", 0.0), (1.0, "inf", 0.25), (1.0, "-inf", 0.25), (1.0, "nan", 0.1))
    ):
        parameters = gradients(seed, scale, special)
        torch.nn.utils.clip_grad_value_(parameters, limit, foreach=False)
        yield f"value {seed} {scale} {special} {limit} {after(parameters)}"


def make_scaler():
    yield "# options, then per step: i (a gradient was infinite), n (NaN) or f (all finite); the scale after it, the tracker"
    cases = (
        ({}, "i" * 30 + "f" * 20),
        ({"growth_interval": 50}, "f" * 51 + "i" + "f" * 50 + "n"),
        ({"init_scale": 2.0**10, "growth_interval": 3}, "ffffiffnfffffffiiifff"),
        ({"init_scale": 2.0**125, "growth_interval": 1}, "ffffff" + "i" + "ff"),
        ({"init_scale": 1000.1, "growth_factor": 1.37, "backoff_factor": 0.61, "growth_interval": 2}, "ffiffffnnffffff" * 4),
        ({"init_scale": 1e-30, "growth_interval": 5}, "i" * 60 + "f" * 11),
    )
    for options, steps in cases:
        parameter = torch.nn.Parameter(torch.zeros(3))
        optimizer = torch.optim.SGD([parameter], lr=1.0)
        scaler = torch.amp.GradScaler("cpu", **options)
        results = []
        for step in steps:
            scaler.scale(torch.zeros(1))
            parameter.grad = torch.tensor([1.5, -3.0, {"i": -float("inf"), "n": float("nan"), "f": 0.3}[step]])
            before = parameter.detach().clone()
            scaler.unscale_(optimizer)
            gradients = bits(parameter.grad[:2])
            scaler.step(optimizer)
            assert torch.equal(parameter, before) == (step != "f" or not torch.any(parameter.grad))
            parameter.data.zero_()
            scaler.update()
            results.append(f"{step} {gradients} {bits(scaler._scale)} {scaler.state_dict()['_growth_tracker']}")
        state = scaler.state_dict()
        numbers = (options.get("init_scale", 65536.0), state["growth_factor"], state["backoff_factor"])
        yield f"{' '.join(repr(n) for n in numbers)} {state['growth_interval']} {' '.join(results)}"


def checksum(values):
    total = 0
    for value in values:
        total = (total * 1099511628211 + value + 1) & (2**64 - 1)
    return total


def make_half():
    """Conversions back are compared whole; to the narrow types by checksums over all boundaries of rounding."""
    yield "# to TYPE SATURATE: a checksum over probes, see make_probes() in test_half.c"
    yield "# from TYPE: a checksum over the bits of all numbers as float32, NaN as 7fc00000"
    kinds = (("float16", torch.float16, 16), ("bfloat16", torch.bfloat16, 16), ("e4m3", torch.float8_e4m3fn, 8),
             ("e5m2", torch.float8_e5m2, 8))
    for name, dtype, width in kinds:
        whole = torch.arange(2**width, dtype=torch.int32)
        narrow = whole.to(torch.uint8 if width == 8 else torch.uint16).view(dtype)
        floats = narrow.float()
        words = floats.view(torch.int32).to(torch.int64) & 0xFFFFFFFF
        words[floats.isnan()] = 0x7FC00000
        yield f"from {name} {checksum(words.tolist())}"
        # Each number, its neighbours among the float32, the middle to the next number, and its neighbours.
        finite = floats[: 2 ** (width - 1)]
        finite = finite[finite.isfinite()].double()
        middles = ((finite[1:] + finite[:-1]) / 2).float()
        last = (finite[-1] + (finite[-1] - finite[-2]) / 2).float().reshape(1)
        middles = torch.cat([middles, last]).view(torch.int32).to(torch.int64)
        exact = finite.float().view(torch.int32).to(torch.int64)
        probes = []
        for values in (exact, middles):
            for value in values.tolist():
                probes += [max(value - 1, 0), value, value + 1]
        probes += [0x7F7FFFFF, 0x7F800000, 0x00000001, 0x007FFFFF, 0x33000000]
        probes += list(range(0, 0x7F800000, 0x12345))
        probes += [value | 0x80000000 for value in probes]
        signed = [value - 2**32 if value >= 2**31 else value for value in probes]
        source = torch.tensor(signed, dtype=torch.int64).to(torch.int32).view(torch.float32)
        result = source.to(dtype).view(torch.uint8 if width == 8 else torch.uint16).to(torch.int64)
        saturate = int(name == "e4m3")
        yield f"to {name} {saturate} {len(probes)} {checksum(result.tolist())}"


if __name__ == "__main__":
    write("optimizer_200.txt", make_optimizers())
    write("clip.txt", make_clip())
    write("scaler.txt", make_scaler())
    write("half.txt", make_half())
