#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Loaders over real ranks: Accelerate's batches, properties of random options, ragged data, resuming in other jobs.
. "${srcdir:-.}/tests/testlib.sh"
loaders=$builddir/tests/conformance/loaders

# ranks COUNT CHECK...: that many ranks, all of which must succeed
ranks () {
    count=$1
    shift
    timeout $patience "$accelerate" launch --cpu --num_processes "$count" "$loaders" "$@"
}

for count in 2 3 4; do
    test_expect_success "$count ranks: dispatched and drawn orders are the original's; rank 0's random numbers count" '
        ranks $count goldens "$srcdir/tests/golden/data.txt"
    '
done
for count in 2 3; do
    test_expect_success "$count ranks: a sampler stays agreed on when one of its loaders has gone" '
        ranks $count shared-sampler
    '
    test_expect_success "$count ranks: loaders that differ are refused on all, with both ranks and values" '
        ranks $count differences
    '
done
for count in 1 2 3 4; do
    test_expect_success "$count ranks: random options give each sample as often as they say, gathered ones once" '
        ranks $count properties $((1000 + count)) 120
    '
    test_expect_success "$count ranks: ragged batches, dispatched too, with and without workers" '
        ranks $count ragged
    '
    test_expect_success "$count ranks: a read that failed on one can be asked for again, and nothing else changes" '
        ranks $count retries
    '
    test_expect_success "$count ranks: epochs without batches count, on all alike" '
        ranks $count epochs
    '
done

# resumed FROM OVER TO: an epoch begun with FROM ranks, continued with OVER, ended with TO
resumed () {
    mkdir -p "state$1$2$3"
    test_expect_success "an epoch over launches of $1, $2, $3 ranks is the uninterrupted one" '
        ranks '"$1 resume begin state$1$2$3"' &&
        ranks '"$2 resume on state$1$2$3"' &&
        ranks '"$3 resume go state$1$2$3"'
    '
}
resumed 3 3 3
resumed 2 3 4
resumed 4 1 2
resumed 1 2 3
resumed 3 2 1
test_done
