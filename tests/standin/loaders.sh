#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Loaders copy their batches to the GPU while the program works, and give what they give on the host.
. "${srcdir:-.}/tests/testlib.sh"
module=$builddir/tests/standin/.libs/accel_device_cuda.so
if [ ! -f "$module" ]; then
    test_skip 'batches on GPUs' 'needs a C++ compiler and shared libraries'
    test_done
fi
umask 022
mkdir engines && cp "$module" engines
ACCEL_ENGINE_PATH=$scratch/engines
export ACCEL_ENGINE_PATH
if is_long; then seeds=$(seq 100); else seeds=$(seq 20); fi
test_expect_success 'batches are those of the host, in any order of streams' '
    for seed in $seeds; do
        STANDIN_SEED=$seed timeout $patience "$builddir/tests/standin/loaders" walk >out &&
            test "$(grep -c "^ok" out)" -eq 20 || return 1
    done'
test_done
