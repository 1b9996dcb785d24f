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
port=$(free_port)
test_expect_success 'ranks started by hand' '
    by_hand 3 $port timeout $patience "$conformance" mixture control >out && grep "^pipes, 3 ranks: " out'

# trained N: digits on N ranks, with the same losses and weights as with the built-in engine.
trained () {
    launched "$1" "$builddir/examples/digits" --epochs 3 --seed 1 --batch_size 60 >pipes.out &&
    ACCEL_ENGINE='' launched "$1" "$builddir/examples/digits" --epochs 3 --seed 1 --batch_size 60 >built_in.out &&
    sed "\$d" pipes.out >a && sed "\$d" built_in.out >b && test -s a && diff a b
}
for n in 1 2 3 4; do
    test $n -lt 3 || is_long || continue
    test_expect_success "examples/digits: $n processes train as with the built-in engine" 'trained $n'
done

# ---- each kind of hang has its name: the scenarios of tests/fault/comm_faults.sh ----

# told N VICTIM STATUS SCENARIO: N ranks are told the right thing, and none anything else
told () {
    test_exit "$3" "$builddir/tests/fault/drive" -- "$accelerate" launch --cpu --num_processes 3 \
        "$builddir/tests/fault/comm_faults" "$4" "$2" >out 2>err &&
    ! grep WRONG out && test "$(grep -c "^rank [0-9]*: as expected" out)" = "$1" && nothing_left
}
while read -r scenario victim told status what; do
    test_expect_success "hang: $what" "told $told $victim $status $scenario"
done <<'EOT'
exits 1 2 7 a rank has ended
killed-large 1 2 137 a rank is killed in a large transfer
closes 0 2 0 a rank has left
other-call 1 3 0 a rank calls something else
other-name 1 3 0 a rank calls another function of the same kind
other-count 1 3 0 a rank has another count
other-dtype 1 3 0 a rank has another type
other-op 1 3 0 a rank reduces otherwise
other-root 1 3 0 a rank has another root
other-size 1 3 0 a rank has another shape
group-dies 0 2 137 a member of a group is killed
group-count 1 3 0 members of a group have other counts
send-dies 1 2 137 the receiver of a message is killed
recv-closes 0 2 0 the sender of a message has left
recv-count 1 3 0 a message of another length
send-barrier 1 3 0 the receiver of a message waits for all ranks
send-circle 1 3 0 ranks send in a cycle
work-count 1 3 0 work in flight has another count
EOT
in_vain () { told 2 1 0 late; }
test_expect_success 'hang: a rank computes for longer than the timeout' 'patiently 20000 in_vain'
if is_long; then
    test_expect_success 'all scenarios' '
        { TEST_ENGINE=pipes TEST_ENGINE_PATH=$scratch/engines sh "$srcdir/tests/fault/comm_faults.sh" >said || :; } &&
        test "$(grep -c "^ok" said)" -gt 130 &&
        ! grep "^not ok" said | grep -vE "refused: (RANK=0 WORLD_SIZE=2 LOCAL|ACCEL_BACKEND=nope)|a limit on the size of files"'
fi
test_done
