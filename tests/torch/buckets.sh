#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The last bucket of DistributedDataParallel: the call on it waits for its end, but not for long.
. "${srcdir:-.}/tests/testlib.sh"
torch_wanted=2.4
. "$srcdir/tests/torch/launched.inc"

# buckets HOW: on 2 ranks, which give up long before the test does
buckets () {
    timeout "$patience" "$accelerate" launch --cpu --num_processes 2 --main_process_port "$(free_port)" \
        "$srcdir/tests/torch/buckets.py" "$1" >out 2>err && test "$(grep -c "^as expected: $1$" out)" = 2
}
test_expect_success 'the call on the last bucket waits for its end' 'buckets waited'
test_expect_success 'the call on the last bucket does not wait for long' 'buckets late'
test_expect_success 'a bucket is forgotten with its model' 'buckets kept'
test_expect_success 'a compiled model' 'buckets compiled'
test_expect_success 'backward passes that cross on two groups' 'buckets crossed'
test_expect_success 'a message after the last bucket of one rank and before that of the other' 'buckets answered'
test_done
