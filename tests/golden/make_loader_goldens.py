#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes data.txt: what loaders of PyTorch give when the original has prepared them.

Not run by the tests.  How to run, and with what the committed file was made (torch 2.15.0, accelerate 1.15.0):

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch accelerate numpy
    /tmp/venv/bin/python tests/golden/make_loader_goldens.py tests/golden/data.txt

Every line is one case: words, then the batches of each process in each epoch, written 1,2|3,4 with '/' between
processes and ';' between epochs, '-' for none, and '!' where the original fails.
"""

import os
import random
import sys
import tempfile

import torch
import torch.multiprocessing
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.data_loader import prepare_data_loader
from accelerate.state import AcceleratorState, GradientState, PartialState
from torch.utils.data import (BatchSampler, DataLoader, IterableDataset, RandomSampler, Sampler, SequentialSampler,
                              SubsetRandomSampler, WeightedRandomSampler)
from torch.utils.data.distributed import DistributedSampler

EPOCHS = 3


class Stream(IterableDataset):
    def __init__(self, samples):
        self.samples = samples

    def __iter__(self):
        return iter(torch.tensor(i) for i in range(self.samples))


class SizedStream(Stream):
    def __len__(self):
        return self.samples


class Varying(Sampler):
    """Batches of 1, 2, 3, 1, 2, 3 ... samples."""

    def __init__(self, batches):
        self.lengths = [1 + i % 3 for i in range(batches)]

    def __iter__(self):
        at = 0
        for length in self.lengths:
            yield list(range(at, at + length))
            at += length

    def __len__(self):
        return len(self.lengths)


def text_of(batches):
    return "|".join(",".join(str(index) for index in batch) for batch in batches) or "-"


def epochs_of(loaders):
    """EPOCHS epochs of each process's loader, each process after the other."""
    shares = []
    for make in loaders:
        loader = make()
        shares.append([text_of([batch.tolist() for batch in loader]) for _ in range(EPOCHS)])
    return ";".join("/".join(share[epoch] for share in shares) for epoch in range(EPOCHS))


def prepared(loader, processes, process, **options):
    return prepare_data_loader(loader, num_processes=processes, process_index=process, put_on_device=False,
                               dispatch_batches=False, rng_types=["generator"], **options)


def remainder_of(loader):
    loader.begin()
    remainder = loader.remainder
    loader.end()
    return max(remainder, 0)


def loader_of(order, samples, size, drop_last, seed):
    """The loader that a program would make; the same on each process, which begins with the same random numbers."""
    torch.manual_seed(seed)
    data, options = range(samples), {"batch_size": size, "drop_last": drop_last}
    if order == "sequential":
        return DataLoader(data, **options)
    if order in ("seedable", "random"):
        return DataLoader(data, shuffle=True, **options)
    if order == "generator":
        return DataLoader(data, shuffle=True, generator=torch.Generator().manual_seed(seed + 1), **options)
    if order == "replacement":
        return DataLoader(data, sampler=RandomSampler(data, replacement=True, num_samples=samples + 3), **options)
    if order == "more":
        return DataLoader(data, sampler=RandomSampler(data, num_samples=2 * samples + 1), **options)
    if order == "weighted":
        weights = [1.0 + i % 5 for i in range(samples)]
        return DataLoader(data, sampler=WeightedRandomSampler(weights, samples), **options)
    if order == "subset":
        return DataLoader(data, sampler=SubsetRandomSampler(list(range(0, samples, 2))), **options)
    raise ValueError(order)


def map_cases(source, count):
    yield "# map ORDER SAMPLES BATCH_SIZE PROCESSES SPLIT DROP_LAST EVEN SEED REMAINDER, batches"
    orders = ["sequential"] * 3 + ["seedable"] * 4 + ["random", "generator", "replacement", "more", "weighted", "subset"]
    for _ in range(count):
        order, samples = source.choice(orders), source.choice((source.randint(1, 12), source.randint(1, 60)))
        processes, split = source.randint(1, 6), source.randrange(2)
        size = source.randint(1, 7)
        if split:
            size = processes * source.randint(1 if processes == 1 else 1, 3)
            if size == 1 and processes > 1:
                size = processes
        drop_last, even, seed = source.randrange(2), source.randrange(2), source.choice((0, 1, 42, 2**31))
        options = {"use_seedable_sampler": True, "data_seed": seed} if order == "seedable" else {}

        def make(process):
            return prepared(loader_of(order, samples, size, bool(drop_last), seed), processes, process,
                            split_batches=bool(split), even_batches=bool(even), **options)

        try:
            batches = epochs_of([lambda process=process: make(process) for process in range(processes)])
            remainder = remainder_of(make(0))
        except (ValueError, RuntimeError):
            batches, remainder = "!", 0
        yield f"map {order} {samples} {size} {processes} {split} {drop_last} {even} {seed} {remainder} {batches}"


