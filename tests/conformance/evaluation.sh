#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Data over several ranks: evaluations that leave no trace in training, token files, split_batches said once.
. "${srcdir:-.}/tests/testlib.sh"
program=$builddir/tests/conformance/evaluation

# ranks COUNT CHECK...: that many ranks, all of which must succeed
ranks () {
    count=$1
    shift
    timeout $patience "$accelerate" launch --cpu --num_processes "$count" "$program" "$@"
}

for count in 1 2 3 4; do
    test_expect_success "$count ranks: training with evaluations has the bits of training without" '
        ranks $count evaluations
    '
    test_expect_success "$count ranks: an evaluation over a loader that is to resume; objects that go before its end" '
        ranks $count resumed
    '
    test_expect_success "$count ranks: the generator of an evaluated loader goes before the end" '
        ranks $count released && ranks $count shared
    '
    test_expect_success "$count ranks: an evaluation after a generator has gone; a model that goes and comes back" '
        ranks $count again
    '
    mkdir -p files$count
    test_expect_success "$count ranks: token files are read once by all, in llm.c'\''s order too, and agreed on" '
        ranks $count files files$count
    '
    test_expect_success "$count ranks: split_batches of the job holds for loaders that say nothing else" '
        ranks $count split && ranks $count unsplit
    '
done
test_expect_success '2 ranks: a job whose ranks say different things is refused' 'ranks 2 odd'
test_done
