#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The conformance program on every backend, under our launcher, under none, and under Open MPI.
. "${srcdir:-.}/tests/testlib.sh"
program=$builddir/tests/conformance/conformance
ACCEL_TIMEOUT_MS=60000
export ACCEL_TIMEOUT_MS

# by_hand N COMMAND...: N ranks with torchrun's variables and no launcher
by_hand () {
    ranks=$1 pids=
    shift
    for rank in $(seq 0 $((ranks - 1))); do
        RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$ranks LOCAL_WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1 MASTER_PORT=$$ "$@" &
        pids="$pids $!"
    done
    result=0
    for pid in $pids; do
        wait "$pid" || result=1
    done
    return "$result"
}
shared () {
    ls /dev/shm 2>/dev/null
}
shared >before

test_expect_success 'self: 1 process without a launcher' '"$program" | grep "1 ranks, backend self"'
test_expect_success 'self: 1 process under the launcher' '"$accelerate" launch "$program" 2 | grep "1 ranks, backend self"'
for ranks in 2 3 4 7; do
    test_expect_success "shm: $ranks ranks" '
        "$accelerate" launch --cpu --num_processes $ranks "$program" $ranks >out && cat out &&
        grep "$ranks ranks, backend shm" out'
done
test_expect_success 'shm: 1 rank' 'ACCEL_BACKEND=shm "$program" 3 | grep "1 ranks, backend shm"'
test_expect_success 'shm: 3 ranks without our launcher' 'by_hand 3 "$program" 4 >out && cat out && grep "3 ranks, backend shm" out'
if command -v mpirun >/dev/null && mpirun --version | grep -q "Open MPI"; then
    test_expect_success 'shm: 3 ranks under mpirun' '
        mpirun --allow-run-as-root --oversubscribe -n 3 "$program" 5 >out && cat out && grep "3 ranks, backend shm" out'
else
    test_skip 'shm: 3 ranks under mpirun' 'no Open MPI here'
fi
test_expect_success 'ranks that run several programs one after the other' '
    "$accelerate" launch --cpu --num_processes 3 sh -c "\"$builddir/examples/pi\" && \"$builddir/examples/pi\" &&
        \"$builddir/examples/digits\" --epochs 1 --batch_size 63" >out && cat out && test "$(grep -c "^3 processes" out)" = 3'
test_expect_success 'nothing is left in /dev/shm' 'shared | diff before -'
test_done
