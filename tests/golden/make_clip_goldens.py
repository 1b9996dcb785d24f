#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the norms of gradients at the edges of float32, and what clipping to 1 makes of them, from PyTorch.

    make_clip_goldens.py FOLDER
"""
import os
import sys

import torch

EDGES = [0.0, -0.0, 1e-45, 1e-30, -1e-30, 1.0, -2.5, 3e13, 1e20, -1e20, 3e38, float("inf"), float("nan")]
NORMS = [0.0, 1.0, 1.5, 2.0, 3.0, 7.0, float("inf")]
GRADIENTS = (
    [[[edge]] for edge in EDGES]
    + [[[edge], [1.0]] for edge in EDGES]
    + [[[edge], [edge]] for edge in (1e-30, 1e20, 3e13, 3e38)]
    + [[[edge, 0.0]] for edge in EDGES]
    + [[[edge, 1.0, 2.0]] for edge in EDGES]
    + [[[1e-30], [1e-30, 1e-30]], [[1e20], [0.5] * 40], [[0.1 * i for i in range(100)], [1e13]]]
)


def spell(number):
    return float(number).hex()


def lines():
    yield "# TENSORS, of each: SIZE, its elements; P, the norm, the elements after clip_grad_norm_ to 1"
    for gradients in GRADIENTS:
        for p in NORMS:
            parameters = [torch.nn.Parameter(torch.zeros(len(gradient))) for gradient in gradients]
            for parameter, gradient in zip(parameters, gradients):
                parameter.grad = torch.tensor(gradient, dtype=torch.float32)
            before = " ".join(f"{len(q.grad)} " + " ".join(map(spell, q.grad.tolist())) for q in parameters)
            norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0, norm_type=p, foreach=False)
            after = " ".join(spell(x) for q in parameters for x in q.grad.tolist())
            yield f"{len(parameters)} {before} {p} {spell(norm)} {after}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    with open(os.path.join(sys.argv[1], "clip_edges.txt"), "w") as file:
        file.writelines(line + "\n" for line in lines())
