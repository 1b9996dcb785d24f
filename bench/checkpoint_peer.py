#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python's ways to save the model of bench_checkpoint: checkpoint_peer.py FOLDER [MIB [ROUNDS]]

None of them waits for the disk; "and fsync" adds that, as accel_save_model() and accel_save_state() always do.  The
yardstick is that of bench_checkpoint: pwrite() and fsync() of the same bytes.  For an asynchronous save, the first line
is how long the program is blocked, the second is the time until everything is on disk.
"""
import os
import pathlib
import shutil
import statistics
import sys
import time

import torch
from accelerate import Accelerator
from safetensors.torch import save_file
from torch.distributed.checkpoint.state_dict_saver import async_save

folder = pathlib.Path(sys.argv[1])
mib = int(sys.argv[2]) if len(sys.argv) > 2 else 1024
rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
model = torch.nn.Module()
for i in range(16):
    count = (mib << 20) // 16 // 4
    model.register_parameter(f"t{i:02}", torch.nn.Parameter(torch.arange(count, dtype=torch.float32) % 1000 + i))
accelerator = Accelerator(cpu=True)
model = accelerator.prepare(model)
state = model.state_dict()
os.environ.update(MASTER_ADDR="127.0.0.1", RANK="0", WORLD_SIZE="1")
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)


def plain(path):
    fd = os.open(path / "plain", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    at = 0
    for tensor in state.values():
        view = memoryview(tensor.numpy()).cast("B")
        while view:
            put = os.pwrite(fd, view[: 8 << 20], at)
            view, at = view[put:], at + put
    os.close(fd)


ways = {
    "pwrite": plain,
    "torch.save": lambda path: torch.save(state, path / "x.bin"),
    "safetensors save_file": lambda path: save_file(state, path / "x.safetensors"),
    "Accelerate save_model": lambda path: accelerator.save_model(model, path),
    "Accelerate save_state": lambda path: accelerator.save_state(path / "state"),
    "torch async_save": lambda path: async_save(state, checkpoint_id=path / "dcp", no_dist=True),
}
times = {(name, sync): [] for name in ways for sync in (False, True)}
for _ in range(rounds):
    for (name, sync), each in times.items():
        for old in folder.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        os.sync()
        begin = time.monotonic()
        result = ways[name](folder)
        blocked = time.monotonic()
        is_future = hasattr(result, "result")
        if is_future:
            result.result()
        for file in filter(pathlib.Path.is_file, folder.rglob("*") if sync else ()):
            with open(file, "rb") as opened:
                os.fsync(opened.fileno())
        each.append((blocked if is_future and not sync else time.monotonic()) - begin)
for (name, sync), each in times.items():
    middle = statistics.median(each)
    print(f"{name + (' and fsync' if sync else ''):<34} {middle:6.3f} s  {mib / 1024 / middle:6.2f} GiB/s")
