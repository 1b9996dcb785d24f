# SPDX-License-Identifier: Apache-2.0
"""What tests/torch/plug.sh launches: a program for PyTorch alone, which knows nothing of libaccel.

  plug.py train [BACKEND]  (gloo; none: the program names none) each rank trains with DDP; prints the class of its group, its backend's name and the loss
  plug.py child            the same in a child of each rank, with a group of its own, while the rank has one, too
  plug.py spawn            ranks that the program starts itself
  plug.py below COMMAND... starts another job
  plug.py split            groups of the default group by split_group(), with each name of its backend; prints their classes
  plug.py stacks           rank 1 computes, in compute(), while the file `busy` exists
"""

import contextlib
import os
import socket
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

if torch.__version__ < "2.5":  # which loads no backends by itself
    with contextlib.suppress(ImportError):
        import accel_torch  # noqa: F401


def train():
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(10, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(5):
        loss = (model(torch.randn(8, 10) + dist.get_rank()) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.all_reduce(loss)
    print(f"{type(dist.group.WORLD).__name__} {dist.get_backend()} {loss.item():.6f}\n", end="", flush=True)


def child():
    dist.init_process_group("gloo")
    dist.barrier()
    port = [0]
    if dist.get_rank() == 0:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port[0] = listener.getsockname()[1]
    number = torch.tensor(port)
    dist.all_reduce(number)
    subprocess.run([sys.executable, __file__, "train"], env={**os.environ, "MASTER_PORT": str(number.item())}, check=True)
    dist.barrier()


def split():
    """The last name is what PyTorch's own code for pipelines uses."""
    last = dist.BackendConfig(dist.get_backend_config()).get_device_backend_map()["cpu"]
    for named in (None, "gloo", "cpu:gloo", f"cpu:{last}"):
        group = dist.split_group(split_ranks=[[0, 1]], backend=named)
        number = torch.ones(1)
        dist.all_reduce(number, group=group)
        print(f"{type(group).__name__} {dist.get_backend(group)} {named} {number.item()}\n", end="", flush=True)


def spawned(rank, port):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group("gloo")
    train()
    os._exit(0)


def compute():
    while os.path.exists("busy"):
        time.sleep(0.01)


if __name__ == "__main__":
    mode = sys.argv[1]
    if mode == "child":
        child()
    elif mode == "spawn":
        torch.multiprocessing.spawn(spawned, (sys.argv[2],), 2)
    elif mode == "below":
        subprocess.run(sys.argv[2:], check=True)
    else:
        named = sys.argv[2:] or ["gloo"]
        dist.init_process_group(None if named == ["none"] else named[0])
        if mode == "stacks" and dist.get_rank() == 1:
            compute()
        split() if mode == "split" else train()
    if dist.is_initialized():
        dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # torch 2.15's own gloo sometimes aborts when the interpreter ends
