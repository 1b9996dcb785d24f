#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Data that cannot be loaded, on one rank or on all: all ranks get the reason, and none waits for ever.
. "${srcdir:-.}/tests/testlib.sh"
drive=$builddir/tests/fault/drive
faults=$builddir/tests/fault/loader_faults

test_expect_success 'the program lists its scenarios' '"$faults" list >names && test "$(wc -l <names)" -gt 30'
# leaks NAME: whether a sanitizer may look for them.  A thread that hangs in the program's code keeps its reader.
leaks () {
    case $1 in
    *hang) echo detect_leaks=0 ;;
    *) echo detect_leaks=1 ;;
    esac
}
while read -r name; do
    test_expect_success "$name" '
        test_exit 0 env ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}$(leaks "$name")" \
            "$drive" -- "$accelerate" launch --cpu --num_processes 3 "$faults" "$name" >out 2>err &&
        ! grep WRONG out && test "$(grep -c "^rank [0-2]: as expected: " out)" = 3
    '
done <names
test_done
