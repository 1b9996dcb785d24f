# SPDX-License-Identifier: Apache-2.0
"""Processor time per index of a shuffled order: Accelerate on PyTorch, and bench_data beside it, in turns.

    python3 data_peer.py BENCH_DATA [SAMPLES [RUNS]]
"""
import re
import statistics
import subprocess
import sys
import time

BATCH = 256

try:
    import torch
    from accelerate.data_loader import SeedableRandomSampler, prepare_data_loader
except ImportError as missing:
    print(f"the original is not compared: {missing}")
    sys.exit(0)


class Nothing(torch.utils.data.Dataset):
    """As many samples as wanted, with nothing in them; a whole batch is fetched in one call."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return index

    def __getitems__(self, indices):
        return indices


def indices_only(size):
    """The sampler and torch's batch sampler, without a loader: lists of indices."""
    sampler = SeedableRandomSampler(Nothing(size), data_seed=0)
    return torch.utils.data.BatchSampler(sampler, BATCH, drop_last=False)


def whole_loader(size):
    """The prepared loader, whose collate function hands on the list of indices."""
    loader = torch.utils.data.DataLoader(Nothing(size), batch_size=BATCH, shuffle=True, collate_fn=lambda batch: batch)
    return prepare_data_loader(loader, use_seedable_sampler=True, data_seed=0, put_on_device=False)


def seconds(make, size):
    start = time.process_time()
    count = sum(len(batch) for batch in make(size))
    elapsed = time.process_time() - start
    assert count == size
    return elapsed


def main():
    program = sys.argv[1]
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    ours, peers = [], {"indices only": [], "whole loader": []}
    for _ in range(runs):
        for name, make in (("indices only", indices_only), ("whole loader", whole_loader)):
            peers[name].append(seconds(make, size) * 1e9 / size)
        # The median of three: under a hypervisor the first run pays for memory that the host has taken back.
        text = subprocess.run([program, "index", str(size), "3"], check=True, capture_output=True, text=True).stdout
        ours.append(float(re.search(r"([\d.]+) ns of processor", text).group(1)))
    mine = statistics.median(ours)
    print(f"accel   {size:10d} samples, batches of {BATCH}: {mine:8.2f} ns per index, median of {runs} in turns")
    for name, times in peers.items():
        peer = statistics.median(times)
        print(f"Python  {size:10d} samples, batches of {BATCH}: {peer:8.2f} ns per index, {name}: {peer / mine:.1f} times")


main()
