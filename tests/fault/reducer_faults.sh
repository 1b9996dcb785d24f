#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A rank dies, fails, forgets, hangs or makes a NaN in its backward pass, with buckets under way: the others get an error in time.
. "${srcdir:-.}/tests/testlib.sh"
drive=$builddir/tests/fault/drive
faults=$builddir/tests/fault/reducer_faults

# ends STATUS TOLD NAME: the launcher's status; TOLD ranks get the right error, none gets another
ends () {
    test_exit "$1" "$drive" -- "$accelerate" launch --cpu --num_processes 3 "$faults" "$3" >out 2>err &&
    ! grep WRONG out && test "$(grep -c "^rank [0-2]: as expected" out)" = "$2" && nothing_left
}

# scenario STATUS TOLD NAME...
scenario () {
    status=$1 told=$2
    shift 2
    for name; do
        test_expect_success "$name" "ends $status $told $name"
    done
}

scenario 137 2 dies-before dies-in-flight dies-in-flight-early dies-half dies-power-sgd dies-no-thread
test_expect_success 'hangs' 'patiently 20000 ends 0 2 hangs'
scenario 0 3 fails fails-no-thread forgets spoils spoils-unreported
test_done
