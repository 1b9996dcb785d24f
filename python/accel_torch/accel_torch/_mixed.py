# SPDX-License-Identifier: Apache-2.0
"""A process group in which libaccel serves the CPU, and other backends serve other devices ("cpu:accel,cuda:nccl").

torch itself makes those backends and the group that has them.  It takes a group in Python as the whole group, whatever
other backends its name has, so this one passes calls on tensors of other devices to torch's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Optional

import torch
import torch.distributed as dist

from ._backend import AccelProcessGroup


def _is_elsewhere(device: Any) -> bool:
    return device is not None and torch.device(device).type != "cpu"


def _has_elsewhere(values: Iterable[Any]) -> bool:
    """Whether the first tensor, also in lists, lies in memory of another device: all of a call lie in one place."""
    for value in values:
        if isinstance(value, torch.Tensor):
            return _is_elsewhere(value.device)
        if isinstance(value, (list, tuple)) and value:
            return _has_elsewhere(value)
    return False


def _by_device(name: str) -> Callable[..., Any]:
    own = getattr(AccelProcessGroup, name)

    def call(self: MixedProcessGroup, *args: Any, **named: Any) -> Any:
        if _has_elsewhere((*args, *named.values())):
            return getattr(self.others, name)(*args, **named)
        return own(self, *args, **named)

    return call


class MixedProcessGroup(AccelProcessGroup):
    """others: torch's group, which has all backends but that of the CPU"""

    others: dist.ProcessGroup

    def join(self, others: dist.ProcessGroup) -> MixedProcessGroup:
        """Whoever makes this group calls this next.  What torch's C++ asks a group for itself, it finds here, too."""
        self.others = others
        types, kind = dist.Backend.backend_type_map, dist.ProcessGroup.BackendType.CUSTOM
        for device in others._device_types:
            backend = others._get_backend(device)
            kind = types.get(backend._get_backend_name(), dist.ProcessGroup.BackendType.CUSTOM)
            self._register_backend(device, kind, backend)
        self._set_default_backend(kind)
        return self

    def _get_backend(self, device: Any) -> Any:
        return self.others._get_backend(torch.device(device)) if _is_elsewhere(device) else self

    get_backend = _get_backend

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu"), *self.others._device_types]

    @property
    def bound_device_id(self) -> Optional[torch.device]:
        return self.others.bound_device_id

    @bound_device_id.setter
    def bound_device_id(self, device: Optional[torch.device]) -> None:
        self.others.bound_device_id = device

    def barrier(self, opts: Any = None, timeout: Any = None) -> dist.Work:
        if opts is not None and _is_elsewhere(getattr(opts, "device", None)):
            return self.others.barrier(opts)
        return super().barrier(opts, timeout)

    def _start_coalescing(self, device: Any = None) -> None:
        (self.others._start_coalescing if _is_elsewhere(device) else super().start_coalescing)(device)

    def _end_coalescing(self, device: Any = None) -> dist.Work:
        return (self.others._end_coalescing if _is_elsewhere(device) else super().end_coalescing)(device)

    def _set_group_name(self, name: str) -> None:
        self.setGroupName(name)
        self.others._set_group_name(name)

    def _set_group_desc(self, description: str) -> None:
        self.setGroupDesc(description)
        self.others._set_group_desc(description)

    def leave(self) -> None:
        if self in self._job.groups:
            self.others.shutdown()
        super().leave()

    def abort(self) -> None:
        self.others.abort()
        super().abort()

    def split_group(
        self, new_ranks: Any, *more: Any, device_types: Optional[Sequence[torch.device]] = None, **named: Any
    ) -> Optional[dist.ProcessGroup]:
        """device_types: those of the new group, of which the others have only some"""
        elsewhere = [device for device in device_types or () if _is_elsewhere(device)]
        if device_types and not elsewhere:
            return super().split_group(new_ranks, *more, kind=AccelProcessGroup, **named)
        if device_types:
            named["device_types"] = elsewhere
        others = self.others.split_group(new_ranks, *more, **named)
        if device_types and len(elsewhere) == len(device_types):
            return others
        made = super().split_group(new_ranks, *more, **named)
        return made.join(others) if isinstance(made, MixedProcessGroup) else None


for _name in (
    "allreduce allreduce_coalesced allreduce_sparse broadcast reduce allgather all_gather_single _allgather_base "
    "all_gather_single_coalesced allgather_into_tensor_coalesced allgather_coalesced gather gather_single "
    "gather_into_tensor scatter reduce_scatter_single _reduce_scatter_base reduce_scatter_single_coalesced "
    "reduce_scatter_tensor_coalesced reduce_scatter all_to_all_single alltoall_base alltoall send recv recv_anysource "
    "recvAnysource"
).split():
    setattr(MixedProcessGroup, _name, _by_device(_name))
