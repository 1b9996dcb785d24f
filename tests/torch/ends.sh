#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Process groups of accel with calls in flight: when they end, nothing is lost, and nobody waits for what cannot come.
. "${srcdir:-.}/tests/testlib.sh"
torch_wanted=2.4
. "$srcdir/tests/torch/launched.inc"

# ends HOW: on 2 ranks
ends () {
    timeout "$patience" "$accelerate" launch --cpu --num_processes 2 --main_process_port "$(free_port)" \
        "$srcdir/tests/torch/ends.py" "$1" >out 2>err && test "$(grep -c "^as expected: $1$" out)" = 2
}
test_expect_success 'work has its outcome after its group was destroyed, and a second group begins' 'ends destroyed'
test_expect_success 'a group that was not shut down ends when the next one begins' 'ends replaced'
test_expect_success 'a child of fork() gets errors' 'ends forked'
test_expect_success 'gradients in buckets of shared memory outlive their group' 'ends kept'
test_expect_success 'a message that is never sent keeps no rank from leaving' 'ends unsent'
test_expect_success 'a call that has timed out keeps nobody from leaving' 'ends timed_out'
test_expect_success 'a group with a longer timeout waits longer' 'ends longer'
test_expect_success 'monitored_barrier() does not need the store of a rank that has passed it' 'ends monitored'
test_expect_success 'a program ends with a call in flight' 'ends left && ! grep Traceback err'
test_expect_success 'abort() while another thread is in a call' 'ends aborted'
. "$srcdir/tests/engines/under_mpirun.sh"
test_expect_success 'engine mpi: starts wait for no other rank' '
    under_mpirun 2 env MASTER_ADDR=127.0.0.1 MASTER_PORT="$(free_port)" \
        python3 "$srcdir/tests/torch/ends.py" starts >out 2>err && test "$(grep -c "^as expected: starts$" out)" = 2
'
test_done
