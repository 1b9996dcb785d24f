#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ranks and launchers are killed while they save, disks fail, the power is lost: the newest complete checkpoint loads.
# By hand, for longer: ROUNDS=1000 SEED=7 sh tests/fault/checkpoint_faults.sh
. "${srcdir:-.}/tests/testlib.sh"

faults=$builddir/tests/fault/checkpoint_faults kills=$builddir/tests/fault/checkpoint_kills
rounds=10 every=${ROUNDS:+all}
! is_long || rounds=30 every=all
rounds=${ROUNDS:-$rounds} seed=${SEED:-1}
# all_good COUNT COMMAND...: COUNT cases, and all of them good; what the run found out is shown
all_good () {
    count=$1 && shift
    timeout $((patience * 4)) "$@" >cases && cat cases && ! grep "^not ok" cases && test "$(grep -c "^ok" cases)" -eq "$count"
}
# what a long run found out
show () { [ -z "${ROUNDS-}" ] || sed 's/^/# /' cases; }

test_expect_success "$rounds kills of ranks at random calls, and losses of power" '
    all_good 3 "$kills" ranks $rounds "$seed"'
show
test_expect_success 'the same while saves are written in the background' '
    all_good 3 "$kills" ranks-async $rounds "$seed"'
show
sharded=${ROUNDS:-5}
! is_long || sharded=${ROUNDS:-100}
test_expect_success "$sharded kills of ranks that write their shares; another number of processes loads them" '
    all_good 3 "$kills" ranks-sharded $sharded "$seed"'
show
test_expect_success 'the same while shares are written in the background' '
    all_good 3 "$kills" ranks-sharded-async $sharded "$seed"'
show
test_expect_success "$rounds kills of launchers at random calls of their ranks; no process is left" '
    all_good 2 "$kills" launcher "$accelerate" $rounds "$seed"'
show
test_expect_success 'each call of a save fails once' 'all_good 2 "$faults" save ${ROUNDS:+all}'
test_expect_success 'each call of a save in the background fails once' 'all_good 2 "$faults" save-async ${ROUNDS:+all}'
test_expect_success 'each call of a load fails once' 'all_good 2 "$faults" load ${ROUNDS:+all}'
test_expect_success 'each call of a save that replaces a checkpoint is the last' 'all_good 3 "$faults" replace $every'
nothing_left
test_done
