#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sharded checkpoints are what torch.distributed.checkpoint 2.15 has read: the same files, and, if there is a torch
# (PYTHON=...), it reads them again.
. "${srcdir:-.}/tests/testlib.sh"
python=${PYTHON:-python3} writer=$builddir/tests/unit/checkpoint/test_sharded_state

test_expect_success 'two processes save, one loads and saves in full' '
    timeout $patience "$writer" "$PWD/sharded" "$PWD/full" >out && ! grep "^not ok" out'
test_expect_success 'the files are those that torch has read' '
    (cd sharded && sha256sum model/.metadata model/__0_0.distcp model/__1_0.distcp optimizer/.metadata \
        optimizer/__0_0.distcp optimizer/__1_0.distcp) >sums && cat sums &&
    diff sums "$srcdir/tests/golden/dcp_layout.sums"'
if "$python" -c 'import safetensors, torch' 2>/dev/null; then
    test_expect_success 'torch reads every tensor' '
        timeout $((patience * 4)) "$python" "$srcdir/tests/golden/check_dcp.py" sharded full >out && grep -x "21 tensors" out'
else
    test_skip 'torch reads every tensor' "$python has no torch and safetensors"
fi
test_expect_success 'the command finds the same tensors in both' '
    for name in model optimizer; do
        "$accelerate" inspect --diff sharded/$name full/$name.safetensors >out && test ! -s out || return 1
    done &&
    "$accelerate" inspect --verify sharded'
test_done
