#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python's ways to save the model of bench_checkpoint: checkpoint_peer.py FOLDER [MIB [ROUNDS]]

None of them waits for the disk; "and fsync" adds that, as accel_save_model() always does.
"""
import os
import pathlib
import statistics
import sys
import time

import torch
from accelerate import Accelerator
from safetensors.torch import save_file

folder = pathlib.Path(sys.argv[1])
mib = int(sys.argv[2]) if len(sys.argv) > 2 else 1024
rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
model = torch.nn.Module()
for i in range(16):
    count = (mib << 20) // 16 // 4
    model.register_parameter(f"t{i:02}", torch.nn.Parameter(torch.arange(count, dtype=torch.float32) % 1000 + i))
accelerator = Accelerator(cpu=True)
state = model.state_dict()
ways = {
    "torch.save": lambda path: torch.save(state, path / "x.bin"),
    "safetensors save_file": lambda path: save_file(state, path / "x.safetensors"),
    "Accelerate save_model": lambda path: accelerator.save_model(model, path),
}
times = {(name, sync): [] for name in ways for sync in (False, True)}
for _ in range(rounds):
    for (name, sync), each in times.items():
        for old in folder.iterdir():
            old.unlink()
        os.sync()
        begin = time.monotonic()
        ways[name](folder)
        for file in folder.iterdir() if sync else ():
            with open(file, "rb") as opened:
                os.fsync(opened.fileno())
        each.append(time.monotonic() - begin)
for (name, sync), each in times.items():
    middle = statistics.median(each)
    print(f"{name + (' and fsync' if sync else ''):<34} {middle:6.3f} s  {mib / 1024 / middle:6.2f} GiB/s")
