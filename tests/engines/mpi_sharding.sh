#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sharded training with engine mpi: the losses of training without sharding; in stage 1 the same bits, else to 1e-6.
# In stage 3, layers are gathered while others are computed.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/engines/under_mpirun.sh"
stages=$builddir/tests/unit/train/test_sharding_stages

each=13
! is_long || each=7
# trains RANKS COMMAND...: every 13th combination of ways to shard and to train, or every seventh: all ways, of which
# two have groups, for 4 ranks
trains () {
    ranks=$1 ways=8
    [ "$ranks" != 4 ] || ways=10
    shift
    under_mpirun "$ranks" "$@" "$stages" job 1 $each >out && cat out && ! grep -v -e ": good$" out &&
        sed -n 's/^rank 0, \([^:]*\): .*: good$/\1/p' out | sort -u >names && test "$(grep -c . names)" = $ways
}
test_expect_success '1 process' 'trains 1'
test_expect_success '2 processes' 'trains 2'
test_expect_success '3 processes on 3 hosts' 'trains 3 ./hosts 1'
test_expect_success '4 processes on 2 hosts' 'trains 4 ./hosts 2'

# ahead RANKS COMMAND...: stage 3 gathers layers while others are computed, in three of six rows
ahead () {
    ranks=$1
    shift
    under_mpirun "$ranks" "$@" "$builddir/tests/unit/train/test_layers_ahead" job >out &&
        ! grep -v -e ": good$" out && test "$(grep -c "^rank [0-9], .*: good$" out)" = $((6 * ranks))
}
test_expect_success 'layers are gathered while others are computed: 2 processes' 'ahead 2'
test_expect_success 'layers are gathered while others are computed: 3 processes on 3 hosts' 'ahead 3 ./hosts 1'
test_done
