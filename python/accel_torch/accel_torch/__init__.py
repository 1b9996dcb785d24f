# SPDX-License-Identifier: Apache-2.0
"""torch.distributed on libaccel.

The backend "accel" moves tensors in host memory through shared memory, or through MPI between hosts:

    import accel_torch
    torch.distributed.init_process_group("accel")

torch itself imports this package (entry point group torch.backends), so the first line is needed only with versions of
torch that do not, which are those before 2.5.
"""

from __future__ import annotations

import torch.distributed as dist

from ._library import AccelError, LibraryMissing

__all__ = ["AccelError", "LibraryMissing"]


def _create(options: object, unused: object) -> dist.ProcessGroup:
    from ._plug import create

    return create(options, unused)


def _register() -> None:
    if "accel" not in dist.Backend.backend_list:
        dist.Backend.register_backend("accel", _create, extended_api=True, devices=["cpu"])
        # torch's flight recorder is for groups that are C++; libaccel has its own (accelerate stacks, reports).
        recording: set[str] = getattr(dist.distributed_c10d, "_FR_SELF_RECORDING_BACKENDS", set())
        recording.add("accel")


def _autoload() -> None:
    """Called by torch when it is imported, and below, as versions before 2.5 do not."""
    _register()
    try:
        from . import _plug
    except ImportError:
        return
    _plug.install()


_autoload()
