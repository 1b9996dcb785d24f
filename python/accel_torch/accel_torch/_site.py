# SPDX-License-Identifier: Apache-2.0
"""Who called: the line of the program that called torch.distributed, which libaccel's messages name, or torch's C++."""

from __future__ import annotations

import os
import sys
from typing import Optional

import torch

_OURS = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(__file__) + os.sep)

# Names of source files as libaccel gets them, which keeps the pointers; None: a file of torch or of this package.
_files: dict[str, Optional[bytes]] = {}


def _learn(name: str) -> Optional[bytes]:
    ours = name.startswith((*_OURS, "<"))
    _files[name] = None if ours else os.fsencode(name)
    return _files[name]


def call_site() -> tuple[bytes, int]:
    """File and line of the innermost frame that belongs neither to torch nor to this package."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        try:
            file = _files[name]
        except KeyError:
            file = _learn(name)
        if file is not None:
            return file, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return b"python", 0


_BACKWARD = torch.autograd.graph._engine_run_backward.__code__


def is_backward_pass() -> bool:
    """Whether C++ code of a backward pass has called this package, such as DDP's reducer: no hook of the program."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None and frame.f_code is _BACKWARD
