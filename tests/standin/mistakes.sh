#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the stand-in for the CUDA runtime has to find: programs with a mistake each (planted.cc).
. "${srcdir:-.}/tests/testlib.sh"
planted=$builddir/tests/standin/planted
if [ ! -x "$planted" ]; then
    skip_rest 'needs a C++ compiler'
fi
STANDIN_DEVICES=2
export STANDIN_DEVICES

test_expect_success 'a program without a mistake is right, in each of three orders' '
    for seed in 1 2 3; do STANDIN_SEED=$seed timeout $patience "$planted" none 5 || return 1; done'

# found MISTAKE WORDS: it is reported in these words, with the places of the calls
found () {
    status=0
    timeout $patience "$planted" "$1" >out 2>error || status=$?
    test "$status" -gt 2 && grep "^standin: .*$2" error && { test $# = 3 || grep "^standin:   now: " error; }
}
# killed MISTAKE: before it knows whether the result is right
killed () {
    status=0
    timeout $patience "$planted" "$1" >out 2>&1 || status=$?
    test "$status" -ne 0 && ! grep "^$1: " out
}
# wrong MISTAKE: the result is not right
wrong () {
    test_exit 1 timeout $patience "$planted" "$1" >out && grep "^$1: wrong" out
}
test_expect_success 'a barrier that some threads do not reach' \
    'found divergent "sum_kernel<1>: __syncthreads() by 255 of the 256 threads" no-place'
test_expect_success 'memory of another device' 'found other-device "stream of device 0 uses memory of device 1"'
test_expect_success 'a copy that is longer than the memory' 'found copy-beyond "3076 bytes from byte 0 of an allocation of 3072"'
test_expect_success 'a copy to the host that says it is one to the device' 'found host-as-device "which is not on the device"'
test_expect_success 'two streams without an event: reading what is written' \
    'found no-event "sum_kernel<0> uses memory that another stream writes, without an event"'
test_expect_success 'two streams without an event: writing what is read' \
    'found overwritten "writes memory that another stream reads, without an event"'
test_expect_success 'use after free' 'found freed "memory that was freed; allocated and freed at" && grep "then: " error'
test_expect_success 'freeing twice' 'found freed-twice "freed twice"'
test_expect_success 'a kernel that gets an address of the host' 'found host-pointer "which is not an address of the device"'
test_expect_success 'a stream that was destroyed' 'found destroyed "a stream is used after it was destroyed"'
test_expect_success 'an event that was destroyed' 'found event-destroyed "an event is used after it was destroyed"'
test_expect_success 'the host reads device memory, or writes there' 'killed touched && killed changed'
test_expect_success 'the host changes what is still to be copied' 'wrong reuse'
test_expect_success 'the host reads a result before it is there' 'wrong no-wait'
if ! is_sanitized; then
    test_expect_success 'threads that do not wait for each other' 'wrong no-barrier'
    test_expect_success 'shared memory that was never written' 'wrong unwritten'
fi
# An error of the n-th call of a function comes back from it.
injected () {
    test_exit 2 env STANDIN_FAIL="$1" timeout $patience "$planted" none >out && grep "$2" out
}
test_expect_success 'calls fail that are to fail' '
    injected cudaMalloc:2:2 "error 2: out of memory" && injected cudaMemcpyAsync:1:700 "error 700: an illegal" &&
    injected cudaLaunchKernel:3 "error 999: unknown error" && ! injected cudaMalloc:1000 "error"'
test_done
