#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sharded training with engine mpi: the losses of training without sharding, to 1e-6.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/engines/under_mpirun.sh"
stages=$builddir/tests/unit/train/test_sharding_stages

each=13
! is_long || each=7
# trains RANKS COMMAND...: every 13th combination of ways to shard and to train, or every seventh
trains () {
    ranks=$1
    shift
    under_mpirun "$ranks" "$@" "$stages" job 1 $each >out && cat out &&
        ! grep -v -e ": good$" out && grep "stage 3: .*good" out
}
test_expect_success '2 processes' 'trains 2'
test_expect_success '4 processes on 2 hosts' 'trains 4 ./hosts 2'
is_long && test_expect_success '3 processes on 3 hosts' 'trains 3 ./hosts 1'
test_done
