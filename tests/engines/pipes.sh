#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An engine from outside (pipes/), loaded by name: it passes the conformance tests, and each kind of hang has its name.
. "${srcdir:-.}/tests/testlib.sh"
engine=pipes
. "$srcdir/tests/engines/engine.sh"

test_expect_success 'it has at most 300 lines, and includes accel/engine.h and the C library' '
    test "$(cat "$srcdir"/tests/engines/pipes/*.c | wc -l)" -le 300 &&
    ! grep "^#include" "$srcdir"/tests/engines/pipes/*.c | grep -v "<[a-z/]*\.h>" | grep . &&
    test "$(grep -c "^#include <accel/" "$srcdir"/tests/engines/pipes/pipes.c)" = 1'
test_expect_success 'it needs nothing of libaccel' '! nm -D -u "$module" | grep " accel_"'
test_expect_success '1 process' 'conforms 1 control work'
test_expect_success '2 processes' 'conforms 2 $all'
test_expect_success '3 processes' 'conforms 3 mixture control messages groups work'
test_expect_success '4 processes' 'conforms 4 control messages'
if is_long && ! is_sanitized; then
    for n in 1 2 3 4; do
        test_expect_success "$n processes, everything" 'conforms $n $all large'
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

# Scenarios of tests/fault/comm_faults.sh: the victim, how many ranks get the error, and the status of the job.
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
test_expect_success 'hang: a rank computes for longer than the timeout' 'patiently 20000 in_vain late'
test_expect_success 'a kind that it does not know is unsupported' '
    launched 2 "$builddir/tests/engines/opens" >out && test "$(grep -cx "kind 40: engine pipes: unknown kind 40" out)" = 2'
test_expect_success 'so is another timeout' '
    test "$(grep -cx "timeout: accel_comm_set_timeout: engine pipes cannot change it: pass timeout_ms to accel_open" out)" = 2'

# A stranger finds the sockets at which ranks listen, and connects before the other rank does.  It ends when no process can
# write to its stdin any more; with 9<&- the shell itself would keep a copy of hold.
visited () {
    mkfifo hold && exec 9<>hold &&
    { launched 2 "$builddir/tests/engines/opens" "$scratch/go" >out & } && job=$! &&
    { (exec 9<&- && as_nobody "$builddir/tests/engines/stranger" accel-pipes-) <hold >said & } && stranger=$! &&
    await said && : >go &&
    wait $job && grep "connected to [1-9]" said && test "$(grep -cx "sum is 6" out)" = 2 && exec 9<&- &&
    wait $stranger
}
if [ "$(id -u)" = 0 ]; then
    test_expect_success 'another user who connects is not taken for a rank' visited
else
    test_skip 'another user who connects is not taken for a rank' 'needs root, to become another user'
fi

if is_long && ! is_sanitized; then
    test_expect_success 'all scenarios' 'unfriendly fault/comm_faults.sh 123 \
        "refused: (RANK=0 WORLD_SIZE=2 LOCAL|ACCEL_ENGINE=nope)|a limit on the size of files"'
fi
test_done
