# SPDX-License-Identifier: Apache-2.0
"""What a process group says of itself: its names, its options, and what it can do besides collectives.

torch asks some of this of a group, and some of the backend of a device.  Here, both are one object.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

_NAME = "accel"
# Versions of torch before 2.6 have these options in another place.
_Options: Any = getattr(c10d.Backend, "Options", None) or getattr(dist.ProcessGroup, "Options", None)


class Described:
    """Part of a process group."""

    # None of these is asked of torch's own group, which would look for a backend in C++.
    supports_splitting = True
    supports_coalescing = False
    supports_window = False
    supports_reconfigure = False
    supports_shrinking = False
    supports_abort_hooks = False
    supports_completion_hooks = False
    _supports_time_estimate = False
    use_pg_for_symm_mem_rendezvous = False

    def _describe(self, ranks: Sequence[int]) -> None:
        """ranks: of the default group; none: this is the default group"""
        self._name = ""
        self._description = "undefined"
        self._options = _Options(_NAME)
        if hasattr(self._options, "global_ranks_in_group"):
            self._options.global_ranks_in_group = list(ranks)

    @property
    def options(self) -> Any:
        """torch's Backend.Options, for programs to read; set_timeout() changes the timeout."""
        return self._options

    def name(self) -> str:
        return _NAME

    getBackendName = name
    _get_backend_name = name

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = name
        if hasattr(self._options, "group_name"):
            self._options.group_name = name

    _set_group_name = setGroupName
    group_name = property(getGroupName)

    def getGroupDesc(self) -> str:
        return self._description

    def setGroupDesc(self, description: str) -> None:
        self._description = description

    _set_group_desc = setGroupDesc
    group_desc = property(getGroupDesc)

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    # ---- hooks ----

    def register_pre_hook(self, hook_id: int, hook: Any) -> None:
        """Refused, because torch's C++ calls hooks, and calls of a group in Python do not pass there."""
        raise RuntimeError("accel: this process group does not call hooks before or after its collectives")

    register_post_hook = register_pre_hook

    # ---- what torch calls, and what there is nothing to do for ----

    def _has_hooks(self) -> bool:
        return False

    def _wait_for_pending_works(self) -> None:
        pass

    def _enable_collectives_timing(self) -> None:
        pass

    def _set_sequence_number_for_group(self) -> None:
        pass

    def _add_ephemeral_timeout(self, timeout: timedelta) -> None:
        pass

    def eager_connect_single_device(self, device: Any = None) -> None:
        pass

    def perform_nocolor_split(self, device: Any = None) -> None:
        pass
