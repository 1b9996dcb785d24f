#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accel_set_stream() orders what libaccel does on a GPU with what a program does on streams of its own, without waiting.
. "${srcdir:-.}/tests/testlib.sh"
module=$builddir/tests/standin/.libs/accel_device_cuda.so
if [ ! -f "$module" ]; then
    test_skip 'streams of programs' 'needs a C++ compiler and shared libraries'
    test_done
fi
umask 022
mkdir engines && cp "$module" engines
LD_LIBRARY_PATH=$(cd "$builddir/tests/standin/.libs" && pwd)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
ACCEL_ENGINE_PATH=$scratch/engines
export ACCEL_ENGINE_PATH
if is_long; then seeds=$(seq 100); else seeds=$(seq 20); fi

# right NAME N: N tests pass, in any order of streams
right () {
    for seed in $seeds; do
        STANDIN_SEED=$seed timeout $patience "$builddir/tests/standin/streams" "$1" >out &&
            test "$(grep -c ^ok out)" -eq "$2" || return 1
    done
}
test_expect_success 'work of the program and of libaccel is in order on the stream that is set' 'right told 7'
test_expect_success 'without it, the stand-in finds what is out of order' '
    status=0 &&
    { timeout $patience "$builddir/tests/standin/streams" untold >out 2>err || status=$?; } &&
    test "$status" -gt 2 && grep "^standin: .*another stream .*, without an event between them" err'
test_expect_success 'the stream changes without a wait' 'right change 11'
test_expect_success 'a stream for each thread: what several threads queue is in order' 'right threads 2'
seeds=1
STANDIN_DEVICES=2
export STANDIN_DEVICES
test_expect_success 'streams that are refused' 'right refused 11'
test_expect_success 'training on a stream of the program gives the losses and the bits of the CPU' '
    timeout $patience "$builddir/tests/standin/gpu" stream >out && grep -c "^ok" out'
test_done
