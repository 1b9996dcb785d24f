# SPDX-License-Identifier: Apache-2.0
"""What torch's element types and reductions are in libaccel."""

from __future__ import annotations

import torch
import torch.distributed as dist

# enum accel_dtype
DTYPES: dict[torch.dtype, int] = {
    torch.float32: 0,
    torch.float64: 1,
    torch.float16: 2,
    torch.bfloat16: 3,
    torch.int8: 4,
    torch.uint8: 5,
    torch.int32: 6,
    torch.int64: 7,
    torch.bool: 8,
    torch.float8_e4m3fn: 9,
    torch.float8_e5m2: 10,
}
UINT8 = DTYPES[torch.uint8]
INT64 = DTYPES[torch.int64]
REDUCIBLE = {dtype: number for dtype, number in DTYPES.items() if number < 9}

# enum accel_op, by torch's
OPS: dict[dist.ReduceOp.RedOpType, int] = {
    dist.ReduceOp.RedOpType.SUM: 0,
    dist.ReduceOp.RedOpType.AVG: 1,
    dist.ReduceOp.RedOpType.MIN: 2,
    dist.ReduceOp.RedOpType.MAX: 3,
    dist.ReduceOp.RedOpType.PRODUCT: 4,
}
# The same by hash(), which torch's ReduceOp has in common with its members: comparing them takes ten times as long.
NUMBERS = {hash(op): number for op, number in OPS.items()}
SUM = 0
MAX = 3

# Reductions that libaccel does not have: they are computed from the gathered tensors of all ranks.
BITWISE = {
    dist.ReduceOp.RedOpType.BAND: torch.Tensor.bitwise_and_,
    dist.ReduceOp.RedOpType.BOR: torch.Tensor.bitwise_or_,
    dist.ReduceOp.RedOpType.BXOR: torch.Tensor.bitwise_xor_,
}
