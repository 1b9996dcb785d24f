#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# PyTorch programs through libaccel: a rank that is killed, is stopped or calls something else is named, with the Python
# lines of both sides, and no process stays.  The long form does each TORCH_FAULT_ROUNDS times (100).
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/torch/launched.inc"

drive=$builddir/tests/fault/drive
line='faults.py:[0-9][0-9]*'
# A stopped rank is killed: it does not see SIGTERM.
launch () {
    timeout $patience "$drive" -- "$accelerate" launch --cpu --num_processes 2 --main_process_port "$(free_port)" \
        --grace 1 --cpu_backend accel "$srcdir/tests/torch/faults.py" "$@" >out 2>err
}
# strike FAULT CALL
strike () {
    case $1 in
    kill)
        test_exit 137 launch "$@" && grep -q '^accelerate: rank 1 .* was killed by signal 9 (SIGKILL)$' err &&
            grep -q "^  it was: .* accel_comm_[a-z_]* at .*$line" err &&
            grep -q "^    rank 0: in accel_comm_[a-z_]* at .*$line" err
        ;;
    stop)
        test_exit 1 launch "$@" && grep -q "rank 0 .*timed out.*rank 1.*stopped by a signal.*at .*$line" err
        ;;
    *)
        test_exit 1 launch "$@" && grep -q "it gave up: .*rank [01] .*at .*$line.*rank [01] .*at .*$line" err
        ;;
    esac
}
rounds=1
! is_long || rounds=${TORCH_FAULT_ROUNDS:-100}
faults='kill:all_reduce stop:barrier shape:ddp'
! is_long || faults='kill:all_reduce kill:barrier kill:ddp stop:all_reduce stop:barrier stop:ddp shape:all_reduce
    shape:barrier shape:ddp'
for pair in $faults; do
    fault=${pair%:*} call=${pair#*:}
    test_expect_success "$fault, in $call" '
        round=0 && while [ "$((round += 1))" -le "$rounds" ]; do strike "$fault" "$call" || return 1; done && nothing_left
    '
done
test_done
