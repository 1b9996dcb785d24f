# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own tests of torch.distributed, which its wheel has, with accel in place of gloo: not part of `make check`.

  WORLD_SIZE=2 TEMP_DIR=FOLDER python3 pytorch_tests.py [unittest's arguments]
  python3 pytorch_tests.py --file FOLDER/test_c10d_gloo.py [unittest's arguments]

The second form runs a file that the wheel has not, but PyTorch's repository, in test/distributed; FOLDER has its
test_c10d_common.py, too, and is that of the version of PyTorch.  Tests that call ProcessGroupGloo themselves get a
group of accel.

needs the package expecttest.  It prints one line for each test.  --gloo as the first argument: with gloo, to compare.
"""

from __future__ import annotations

import importlib
import os
import sys
import unittest
from datetime import timedelta
from types import SimpleNamespace

os.environ.setdefault("WORLD_SIZE", "2")
os.environ["BACKEND"] = "gloo"  # which tests depend on that
is_gloo = os.environ.setdefault("TESTS_GLOO", "1" if sys.argv[1:2] == ["--gloo"] else "") == "1"
words = [word for word in sys.argv[1:] if word != "--gloo"]

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.testing._internal.common_distributed import MultiProcessTestCase  # noqa: E402
from torch.testing._internal.common_utils import find_free_port  # noqa: E402


def use_accel() -> None:
    """As for ranks that accelerate launch has started."""
    from accel_torch import _plug

    os.environ[_plug.ASKED] = "accel"
    _plug.install()
    _plug._own_reason = lambda rank, size: ""


def be_rank(rank: int, size: int) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(size))
    if not is_gloo:
        use_accel()


# ---- a file ----


class Group:
    """In place of ProcessGroupGloo."""

    _Options = dist.ProcessGroupGloo._Options
    create_device = dist.ProcessGroupGloo.create_device

    def __new__(cls, store: dist.Store, rank: int, size: int, options: object = None, **_more: object) -> object:
        from accel_torch._group import create

        be_rank(rank, size)
        timeout = options if isinstance(options, timedelta) else getattr(options, "_timeout", timedelta(seconds=60))
        asked = SimpleNamespace(store=store, group_rank=rank, group_size=size, timeout=timeout, group_id="")
        asked.global_ranks_in_group = []
        return create(asked)


def make_pypg(case: unittest.TestCase) -> object:
    """For test_c10d_pypg.py, whose own group counts calls."""
    type(case).use_wrapper = True
    is_thread = not hasattr(case, "file_name")  # since PyTorch 2.6, with one rank
    store = dist.HashStore() if is_thread else dist.FileStore(case.file_name, case.world_size)
    return Group(store, case.rank, case.world_size)


def load(path: str) -> object:
    """The tests of a file: their ranks are forks, because those need not load torch, and one port is for all."""
    folder, name = os.path.split(os.path.splitext(path)[0])
    run, start = MultiProcessTestCase.__dict__["_run"].__func__, MultiProcessTestCase._start_processes

    def run_rank(cls: type, rank: int, test_name: str, *more: object, **named: object) -> None:
        be_rank(rank, cls(test_name).world_size)
        run(cls, rank, test_name, *more, **named)

    def start_ranks(case: MultiProcessTestCase, _process: object) -> None:
        os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(find_free_port()))
        start(case, torch.multiprocessing.get_context("fork").Process)

    torch.set_num_threads(1)
    MultiProcessTestCase._run = classmethod(run_rank)
    MultiProcessTestCase._start_processes = start_ranks
    if not is_gloo:
        from accel_torch._backend import AccelProcessGroup

        AccelProcessGroup.create_device = Group.create_device  # which some call, without using what it makes
        dist.ProcessGroupGloo = Group
    sys.path.insert(0, folder)
    module = importlib.import_module(name)
    vars(module).pop("load_tests", None)  # which refuses tests of another file than the program
    if not is_gloo and hasattr(module, "AbstractDDPSingleRank"):
        module.AbstractDDPSingleRank._get_process_group = make_pypg
    return module


# ---- those of the wheel ----


def of_the_wheel() -> None:
    from torch.testing._internal.distributed import distributed_test
    from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

    # torch's profiler does not see the calls of a backend that is not C++
    distributed_test.PROFILING_SUPPORTED_BACKENDS.clear()
    distributed_test.SEND_RECV_PROFILING_SUPPORTED_BACKENDS.clear()

    class TestAccel(TestDistBackend, DistributedTest._DistTestBase):
        def setUp(self) -> None:
            super().setUp()
            os.environ["MASTER_PORT"] = str(find_free_port())  # libaccel's ranks meet there
            self._start_processes(torch.multiprocessing.get_context("fork").Process)
            torch.backends.cudnn.flags(enabled=True, allow_tf32=False).__enter__()

        @classmethod
        def _run(cls, rank: int, test_name: str, file_name: str, pipe: object, **more: object) -> None:
            be_rank(rank, int(os.environ["WORLD_SIZE"]))
            super()._run(rank, test_name, file_name, pipe, **more)

    TestAccel.__qualname__ = "TestAccel"
    globals()["TestAccel"] = TestAccel


if __name__ == "__main__":
    if words[:1] == ["--file"]:
        unittest.main(load(os.path.abspath(words[1])), argv=[sys.argv[0], *words[2:]], verbosity=2)
    else:
        of_the_wheel()
        unittest.main(argv=[sys.argv[0], *words], verbosity=2)
