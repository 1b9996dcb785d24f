#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Gradient accumulation, passes that send nothing and local SGD over several ranks, against the same job computed alone.
. "${srcdir:-.}/tests/testlib.sh"
program=$builddir/tests/conformance/accumulate

# ranks COUNT CHECK: that many ranks, all of which must succeed
ranks () {
    timeout $patience "$accelerate" launch --cpu --num_processes "$1" "$program" "$2"
}

for count in 1 2 3 4; do
    test_expect_success "$count ranks: accumulated steps are those of the global batch" '
        ranks $count even
    '
    test_expect_success "$count ranks: sync_each_batch averages in every pass, and steps are the same" '
        ranks $count each
    '
    test_expect_success "$count ranks: no_sync and trigger_sync_in_backward" '
        ranks $count no_sync
    '
    test_expect_success "$count ranks: local SGD" '
        ranks $count local_sgd
    '
    test_expect_success "$count ranks: ranks that run out of data, while accumulating" '
        ranks $count join
    '
done
test_done
