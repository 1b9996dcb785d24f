#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ranks are killed while they save, disks fail, the power is lost: the newest complete checkpoint loads.
# By hand, for longer: ROUNDS=1000 sh tests/fault/checkpoint_faults.sh
. "${srcdir:-.}/tests/testlib.sh"

faults=$builddir/tests/fault/checkpoint_faults
test_expect_success 'kills at random calls, with fixed seeds' '
    timeout $((patience * 4)) "$faults" kills "${ROUNDS:-30}" "${SEED:-1}" >kills && ! grep "^not ok" kills &&
    test "$(grep -c "^ok" kills)" -eq 2
'
test_expect_success 'each call fails once; each call of a save that replaces a checkpoint is the last' '
    timeout "$patience" "$faults" disk >disk && ! grep "^not ok" disk && test "$(grep -c "^ok" disk)" -eq 4
'
test_expect_success 'the same kills while saves are written in the background' '
    timeout $((patience * 4)) "$faults" kills-async "${ROUNDS:-30}" "${SEED:-1}" >async && ! grep "^not ok" async &&
    test "$(grep -c "^ok" async)" -eq 2
'
test_expect_success 'each call of a save in the background fails once' '
    timeout "$patience" "$faults" disk-async >slow && ! grep "^not ok" slow && test "$(grep -c "^ok" slow)" -eq 2
'
nothing_left
test_done
