#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sharded training with engine mpi: the losses of training without sharding, to 1e-6.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/engines/under_mpirun.sh"
stages=$builddir/tests/unit/train/test_sharding_stages

each=12
! is_long || each=4
# trains RANKS FIRST COMMAND...: every twelfth combination of ways to shard and to train, or every fourth
trains () {
    ranks=$1 first=$2
    shift 2
    under_mpirun "$ranks" "$@" "$stages" job "$first" $each >out && cat out &&
        ! grep -v -e ": good$" out && grep "stage 3: .*good" out
}
for first in 0 1 2 3; do
    [ $first = 1 ] || is_long || continue
    test_expect_success "2 processes, combinations from $first" 'trains 2 $first'
    test_expect_success "4 processes on 2 hosts, combinations from $first" 'trains 4 $first ./hosts 2'
    is_long || continue
    test_expect_success "3 processes on 3 hosts, combinations from $first" 'trains 3 $first ./hosts 1'
done
test_done
