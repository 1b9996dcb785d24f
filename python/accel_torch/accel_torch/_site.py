# SPDX-License-Identifier: Apache-2.0
"""The line of the program that called torch.distributed: libaccel's messages name it."""

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
