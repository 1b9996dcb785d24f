#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An engine that starts collectives itself (async/): it has many in flight, which are finished in any order, and each
# failure has its name as with blocking calls.
. "${srcdir:-.}/tests/testlib.sh"
engine=async
. "$srcdir/tests/engines/engine.sh"

test_expect_success '1 process' 'conforms 1 control work'
test_expect_success '2 processes' 'conforms 2 types ${all#types sizes}'
test_expect_success '3 processes' 'conforms 3 work messages groups objects rounds'
if is_long && ! is_sanitized; then
    for n in 2 3 4; do
        test_expect_success "$n processes, everything" 'conforms $n $all large'
    done
fi
# Of each communicator, the engine says what it has seen when it is closed.
test_expect_success 'it has all that was started in flight at once, and groups of starts as one' '
    ASYNC_TRACE=yes launched 2 "$conformance" work 2>trace >out && cat trace &&
    test "$(grep -c "^async: [01] of 2: [1-9][0-9]* groups of at most 12, at most 13 in flight, 0 left$" trace)" = 2'
for suite in objects messages; do # broadcasts from each rank, and messages with each
    test_expect_success "it gets what belongs together as groups: $suite" '
        ASYNC_TRACE=yes launched 3 "$conformance" $suite 2>trace >out && cat trace &&
        test "$(grep -c "^async: [012] of 3: [1-9][0-9]* groups of at most [2-9], .* 0 left$" trace)" = 3'
done
test_expect_success 'a kind that it does not know is unsupported' '
    launched 2 "$builddir/tests/engines/opens" >out && test "$(grep -cx "kind 40: engine async: unknown kind 40" out)" = 2 &&
    test "$(grep -cx "kind 40, started: engine async: unknown kind 40" out)" = 2'

# Scenarios of tests/fault/comm_faults.sh: the victim, how many ranks get the error, and the status of the job.
while read -r scenario victim told status what; do
    test_expect_success "hang: $what" "told $told $victim $status $scenario"
done <<'EOT'
killed-large 1 2 137 a rank is killed in a large transfer
other-count 1 3 0 a rank has another count
group-dies 0 2 137 a member of a group is killed
send-barrier 1 3 0 the receiver of a message waits for all ranks
send-circle 1 3 0 ranks send in a cycle
objects-all-dies 1 2 137 a rank is killed among messages that belong together
work-exits 1 2 7 a rank that has started has ended
work-dies 0 2 137 a rank is killed before it starts
work-killed-large 1 2 137 a rank is killed in a large transfer that was started
work-group-dies 1 2 137 a member of a group is killed that has started
work-closes 2 2 0 a rank has left instead of starting
work-count 1 3 0 work in flight has another count
work-blocks 0 3 0 a rank calls something else than others start
EOT
for how in late work-late set-late; do
    test_expect_success "hang: a rank computes for longer than the timeout ($how)" 'patiently 20000 in_vain $how'
done
if is_long && ! is_sanitized; then
    test_expect_success 'all scenarios' 'unfriendly fault/comm_faults.sh 123 \
        "refused: (RANK=0 WORLD_SIZE=2 LOCAL|ACCEL_ENGINE=nope)|a limit on the size of files"'
fi
test_done
