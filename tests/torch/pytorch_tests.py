# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own tests of torch.distributed, which its wheel has, with accel in place of gloo: not part of `make check`.

  WORLD_SIZE=2 TEMP_DIR=FOLDER python3 pytorch_tests.py [unittest's arguments]

needs the package expecttest.  It prints one line for each test.  --gloo as the first argument: with gloo, to compare.
"""

from __future__ import annotations

import os
import sys
import unittest

os.environ.setdefault("WORLD_SIZE", "2")
os.environ["BACKEND"] = "gloo"  # which tests depend on that
is_gloo = os.environ.setdefault("TESTS_GLOO", "1" if sys.argv[1:2] == ["--gloo"] else "") == "1"

import torch  # noqa: E402
from torch.testing._internal.common_distributed import MultiProcessTestCase  # noqa: E402
from torch.testing._internal.common_utils import find_free_port  # noqa: E402
from torch.testing._internal.distributed import distributed_test  # noqa: E402
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend  # noqa: E402

for backends in (distributed_test.PROFILING_SUPPORTED_BACKENDS, distributed_test.SEND_RECV_PROFILING_SUPPORTED_BACKENDS):
    backends.clear()  # torch's profiler does not see the calls of a backend that is not C++


def use_accel() -> None:
    """As for ranks that accelerate launch has started."""
    from accel_torch import _plug

    os.environ[_plug.ASKED] = "accel"
    _plug.install()
    _plug._own_reason = lambda rank, size: ""


class TestAccel(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self) -> None:
        super().setUp()
        os.environ["MASTER_PORT"] = str(find_free_port())  # libaccel's ranks meet there
        self._start_processes(torch.multiprocessing.get_context("fork").Process)
        torch.backends.cudnn.flags(enabled=True, allow_tf32=False).__enter__()

    @classmethod
    def _run(cls, rank: int, test_name: str, file_name: str, pipe: object, **more: object) -> None:
        size = os.environ["WORLD_SIZE"]
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=size)
        if not is_gloo:
            use_accel()
        super()._run(rank, test_name, file_name, pipe, **more)


assert issubclass(TestAccel, MultiProcessTestCase)

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *(word for word in sys.argv[1:] if word != "--gloo")], verbosity=2)
