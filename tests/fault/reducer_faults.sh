#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A rank dies, fails, forgets or hangs in its backward pass, with buckets under way: the others are told, in time.
. "${srcdir:-.}/tests/testlib.sh"
drive=$builddir/tests/fault/drive
faults=$builddir/tests/fault/reducer_faults

# scenario TOLD NAME...: so many ranks are told the right thing, none anything else, and nothing remains
scenario () {
    told=$1
    shift
    for name; do
        test_expect_success "$name" '
            "$drive" -- "$accelerate" launch --cpu --num_processes 3 "$faults" '"$name"' >out 2>err
            cat out err; ! grep WRONG out && test "$(grep -c "as expected" out)" = '"$told"'
        '
    done
}

scenario 2 dies-before dies-in-flight dies-in-flight-early dies-half dies-power-sgd dies-no-thread hangs
scenario 3 fails fails-no-thread forgets
test_done