def varying_cases(source, count):
    yield "# varying BATCHES PROCESSES EVEN, batches of 1, 2, 3, 1, ... samples"
    for _ in range(count):
        batches, processes, even = source.randint(0, 14), source.randint(1, 5), source.randrange(2)

        def make(process):
            return prepared(DataLoader(range(3 * batches), batch_sampler=Varying(batches)), processes, process,
                            even_batches=bool(even))

        yield (f"varying {batches} {processes} {even} "
               + epochs_of([lambda process=process: make(process) for process in range(processes)]))


def stream_cases(source, count):
    yield "# stream SAMPLES BATCH_SIZE PROCESSES SPLIT DROP_LAST, batches; each process reads all"
    for _ in range(count):
        samples, processes = source.choice((source.randint(0, 9), source.randint(0, 50))), source.randint(1, 5)
        split, drop_last = source.randrange(2), source.randrange(2)
        size = processes * source.randint(1, 3) if split else source.randint(1, 6)
        if split and size == 1 and processes > 1:
            size = processes

        def make(process):
            return prepared(DataLoader(Stream(samples), batch_size=size, drop_last=bool(drop_last)), processes, process,
                            split_batches=bool(split))

        yield (f"stream {samples} {size} {processes} {split} {drop_last} "
               + epochs_of([lambda process=process: make(process) for process in range(processes)]))


def sampler_cases(source, count):
    yield "# distributed SAMPLES REPLICAS RANK SHUFFLE DROP_LAST SEED EPOCH, indices"
    for _ in range(count):
        samples, replicas = source.randint(1, 30), source.randint(1, 6)
        rank, shuffle, drop_last = source.randrange(replicas), source.randrange(2), source.randrange(2)
        seed, epoch = source.choice((0, 5)), source.randrange(3)
        sampler = DistributedSampler(range(samples), replicas, rank, bool(shuffle), seed, bool(drop_last))
        sampler.set_epoch(epoch)
        yield f"distributed {samples} {replicas} {rank} {shuffle} {drop_last} {seed} {epoch} {text_of([list(sampler)])}"


def dispatch_case(kind, samples, size, split, drop_last):
    """What this process gets, in a real group of processes."""
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(
        dispatch_batches=True, split_batches=bool(split), use_seedable_sampler=True, data_seed=3))
    if kind == "stream":
        loader = DataLoader(Stream(samples), batch_size=size, drop_last=bool(drop_last))
    else:
        loader = DataLoader(torch.arange(samples), batch_size=size, drop_last=bool(drop_last), shuffle=kind == "shuffled")
    loader = accelerator.prepare(loader)
    batches, remainder = [], 0
    for batch in loader:
        batches.append(batch.tolist())
        if loader.end_of_dataloader:
            remainder = loader.remainder
    return text_of(batches), remainder


def dispatch_process(rank, processes, cases, folder):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(processes), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(processes),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT="29611", ACCELERATE_USE_CPU="true", OMP_NUM_THREADS="1")
    torch.set_num_threads(1)
    with open(f"{folder}/{rank}", "w", encoding="ascii") as file:
        for case in cases:
            text, remainder = dispatch_case(*case)
            GradientState._reset_state()
            AcceleratorState._reset_state()
            file.write(f"{remainder} {text}\n")
    PartialState().destroy_process_group()


def dispatch_cases(source, count):
    yield "# dispatch KIND SAMPLES BATCH_SIZE PROCESSES SPLIT DROP_LAST REMAINDER, batches of one epoch"
    for processes in (2, 3, 4):
        cases = []
        while len(cases) < count // 3:
            kind, samples = source.choice(("stream", "map", "shuffled")), source.randint(1, 40)
            split, drop_last = source.randrange(2), source.randrange(2)
            size = processes * source.randint(1, 3) if split else source.randint(1, 6)
            rows = size if split else size * processes
            if (drop_last and samples < rows) or 2 * samples < processes:
                continue  # the original fails, or gives empty batches
            cases.append((kind, samples, size, split, drop_last))
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(dispatch_process, (processes, cases, folder), processes)
            shares = [open(f"{folder}/{rank}", encoding="ascii").read().splitlines() for rank in range(processes)]
        for number, (kind, samples, size, split, drop_last) in enumerate(cases):
            remainder = shares[0][number].split()[0]
            batches = "/".join(share[number].split()[1] for share in shares)
            yield f"dispatch {kind} {samples} {size} {processes} {split} {drop_last} {remainder} {batches}"


def main():
    source = random.Random(2026)
    with open(sys.argv[1], "w", encoding="ascii") as file:
        file.write("# Made by make_loader_goldens.py.\n")
        for lines in (map_cases(source, 2000), varying_cases(source, 60), stream_cases(source, 300),
                      sampler_cases(source, 100), dispatch_cases(source, 300)):
            for line in lines:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
