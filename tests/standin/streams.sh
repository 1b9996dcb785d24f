#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accel_set_stream() orders what libaccel does on a GPU with what a program does on streams of its own, without waiting.
. "${srcdir:-.}/tests/testlib.sh"
subject='streams of programs'
. "$srcdir/tests/standin/module.sh"
seeds=$(seq 20)

# right NAME N: N tests pass, in any order of streams
right () {
    for seed in $seeds; do
        STANDIN_SEED=$seed timeout $patience "$standin/streams" "$1" >out &&
            test "$(grep -c ^ok out)" -eq "$2" || return 1
    done
}
test_expect_success 'work of the program and of libaccel is in order on the stream that is set' 'right told 8'
test_expect_success 'without it, the stand-in finds what is out of order' '
    status=0 &&
    { timeout $patience "$standin/streams" untold >out 2>err || status=$?; } &&
    test "$status" -gt 2 && grep "^standin: .*another stream .*, without an event between them" err'
test_expect_success 'the stream changes without a wait' 'right change 11'
test_expect_success 'a stream for each thread: what several threads queue is in order' 'right threads 2'
test_expect_success 'memory of the pool is freed in order, used again, and given back before there is too little' '
    STANDIN_BYTES=1000000 right pool 12'
test_expect_success 'copies on a stream of their own: in order, and over when the stream ends' 'right copies 3'
test_expect_success 'work beside the stream of the program' 'right aside 2'
test_expect_success 'without order between streams, the stand-in finds memory that is freed while it is used' '
    status=0 && { timeout $patience "$standin/streams" freed >out 2>err || status=$?; } && test "$status" -gt 2 &&
    grep "^standin: cudaFreeAsync() uses memory that another stream writes, without an event between them" err'
test_expect_success 'copies between GPUs: each comes after what either has queued, and the host waits for none' '
    STANDIN_DEVICES=2 right peers 7'
seeds=1
STANDIN_DEVICES=2
export STANDIN_DEVICES
test_expect_success 'streams that are refused' 'right refused 11'
test_expect_success 'training on a stream of the program gives the losses and the bits of the CPU' '
    timeout $patience "$standin/gpu" stream >out && grep -c "^ok" out'
test_done
