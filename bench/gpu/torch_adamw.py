#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A step of PyTorch's fused AdamW with the parameters of adamw.c.  usage: torch_adamw.py"""
import statistics
import sys
import time

try:
    import torch
except ImportError:
    sys.exit("PyTorch is not installed")
if not torch.cuda.is_available():
    sys.exit("PyTorch sees no GPU")

W = 768
LAYER = [W, W, 3 * W * W, 3 * W, W * W, W, W, W, 4 * W * W, 4 * W, 4 * W * W, W]
SHAPES = {
    "of one parameter": [1 << 27],
    "of GPT-2, 148 parameters": [50257 * W, 1024 * W] + 12 * LAYER + [W, W],
}


def steps(optimizer, times):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(times):
        optimizer.step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / times


for name, shapes in SHAPES.items():
    parameters = [torch.zeros(n, device="cuda", requires_grad=True) for n in shapes]
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    adamw = torch.optim.AdamW(parameters, lr=0.001, weight_decay=0.01, fused=True)
    steps(adamw, 3)
    taken = statistics.median(steps(adamw, 30) for _ in range(7))
    print(f"adamw {name}, float32, fused by PyTorch {torch.__version__}: {taken * 1e3:.3f} ms, "
          f"{28 * sum(shapes) / taken * 1e-9:.1f} GB/s")
    del adamw, parameters
    torch.cuda.empty_cache()
