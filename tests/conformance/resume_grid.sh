#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A run that is resumed with another number of processes, passes or samples per batch, or a longer schedule, continues as
# one with these settings that was never interrupted, or is refused.  GRID=all goes through all combinations,
# which takes minutes.
. "${srcdir:-.}/tests/testlib.sh"
program=$builddir/tests/conformance/resume_grid
some=some
[ "${GRID-}" != all ] || some=all

# ranks COUNT STAGE: that many ranks, all of which must succeed
ranks () {
    timeout $patience "$accelerate" launch --quiet --cpu --num_processes "$1" --num_cpu_threads_per_process 1 \
        "$program" "$2" grid "$some"
}

mkdir grid
for count in 1 2 4; do
    test_expect_success "$count ranks: runs without interruption" 'ranks $count whole'
    test_expect_success "$count ranks: runs that are saved" 'ranks $count save'
done
for count in 1 2 4; do
    test_expect_success "resumed on $count ranks: as if never interrupted, or refused" '
        ranks $count resume >out && grep "^[0-9]* cells, 0 wrong" out
    '
    sed -n 's/^[0-9]* cells/# &/p' out
done
test_done
