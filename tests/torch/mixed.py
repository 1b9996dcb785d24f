# SPDX-License-Identifier: Apache-2.0
"""What tests/torch/mixed.sh launches: a program for PyTorch alone, with a device and a backend of its own.

  mixed.py BACKEND   e.g. cpu:gloo,other:counted: each rank calls collectives on tensors of both, in groups of both, and
                     prints the classes of its groups, the names given, and the calls of the other device's backend
  mixed.py counted   the same for the other device; then the program makes a group for the CPU

The device is a stand-in for one on which no tensor has elements.  Exits with 77 if torch cannot have such a device.
"""

import inspect
import os
import sys

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

try:
    torch.utils.backend_registration._setup_privateuseone_for_python_backend("other")
except (AttributeError, TypeError):
    sys.exit(77)

named = sys.argv[1]
calls: list[str] = []
backends = []  # torch's C++ does not keep the Python part of them


class Counted(c10d.Backend):
    def getBackendName(self) -> str:
        return "counted"

    def _note(self, call: str, tensors: object) -> dist.Work:
        calls.append(call)
        done = torch.futures.Future()
        done.set_result(tensors)
        return c10d._create_work_from_future(done)

    def allreduce(self, tensors, opts=None):
        return self._note("allreduce", tensors)

    def broadcast(self, tensors, opts=None):
        return self._note("broadcast", tensors)

    def barrier(self, opts=None):
        return self._note("barrier", [])

    @property
    def supports_splitting(self) -> bool:
        return True

    def shutdown(self):
        calls.append("shutdown")


def make(options, _more):
    backends.append(Counted(options.group_rank, options.group_size))
    return backends[-1]


def there(*_args, **_named) -> torch.Tensor:
    return torch._C._acc.create_empty_tensor((3,), torch.float32)


def sums(group) -> None:
    here = torch.ones(3)
    dist.all_reduce(here, group=group)
    assert here.tolist() == [2, 2, 2], here


torch.library.impl("aten::empty.memory_format", "privateuseone", there)  # which barrier() calls
dist.Backend.register_backend("counted", make, extended_api=True, devices=["other"])
dist.init_process_group(named)
world = dist.group.WORLD
classes = [type(world).__name__]
dist.all_reduce(there())
if named == "counted":
    group = dist.new_group(backend="cpu:gloo")
    classes.append(type(group).__name__)
    sums(group)
else:
    sums(None)
    dist.barrier()  # on the CPU
    dist.barrier(device_ids=[0])  # on the other device
    group = dist.new_group()
    classes.append(type(group).__name__)
    sums(group)
    dist.broadcast(there(), 0, group=group)
    assert isinstance(world._get_backend(torch.device("other")), Counted)
    assert {device.type for device in world._device_types} == {"cpu", "other"}
    # torch's own group is split only with the backend of its default device.
    is_split = "MixedProcessGroup" in classes and "backend" in inspect.signature(dist.split_group).parameters
    for name in ("gloo", "cpu:gloo") if is_split else ():
        part = dist.split_group(split_ranks=[[0, 1]], backend=name)
        assert [device.type for device in part._device_types] == ["cpu"], part._device_types
        sums(part)
dist.destroy_process_group()
print(f"{' '.join(classes)} {named}: {' '.join(calls)}\n", end="", flush=True)
os._exit(0)  # torch 2.15's own gloo sometimes aborts when the interpreter ends
