#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# PyTorch programs through libaccel: a rank that is killed, is stopped or calls something else is named, with the Python
# lines of both sides, and no process stays.  Without a launcher, where one process imports torch for all, each is done
# several times, and at least half of them are named within 2 s.  The long form does TORCH_FAULT_ROUNDS (100) of each.
. "${srcdir:-.}/tests/testlib.sh"
torch_wanted=2.4
. "$srcdir/tests/torch/launched.inc"

drive=$builddir/tests/fault/drive
line='faults.py:[0-9][0-9]*'
waits='\(in\|gave up: .* in\)' # on a busy machine, it may have heard of the death before the launcher looks
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
            grep -q "^    rank 0: $waits accel_comm_[a-z_]* at .*$line" err
        ;;
    exit | raise) # as programs end that do not catch an error
        status=1 && { test "$1" = raise || status=3; } && test_exit $status launch "$@" &&
            grep -q "^accelerate: rank 1 .* exited with status $status$" err &&
            grep -q "^  it was: .* after accel_comm_[a-z_]* at .*$line" err &&
            grep -q "^    rank 0: $waits accel_comm_[a-z_]* at .*$line" err
        ;;
    stop)
        test_exit 1 launch "$@" && grep -q "^accelerate: note: rank 1 .* was stopped by signal 19 .* at .*$line" err &&
            grep -q "rank 0 .*timed out.*rank 1.*stopped by a signal.*at .*$line" err
        ;;
    *)
        test_exit 1 launch "$@" && grep -q "it gave up: .*rank [01] .*at .*$line.*rank [01] .*at .*$line" err
        ;;
    esac
}
faults='kill:all_reduce stop:barrier shape:ddp' rounds=2
if is_long; then
    faults='kill:all_reduce kill:barrier kill:ddp stop:all_reduce stop:barrier stop:ddp shape:all_reduce shape:barrier
        shape:ddp'
    rounds=${TORCH_FAULT_ROUNDS:-100}
fi
test_expect_success 'sys.exit(), in all_reduce' 'strike exit all_reduce && nothing_left'
test_expect_success 'an exception, in ddp' 'strike raise ddp && nothing_left'
for pair in $faults; do
    fault=${pair%:*} call=${pair#*:}
    test_expect_success "$fault, in $call" 'strike "$fault" "$call" && nothing_left'
    test_expect_success "$fault, in $call, $rounds times without a launcher" '
        ACCEL_LIBRARY=$builddir/.libs/libaccel.so timeout $((patience * (1 + rounds / 20))) \
            python3 "$srcdir/tests/torch/faults.py" "$fault" "$call" "$rounds" >out 2>err && nothing_left
    '
    sed "s/^/# /" out
    [ "$fault" = stop ] || continue
    test_expect_success "stop, in $call, $rounds times or more until the launcher names it" '
        timeout $((patience * (1 + rounds / 20))) "$drive" -- python3 "$srcdir/tests/torch/faults.py" named "$call" \
            "$rounds" "$accelerate" launch --cpu --num_processes 2 --main_process_port "$(free_port)" \
            --cpu_backend accel >out 2>err && nothing_left
    '
    sed "s/^/# /" out
done
test_done
