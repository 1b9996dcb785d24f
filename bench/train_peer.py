# SPDX-License-Identifier: Apache-2.0
"""torch's AdamW on as many parameters, in tensors of the same sizes as bench_train's.

    python3 train_peer.py PARAMETERS STEPS THREADS
"""
import sys
import time

try:
    import torch
except ImportError as missing:
    print(f"torch is not compared: {missing}", file=sys.stderr)
    sys.exit(0)

SMALL, MEDIUM = (256, 256, 128, 10), (1024, 2048, 2048, 1800)


def make(widths):
    for inputs, outputs in zip(widths, widths[1:]):
        for shape in ((inputs, outputs), (outputs,)):
            parameter = torch.nn.Parameter(torch.rand(shape) * 0.1)
            parameter.grad = torch.zeros(shape)
            yield parameter


def main():
    parameters, steps, threads = map(int, sys.argv[1:])
    torch.set_num_threads(threads)
    peers = {}
    for name in ("fused", "foreach"):
        tensors = list(make(MEDIUM if parameters > 1000000 else SMALL))
        peers[name] = tensors, torch.optim.AdamW(tensors, lr=1e-3, **{name: True}), []
    for step in range(steps + 2):
        for tensors, optimizer, times in peers.values():
            for tensor in tensors:
                tensor.grad.copy_(torch.arange(tensor.numel()).add_(step * 7).remainder_(61).view(tensor.shape))
                tensor.grad.mul_(1e-3).sub_(0.03)
            began = time.perf_counter()
            optimizer.step()
            times.append((time.perf_counter() - began) * 1e6)
    for name, (tensors, _, times) in peers.items():
        print(f"torch-{name}", sum(t.numel() for t in tensors), *(f"{time:.3f}" for time in times[2:]))


main()
