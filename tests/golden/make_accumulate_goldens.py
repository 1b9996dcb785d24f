#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes accumulate.txt: what the original decides in each pass of trainings with gradient accumulation.

Not run by the tests.  How to run, and with what the committed file was made (torch 2.15.0, accelerate 1.15.0):

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch accelerate numpy
    /tmp/venv/bin/python tests/golden/make_accumulate_goldens.py tests/golden

One process plays rank RANK of PROCESSES: loaders are sharded for it, and the scheduler and the accelerator are
told the number.  Each line is `KEY CASES SUM`: so many trainings, picked from the key, and the checksum of what each
accumulate() of theirs gives: a word, and the learning rate.  In the word, s stands where gradients are synchronised, r
where the model reduces (of several processes), o where the optimizer stepped, z where gradients were set to zero, "."
for none of these.  A test that fails shows them; this shows the original's for a key:

    /tmp/venv/bin/python tests/golden/make_accumulate_goldens.py show 7

Fields: plugin=1 has a plugin, 0 the argument; env: the variable, 0 for none; then: the steps set after the first epoch;
inner: batches of a loader run through within the second batch of the outer one, with a pass for each; evaluate: the
same without passes; skip: each so manieth step counts as skipped by the scaler; cycle: total steps of a one-cycle.
"""

import os
import struct
import sys
import types
import warnings

import accelerate.scheduler
import torch
from accelerate import Accelerator
from accelerate.data_loader import prepare_data_loader
from accelerate.scheduler import AcceleratedScheduler
from accelerate.state import AcceleratorState, GradientState, PartialState
from accelerate.utils import GradientAccumulationPlugin
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader

from picks import Picks, checksum

warnings.filterwarnings("ignore")
FOLDER = sys.argv[1] if len(sys.argv) > 1 else "."
BLOCKS, CASES = 20, 30


class Model:
    """Replaces a model under DistributedDataParallel, whose no_sync() keeps it from reducing."""

    def __init__(self):
        self.reduces = True

    def no_sync(self):
        model = self

        class Context:
            def __enter__(self):
                model.reduces = False

            def __exit__(self, *args):
                model.reduces = True

        return Context()


class Sgd(torch.optim.SGD):
    events = ""

    def step(self, *args, **kwargs):
        self.events += "o"
        return super().step(*args, **kwargs)

    def zero_grad(self, *args, **kwargs):
        self.events += "z"
        return super().zero_grad(*args, **kwargs)


class Job:
    def __init__(self, case):
        self.case = case
        AcceleratorState._reset_state(True)
        GradientState._reset_state()
        os.environ.pop("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", None)
        if case["env"]:
            os.environ["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"] = str(case["env"])
        if case["plugin"]:
            plugin = GradientAccumulationPlugin(
                num_steps=case["steps"] or None,
                adjust_scheduler=not case["keep_scheduler"],
                sync_with_dataloader=not case["without_dataloader"],
                sync_each_batch=bool(case["each"]),
            )
            self.accelerator = Accelerator(cpu=True, gradient_accumulation_plugin=plugin)
        else:
            self.accelerator = Accelerator(cpu=True, gradient_accumulation_steps=case["steps"])
        type(self.accelerator).use_distributed = property(lambda _: case["processes"] > 1)
        accelerate.scheduler.AcceleratorState = lambda: types.SimpleNamespace(num_processes=case["processes"])
        weight = torch.nn.Parameter(torch.ones(1))
        weight.grad = torch.zeros(1)
        self.inner_optimizer = Sgd([weight], lr=0.25)
        if case["cycle"]:
            schedule = lr_scheduler.OneCycleLR(
                self.inner_optimizer, 0.5, total_steps=case["cycle"], anneal_strategy="linear", cycle_momentum=False
            )
        else:
            schedule = lr_scheduler.LambdaLR(self.inner_optimizer, lambda step: 1 / (1 + 0.03125 * step))
        self.inner_optimizer.events = ""
        self.optimizer = self.accelerator.prepare_optimizer(self.inner_optimizer)
        self.scheduler = AcceleratedScheduler(
            schedule, self.optimizer, not case["without_optimizer"], bool(case["split"])
        )
        self.model = Model()
        self.loader = self.make_loader(case["samples"])
        self.inner = self.make_loader(max(case["inner"], case["evaluate"]) * case["batch"] * case["processes"])
        self.words = []

    def make_loader(self, samples):
        case = self.case
        if not samples:
            return None
        return prepare_data_loader(
            DataLoader(list(range(samples)), batch_size=case["batch"], drop_last=bool(case["drop"])),
            num_processes=case["processes"],
            process_index=case["rank"],
            split_batches=bool(case["split"]),
            put_on_device=False,
            rng_types=None,
            dispatch_batches=False,
            even_batches=not case["uneven"],
        )

    def do_pass(self):
        case = self.case
        self.inner_optimizer.events = ""
        with self.accelerator.accumulate(self.model):
            word = "s" if self.accelerator.sync_gradients else ""
            word += "r" if self.model.reduces and case["processes"] > 1 else ""
            self.optimizer.step()
            self.optimizer._is_overflow = bool(case["skip"]) and len(self.words) % case["skip"] == case["skip"] - 1
            self.scheduler.step()
            self.optimizer.zero_grad()
        self.words.append(((word + self.inner_optimizer.events) or ".", self.scheduler.get_last_lr()[0]))

    def run(self):
        case = self.case
        for epoch in range(case["epochs"]):
            for number, _ in enumerate(self.loader):
                if number == 1 and self.inner:
                    for _ in self.inner:
                        if case["inner"]:
                            self.do_pass()
                self.do_pass()
            if case["then"]:
                self.accelerator.gradient_accumulation_steps = case["then"]
        return self.words


def pick(picks):
    """As pick_numbers() of test_accumulate.c."""
    processes = picks.choice([1, 1, 2, 2, 3, 4])
    case = {"processes": processes, "rank": picks.below(processes), "samples": 1 + picks.below(24),
            "batch": 1 + picks.below(4), "drop": picks.below(5) == 0, "uneven": picks.below(5) == 0,
            "split": picks.below(10) < 3, "epochs": picks.choice([1, 2, 2, 3]), "plugin": picks.below(10) < 7}
    case["steps"] = picks.choice([0, 1, 2, 3, 4, 5, 7] if case["plugin"] else [1, 2, 3, 4, 8])
    case["env"] = picks.choice([0, 0, 0, 2, 3])
    case["keep_scheduler"] = picks.below(2) and case["plugin"]
    case["without_dataloader"] = picks.below(5) < 2 and case["plugin"]
    case["each"] = picks.below(5) < 2 and case["plugin"]
    case["then"] = picks.choice([0, 0, 0, 2, 3])
    nested, count = picks.below(4), 1 + picks.below(4)
    case["inner"], case["evaluate"] = count * (nested == 2), count * (nested == 3)
    case["skip"] = picks.choice([0, 0, 0, 2, 3])
    case["without_optimizer"] = picks.below(5) == 0
    case["cycle"], short = picks.choice([0, 0, 100, 150]), picks.choice([5, 9, 14, 40])
    if case["split"]:
        case["batch"] *= processes
    if not case["without_optimizer"] and not case["split"] and case["cycle"]:
        case["cycle"] = short  # whose end is reached
    return {key: int(value) for key, value in case.items()}


def block(key, show=False):
    picks, total = Picks(key), 0
    for _ in range(CASES):
        case, text, own = pick(picks), "", 0
        for word, lr in Job(case).run():
            own = checksum([struct.unpack("<Q", struct.pack("<d", lr))[0]], checksum(word.encode() + b"\0", own))
            text += f" {word}@{lr:.17g}"
        total = checksum([own], total)
        if show:
            print(" ".join(f"{name}={value}" for name, value in case.items() if value) + ":" + text)
    return f"{key} {CASES} {total:x}"


def main():
    if FOLDER == "show":
        block(int(sys.argv[2]), show=True)
        return
    with open(os.path.join(FOLDER, "accumulate.txt"), "w") as file:
        file.write("# Made by make_accumulate_goldens.py, which says what stands here.\n")
        file.writelines(block(key) + "\n" for key in range(BLOCKS))


main()
