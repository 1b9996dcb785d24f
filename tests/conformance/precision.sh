#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Mixed precision over several ranks: masters, the scaler's agreement, and 16-bit gradients.
. "${srcdir:-.}/tests/testlib.sh"
precision=$builddir/tests/conformance/precision

# ranks COUNT PRECISION CHECK...: that many ranks, all of which must succeed
ranks () {
    count=$1 mode=$2
    shift 2
    timeout $patience "$accelerate" launch --cpu --num_processes "$count" --mixed_precision "$mode" "$precision" "$@"
}

types="float16 bfloat16 float8_e4m3fn float8_e5m2"
for count in 1 2 3 4; do
    test_expect_success "$count ranks: the global batch's numbers, and the same bits again, scaled or not" '
        ranks $count fp16 batch $types >first && ranks $count bf16 batch $types >second &&
            test "$(wc -l <first)" = 8 && cmp first second
    '
    test_expect_success "$count ranks: all ranks get rank 0's master; gradients in float16" '
        ranks $count fp16 prepare $types
    '
    test_expect_success "$count ranks: one has an infinite gradient, and all skip the step" '
        ranks $count fp16 skip
    '
    test_expect_success "$count ranks: after uneven inputs all have one scaler" '
        ranks $count fp16 join
    '
done
test_done
