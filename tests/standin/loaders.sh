#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Loaders copy their batches to the GPU while the program works, and give what they give on the host.
. "${srcdir:-.}/tests/testlib.sh"
subject='batches on GPUs'
. "$srcdir/tests/standin/module.sh"
seeds=$(seq 20)
loaders=$standin/loaders
test_expect_success 'batches are those of the host, in any order of streams' '
    for seed in $seeds; do
        STANDIN_SEED=$seed timeout $patience "$loaders" walk >out && test "$(grep -c "^ok" out)" -eq 20 || return 1
    done'
# walked RANKS SEED...: the same on RANKS ranks, each with its GPU
mkdir both && cp "$module" "$builddir/tests/standin/.libs/accel_engine_nccl.so" both
libs=$(cd "$builddir/tests/standin/.libs" && pwd)
walked () {
    ranks=$1
    shift
    for seed in "$@"; do
        ACCEL_ENGINE_PATH=$scratch/both LD_LIBRARY_PATH=$libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} STANDIN_DEVICES=4 \
            STANDIN_SEED=$seed timeout $patience "$loaders" ranks "$ranks" >out 2>error && grep "^ok 1 " out || return 1
    done
}
test_expect_success 'batches of 2 and 3 ranks are those of the host' 'walked 2 1 && walked 3 2'
is_long && test_expect_success '... of 2, 3 and 4 ranks in 4 orders of streams each' '
    for ranks in 2 3 4; do walked $ranks $(seq 4) || return 1; done'
test_expect_success 'without a wait for the copies, the stand-in finds what is out of order' '
    test_exit 1 env STANDIN_SKIP=cudaStreamWaitEvent ACCEL_ENGINE_PATH="$scratch/both" LD_LIBRARY_PATH="$libs" STANDIN_DEVICES=4 \
        timeout $patience "$loaders" ranks 2 2>error && grep "^standin: .*another stream .*, without an event between them" error'
test_expect_success 'where batches are, and what can be done with them' \
    'timeout $patience "$loaders" rules >out && test "$(grep -c "^ok" out)" -eq 18'
test_expect_success 'several threads use GPUs from the first call on' '
    STANDIN_DEVICES=2 timeout $patience "$loaders" threads >out && test "$(grep -c "^ok" out)" -eq 6'

# failing CALL WORDS: each call of it in turn fails; the message is one line, the same until the end
failing () {
    for turn in 1 2 3 4 5 6 7 8 9; do
        STANDIN_FAIL=$1:$turn:700 timeout $patience "$loaders" fail >out || return 1
        grep "^# accel_" out | sort -u >messages
        if [ -s messages ]; then
            test "$(wc -l <messages)" -eq 1 && grep "^# accel_.*: cuda:0: $1: an illegal memory access" messages || return 1
        else
            grep "^# 11 batches" out || return 1
        fi
        [ "$turn" -gt 1 ] || test -s messages || return 1
    done
}
for call in cudaHostAlloc cudaMemcpyAsync cudaEventRecord cudaStreamWaitEvent cudaEventSynchronize \
    cudaStreamCreateWithFlags cudaEventCreateWithFlags cudaMallocFromPoolAsync; do
    test_expect_success "an error of $call comes back" "failing $call"
done
STANDIN_NO_POOLS=yes
export STANDIN_NO_POOLS
test_expect_success 'batches are those of the host without a pool, too, and errors of cudaMalloc come back' '
    timeout $patience "$loaders" walk >out && failing cudaMalloc'
test_expect_success 'too little memory on the GPU: the batch comes when there is some' '
    for turn in 2 3 4 5; do
        STANDIN_FAIL=cudaMalloc:$turn:2 timeout $patience "$loaders" fail >out &&
            test "$(grep -c "^# accel_loader_next: cannot allocate [0-9]* bytes on the device for field" out)" -eq 1 &&
            grep "^# 11 batches" out || return 1
    done'
unset STANDIN_NO_POOLS
test_expect_success 'too little pinned memory' '
    STANDIN_FAIL=cudaHostAlloc:4:2 timeout $patience "$loaders" fail >out &&
    grep "^# accel_prepare: .*cannot allocate pinned memory for a batch of field .row. (4800 bytes)" out'
test_done
