#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An engine from outside (pipes/), loaded by name: it passes the conformance tests, and each kind of hang has its name.
. "${srcdir:-.}/tests/testlib.sh"
conformance=$builddir/tests/conformance/conformance
module=$builddir/tests/engines/pipes/.libs/accel_engine_pipes.so
all="types sizes mixture tensors control arguments memory random objects trees messages groups rounds"
if [ ! -f "$module" ]; then
    test_skip 'engine pipes' 'no shared libraries in this build'
    test_done
fi
umask 022
mkdir engines && cp "$module" engines
ACCEL_ENGINE=pipes ACCEL_ENGINE_PATH=$scratch/engines
export ACCEL_ENGINE ACCEL_ENGINE_PATH

# launched N COMMAND...
launched () {
    processes=$1
    shift
    timeout $patience "$accelerate" launch --quiet --cpu --num_processes "$processes" "$@"
}

test_expect_success 'it has at most 300 lines, and includes accel/engine.h and the C library' '
    test "$(cat "$srcdir"/tests/engines/pipes/*.c | wc -l)" -le 300 &&
    ! grep "^#include" "$srcdir"/tests/engines/pipes/*.c | grep -v "<[a-z/]*\.h>" | grep . &&
    test "$(grep -c "^#include <accel/" "$srcdir"/tests/engines/pipes/pipes.c)" = 1'
test_expect_success 'it needs nothing of libaccel' '! nm -D -u "$module" | grep " accel_"'
test_expect_success '1 process' 'launched 1 "$conformance" $all >out && grep "^pipes, 1 ranks: " out'
test_expect_success '2 processes' 'launched 2 "$conformance" $all >out && grep "^pipes, 2 ranks: " out && nothing_left'
test_expect_success '3 processes' 'launched 3 "$conformance" mixture tensors control messages groups rounds >out &&
    grep "^pipes, 3 ranks: " out && nothing_left'
if is_long; then
    for n in 3 4 5; do
        test_expect_success "$n processes, everything" 'launched $n "$conformance" $all large && nothing_left'
    done
fi
one=$(free_port)
test_expect_success 'ranks started by hand' 'by_hand 3 $one timeout $patience "$conformance" mixture control >out && grep "^pipes, 3 ranks: " out'
test_done
