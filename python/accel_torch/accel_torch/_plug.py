# SPDX-License-Identifier: Apache-2.0
"""Programs that ask for gloo get libaccel, if `accelerate launch --cpu_backend accel` has started them.

torch keeps the names that a program has given: get_backend() is still "gloo".  Only what serves the CPU is replaced, in
torch's table of devices and backends (BackendConfig), which each new process group reads.

All ranks have to choose alike, so the ranks of the default group tell each other in its store what keeps them from
libaccel.  If one of them has a reason, all use gloo, and rank 0 prints that reason.  A rank without this package says
nothing there, but gloo does: it is at work on that rank.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from types import FrameType
from typing import Any, Optional

import torch
import torch.distributed as dist

from ._library import UNSUPPORTED, AccelError, LibraryMissing, library

ASKED = "ACCEL_CPU_BACKEND"  # set by the launcher
_SEGMENT = "ACCEL_JOB_SEGMENT"  # the same, for each job another value
_OWNER = "ACCEL_TORCH_PROCESS"  # the process that is the rank, and its job; its children get the variable, too
# What MPI's launchers give each rank; the launcher passes it on if ranks are processes of MPI.
_MPI = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_RANK")

_is_off = False  # the default group has gloo, so other groups have, too
_was_replaced = False  # by the latest BackendConfig


def install() -> None:
    """From now on, new process groups have libaccel in place of gloo on CPUs.  Does nothing if nobody asked for it."""
    if os.environ.get(ASKED) != "accel" or not dist.is_available():
        return
    _claim()
    _show_stacks()
    c10d = dist.distributed_c10d
    config = c10d.BackendConfig
    if getattr(config, "is_accel_torch", False):
        return

    class BackendConfig(config):  # type: ignore[misc, valid-type]
        is_accel_torch = True

        def __init__(self, backend: str) -> None:
            super().__init__(backend)
            self._given = dict(self.device_backend_map)
            global _was_replaced
            _was_replaced = _replace(self.device_backend_map)

        def get_device_backend_map(self) -> dict[str, str]:
            return self._given if _compares_given(sys._getframe(1)) else self.device_backend_map

    BackendConfig.__qualname__ = config.__qualname__
    BackendConfig.__module__ = config.__module__
    c10d.BackendConfig = BackendConfig
    if hasattr(dist, "BackendConfig"):
        dist.BackendConfig = BackendConfig


def _compares_given(frame: FrameType) -> bool:
    """Whether this frame is of split_group(), which compares the names of the parent with one that the program gives:
    gloo, or accel as torch's own code gets it from get_backend_config().
    """
    is_split = frame.f_code.co_name == "split_group" and frame.f_globals is vars(dist.distributed_c10d)
    return is_split and "accel" not in str(frame.f_locals.get("backend"))


def _claim() -> None:
    """The first process of a job that comes here is the rank: what has the variable of another job may be one, too."""
    segment = os.environ.get(_SEGMENT)
    if segment and os.environ.get(_OWNER, "").partition(" ")[2] != segment:
        os.environ[_OWNER] = f"{os.getpid()} {segment}"


def _is_rank() -> bool:
    return os.environ.get(_OWNER, "").partition(" ")[0] == str(os.getpid())


def _show_stacks() -> None:
    """Let `accelerate stacks` and the launcher's warnings ask this rank for its Python lines."""
    number, file = os.environ.get("ACCEL_STACK_SIGNAL"), os.environ.get("ACCEL_STACK_FD")
    if number and file and _is_rank():
        try:
            faulthandler.register(int(number), file=int(file))
        except (OSError, RuntimeError, ValueError):
            pass  # without the file, the interpreter's own stack is shown


def _replace(devices: dict[str, str]) -> bool:
    """gloo of the CPU becomes libaccel.  Gloo is also listed for devices that the machine does not have."""
    if _is_off or devices.get("cpu") != "gloo" or _lacks_job():
        return False
    others = {device: name for device, name in devices.items() if device != "cpu" and _is_present(device, name)}
    # If one gloo serves both, a rank without this package makes no second one, which ours would wait for.
    if others and ("gloo" in others.values() or not _tells_group()):
        return False
    devices.clear()
    devices.update(others)
    devices["cpu"] = "accel"  # the last, because torch makes no other backend after a group in Python
    return True


