#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Training over several ranks: prepare, backward, loaders and gather_for_metrics.
. "${srcdir:-.}/tests/testlib.sh"
training=$builddir/tests/conformance/training

# ranks COUNT CHECK...: that many ranks, all of which must succeed
ranks () {
    count=$1
    shift
    timeout $patience "$accelerate" launch --cpu --num_processes "$count" "$training" "$@" >out
}

for count in 1 2 3 4; do
    test_expect_success "$count ranks: prepare copies rank 0's parameters, backward averages to the bit" '
        ranks $count average
    '
    test_expect_success "$count ranks: parameter groups and their schedules, as one process alone has them" '
        ranks $count groups
    '
    test_expect_success "$count ranks: ranks that run out of data shadow the others" '
        ranks $count join && ranks $count lengths
    '
    test_expect_success "$count ranks: gather_for_metrics has each sample once" '
        ranks $count metrics
    '
done

# difference KIND TEXT: each of 3 ranks gets the text for that kind of difference, which the highest rank has
difference () {
    test_expect_success "models that differ: $1" '
        ranks 3 difference '"$1"' && cat out && [ "$(grep -cF "$wanted" out)" = 3 ]
    '
}
wanted="parameter 1: rank 0 has 'matrix' [3, 4] float32, rank 2 has 'matrixx' [3, 4] float32"
difference name
wanted="parameter 1: rank 0 has 'matrix' [3, 4] float32, rank 2 has 'matrix' [4, 3] float32"
difference shape
wanted="parameter 1: rank 0 has 'matrix' [3, 4] float32, rank 2 has 'matrix' [3, 4] float32, not trained"
difference trained
wanted="parameter 1: rank 0 has 'matrix' [3, 4] float32, rank 2 has 'matrix' [3, 4] bfloat16, gradient float32"
difference dtype
wanted="parameter 1: rank 0 has 'matrix' [3, 4] float32, rank 2 has 'matrix' [3, 4] float32, gradient bfloat16"
difference gradient
wanted="parameter 1: rank 0 has 'matrix' [3, 4] float32, rank 2 has 'matrix' [3, 4] float32, with gradient memory"
difference memory
wanted="parameter 1: rank 0 has 'matrix' [3, 4] float32, rank 2 has nothing"
difference fewer
wanted="parameter 1: rank 0 has nothing, rank 2 has 'matrix' [3, 4] float32"
difference more

for count in 2 4; do
    test_expect_success "$count ranks: a backward pass that fails on one of them" '
        ranks $count failure && cat out
    '
done
test_done
