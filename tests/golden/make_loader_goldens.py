#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes data.txt: what loaders of PyTorch give when the original has prepared them.

Not run by the tests.  How to run, and with what the committed file was made (torch 2.15.0, accelerate 1.15.0):

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch accelerate numpy
    /tmp/venv/bin/python tests/golden/make_loader_goldens.py tests/golden/data.txt

A line is `KIND ORDER PROCESSES CASES FAILED SUM...`: so many cases, which are picked as in loader_cases.h; bits for
those where the original fails; and for each process the checksum of what it gets in all cases.  What it gets in one
case is a text: batches as 1,2|3,4, or '-', ';' between epochs, and the remainder.  This shows the texts of a line, as a
test that fails does:

    /tmp/venv/bin/python tests/golden/make_loader_goldens.py show map random 3 48
"""

import os
import sys
import tempfile
from types import SimpleNamespace

import torch
import torch.multiprocessing
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.data_loader import prepare_data_loader
from accelerate.state import AcceleratorState, GradientState, PartialState
from torch.utils.data import (DataLoader, IterableDataset, RandomSampler, Sampler, SubsetRandomSampler,
                              WeightedRandomSampler)
from torch.utils.data.distributed import DistributedSampler

from picks import Picks, checksum

EPOCHS = 3
DRAWN = ["replacement", "more", "weighted", "subset"]  # the remainder is not compared
ORDERS = ["sequential", "seedable", "random", "generator", *DRAWN]


class Stream(IterableDataset):
    def __init__(self, samples):
        self.samples = samples

    def __iter__(self):
        return iter(torch.tensor(i) for i in range(self.samples))


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


def pick_size(case, picks, most):
    case.size = case.processes * (1 + picks.below(3)) if case.split else 1 + picks.below(most)


def pick_map(case, picks):
    case.split, case.drop_last, case.even = case.number & 1, case.number >> 1 & 1, case.number >> 2 & 1
    most = picks.choice([12, 60])
    case.samples = 1 + picks.below(most)
    pick_size(case, picks, 7)
    case.seed = picks.choice([0, 1, 42, 2**31])


def pick_stream(case, picks):
    below = picks.choice([10, 51])
    case.samples, case.split, case.drop_last = picks.below(below), picks.below(2), picks.below(2)
    pick_size(case, picks, 6)


def pick_dispatch(case, picks):
    """Not what the original fails at, or gives empty batches for."""
    while True:
        case.samples, case.split, case.drop_last = 1 + picks.below(40), picks.below(2), picks.below(2)
        pick_size(case, picks, 6)
        rows = case.size * (1 if case.split else case.processes)
        if not (case.drop_last and case.samples < rows or 2 * case.samples < case.processes):
            return


def pick_shard(case, _):
    case.samples, case.size = case.number % 40, 1 + case.number // 40 % 7
    case.drop_last, case.even = case.number // 280 & 1, case.number // 560 & 1


def pick_varying(case, _):
    case.samples, case.even = case.number // 2, case.number & 1


def pick_distributed(case, _):
    case.samples = 1 + case.number % 30
    case.shuffle, case.drop_last = case.number // 30 & 1, case.number // 60 & 1
    case.seed, case.epoch = 5 * (case.number // 120 & 1), case.number // 240


def pick(kind, order, processes, number):
    case = SimpleNamespace(order=order, processes=processes, number=number, samples=0, size=0, split=0, drop_last=0,
                           even=0, shuffle=0, seed=0, epoch=0)
    picks = Picks(text_checksum(f"{kind} {order} {processes} {number}"))
    {"map": pick_map, "shard": pick_shard, "stream": pick_stream, "dispatch": pick_dispatch, "varying": pick_varying,
     "distributed": pick_distributed}[kind](case, picks)
    return case


def text_checksum(text, total=0):
    return checksum(text.encode() + b"\0", total)


def text_of(batches):
    return "|".join(",".join(str(index) for index in batch) for batch in batches) or "-"


def epochs_of(loader):
    return ";".join(text_of([batch.tolist() for batch in loader]) for _ in range(EPOCHS))


def prepared(loader, case, process, **options):
    return prepare_data_loader(loader, num_processes=case.processes, process_index=process, put_on_device=False,
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


def run_map(case, process):
    options = {"use_seedable_sampler": True, "data_seed": case.seed} if case.order == "seedable" else {}

    def make(process):
        loader = loader_of(case.order, case.samples, case.size, bool(case.drop_last), case.seed)
        return prepared(loader, case, process, split_batches=bool(case.split), even_batches=bool(case.even), **options)

    try:
        text = epochs_of(make(process))
        return text if case.order in DRAWN else f"{text} {remainder_of(make(0))}"
    except (ValueError, RuntimeError):
        return None


def run_shard(case, process):
    """One epoch, in order."""
    loader = prepared(DataLoader(range(case.samples), batch_size=case.size, drop_last=bool(case.drop_last)), case,
                      process, even_batches=bool(case.even))
    return f"{text_of([batch.tolist() for batch in loader])} {remainder_of(loader)}"


def run_varying(case, process):
    loader = DataLoader(range(3 * case.samples), batch_sampler=Varying(case.samples))
    return epochs_of(prepared(loader, case, process, even_batches=bool(case.even)))


def run_stream(case, process):
    """Each process reads all."""
    loader = DataLoader(Stream(case.samples), batch_size=case.size, drop_last=bool(case.drop_last))
    return epochs_of(prepared(loader, case, process, split_batches=bool(case.split)))


def run_distributed(case, process):
    sampler = DistributedSampler(range(case.samples), case.processes, process, bool(case.shuffle), case.seed,
                                 bool(case.drop_last))
    sampler.set_epoch(case.epoch)
    return text_of([list(sampler)])


def run_dispatch(case):
    """What this process gets in one epoch, in a real group of processes."""
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(
        dispatch_batches=True, split_batches=bool(case.split), use_seedable_sampler=True, data_seed=3))
    options = {"batch_size": case.size, "drop_last": bool(case.drop_last)}
    if case.order == "stream":
        loader = DataLoader(Stream(case.samples), **options)
    else:
        loader = DataLoader(torch.arange(case.samples), shuffle=case.order == "shuffled", **options)
    loader = accelerator.prepare(loader)
    batches, remainder = [], 0
    for batch in loader:
        batches.append(batch.tolist())
        if loader.end_of_dataloader:
            remainder = loader.remainder
    return f"{text_of(batches)} {remainder}"


def dispatch_process(rank, processes, cases, folder):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(processes), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(processes),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT="29611", ACCELERATE_USE_CPU="true", OMP_NUM_THREADS="1")
    torch.set_num_threads(1)
    with open(f"{folder}/{rank}", "w", encoding="ascii") as file:
        for case in cases:
            text = run_dispatch(case)
            GradientState._reset_state()
            AcceleratorState._reset_state()
            file.write(text + "\n")
    PartialState().destroy_process_group()


def texts_of(kind, cases, processes):
    """For each process, what it gets in each case."""
    if kind == "dispatch":
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(dispatch_process, (processes, cases, folder), processes)
            return [open(f"{folder}/{rank}", encoding="ascii").read().splitlines() for rank in range(processes)]
    run = {"map": run_map, "shard": run_shard, "varying": run_varying, "stream": run_stream,
           "distributed": run_distributed}[kind]
    return [[run(case, process) for case in cases] for process in range(processes)]


def line(kind, order, processes, count, show=False):
    cases = [pick(kind, order, processes, number) for number in range(count)]
    shares = texts_of(kind, cases, processes)
    failed = {case.number for case in cases if any(share[case.number] is None for share in shares)}
    sums = []
    for process, share in enumerate(shares):
        total = 0
        for case in cases:
            if case.number in failed:
                continue
            total = text_checksum(share[case.number], total)
            if show:
                print(f"{process} {case.number}: {case.samples} {case.size} {case.split} {case.drop_last} {case.even} "
                      f"{case.shuffle} {case.seed} {case.epoch}: {share[case.number]}")
        sums.append(f"{total:x}")
    bits = sum(1 << number for number in failed)
    return f"{kind} {order} {processes} {count} {bits:x} {' '.join(sums)}"


def main():
    if sys.argv[1] == "show":
        kind, order, processes, count = sys.argv[2:6]
        line(kind, order, int(processes), int(count), show=True)
        return
    lines = [("map", order, processes, 48) for order in ORDERS for processes in range(1, 7)]
    lines += [("shard", "-", processes, 1120) for processes in range(1, 6)]
    lines += [("varying", "-", processes, 30) for processes in range(1, 6)]
    lines += [("stream", "-", processes, 60) for processes in range(1, 6)]
    lines += [("distributed", "-", replicas, 720) for replicas in range(1, 7)]
    lines += [("dispatch", order, processes, 33) for order in ("stream", "map", "shuffled") for processes in (2, 3, 4)]
    with open(sys.argv[1], "w", encoding="ascii") as file:
        file.write("# Made by make_loader_goldens.py, which says what stands here.\n")
        for words in lines:
            file.write(line(*words) + "\n")


if __name__ == "__main__":
    main()