def _lacks_job() -> bool:
    """Whether the default group has no CPU, and so did not open the job that other groups need."""
    from . import _job

    return dist.is_initialized() and not _job.is_open()


def _tells_group() -> bool:
    """Whether torch tells who makes a backend which group it is for: older versions do not."""
    return hasattr(dist.distributed_c10d._DistributedBackendOptions(), "process_group")


def _is_present(device: str, name: str) -> bool:
    return name != "gloo" or (device == "cuda" and torch.cuda.is_available())


def create(options: Any, _unused: Any) -> dist.ProcessGroup:
    """A group for torch's _DistributedBackendOptions: of libaccel or, for the default group, of gloo."""
    from ._group import begin
    from ._group import create as create_group

    is_default = not options.global_ranks_in_group
    if not is_default or not _was_replaced:
        return create_group(options)
    keys = begin()
    reason = _agree(options, f"{keys}/begin", _own_reason(options.group_rank, options.group_size))
    group: Optional[dist.ProcessGroup] = None
    if not reason:
        try:
            group = create_group(options, keys)
        except AccelError as error:
            if error.status != UNSUPPORTED:
                raise
            reason = str(error)
        reason = _agree(options, f"{keys}/opened", reason)
    if not reason and group is not None:
        return group
    if group is not None:
        group.shutdown()
    return _create_gloo(options, keys, reason)


def _own_reason(rank: int, size: int) -> str:
    """Why this process cannot be a rank of libaccel's; "" if it can."""
    environment = os.environ
    if _SEGMENT not in environment:
        return "the process was not started by accelerate launch"
    if not _is_rank():
        return "the process was started by a rank, and is not one"
    named = environment.get("RANK", "0"), environment.get("WORLD_SIZE", "1")
    if named != (str(rank), str(size)):
        return f"the launcher started rank {named[0]} of {named[1]}, but the process group has rank {rank} of {size}"
    if environment.get("LOCAL_WORLD_SIZE", "1") != named[1] and not any(name in environment for name in _MPI):
        return "ranks on several hosts need MPI, which did not start them (see --mpi of accelerate launch)"
    try:
        library()
    except LibraryMissing as error:
        return str(error)
    return ""


def _agree(options: Any, key: str, reason: str) -> str:
    """What all ranks have in common: the first reason of any of them, or ""."""
    store, rank, size = options.store, options.group_rank, options.group_size
    deadline = time.monotonic() + options.timeout.total_seconds()
    store.set(f"{key}/{rank}", reason.encode())
    if rank == 0:
        reasons = [_ask(store, f"{key}/{i}", i, deadline) for i in range(size)]
        store.set(key, next((text for text in reasons if text), "").encode())
    return _ask(store, key, 0, deadline)


def _ask(store: dist.Store, key: str, rank: int, deadline: float) -> str:
    """What `rank` says in `key`; if it has begun to use gloo, that is the reason."""
    pause = 1e-3
    while not store.check([key]):
        if store.check([f"0/{rank}"]) and not store.check([key]):
            return f"the Python of rank {rank} has no accel_torch (see make install-python)"
        if time.monotonic() >= deadline:
            raise dist.DistStoreError(f"accel: rank {rank} has not come to init_process_group(), or has failed there")
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    return store.get(key).decode()


def _create_gloo(options: Any, keys: str, reason: str) -> dist.ProcessGroup:
    global _is_off
    _is_off = True
    store, rank = options.store, options.group_rank
    has_rank_0 = store.check([f"{keys}/begin"])  # or that has no accel_torch
    if rank == 0 or (not has_rank_0 and store.add(f"{keys}/note", 1) == 1):
        print(f"accel_torch: note: gloo is used in place of accel: {reason}", file=sys.stderr, flush=True)
    size = options.group_size
    gloo = dist.ProcessGroupGloo(store, rank, size, timeout=options.timeout)
    group = getattr(options, "process_group", None)
    if group is None:  # PyTorch 2.4 takes a group of ours in place of its own
        group = dist.ProcessGroup(store, rank, size, dist.ProcessGroup.Options(backend="gloo"))
    # Which is accel's if the program has named none, or that of another device.
    if hasattr(group, "_set_default_backend") and not group._device_types:
        group._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
    group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)
    return group  # type: ignore[no-any-return]
