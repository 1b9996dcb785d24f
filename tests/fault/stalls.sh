#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ranks that make no progress: the launcher names the right one, and its line, for six bugs; and no others.  The long form
# runs each bug several times.
. "${srcdir:-.}/tests/testlib.sh"
needs_libdw

source=$srcdir/tests/fault/stalls.c
program=$builddir/tests/fault/stalls

ACCEL_STALL_TIMEOUT_MS=1000 # of ranks that no launcher watches
export ACCEL_STALL_TIMEOUT_MS

# has_warning FILE: a whole one.
has_warning () { grep -q 'the job continues' "$1"; }

# start BUG FILE OPTION...: in the background.
start () {
    bug=$1 file=$2
    shift 2
    : >"$file" # now, and not in the background: it may have the warning of an earlier run
    "$accelerate" launch --cpu --num_processes 3 --grace 2 "$@" "$program" "$bug" >"$file" 2>&1 &
    launcher=$!
}
# is_stopped PID...: all of them
is_stopped () {
    for pid in "$@"; do grep -q "^[0-9]* ([^)]*) T" "/proc/$pid/stat" || return 1; done
}
stop () { kill -TERM $launcher && { wait $launcher; test $? = 143; }; }

# run BUG FILE OPTION...: until the warning has come.  On a busy machine there may be one before, of ranks that have not
# even come to accel_open() within a second.
has_later_warning () {
    awk '/^accelerate: (warning|note): / { block = "" } { block = block $0 "\n" }
         /the job continues/ && block !~ /in accel_open\(\)/ { printf "%s", block }' "$1.all" >"$1" && has_warning "$1"
}
run () {
    bug=$1 later=$2
    shift 2
    start "$bug" "$later.all" "$@" --stall_timeout 1 && wait_for has_later_warning "$later" && stop
}

# frame RANK FILE: the innermost line of the program's own in the first warning: "stalls.c:31".
frame () {
    awk -v rank="$1" '/the job continues/ { exit }
         /^  ranks? / { split ($0, part, ":"); found = (part[1] " ") ~ ("[ -]" rank "[ ,-]") }
         found && /^    / && match ($0, /stalls\.c:[0-9]+/) { print substr ($0, RSTART, RLENGTH); exit }' "$2"
}

# On a busy machine, one of the others may have come later than a second.
others='ranks\{0,1\} [02]\(, 2\)\{0,1\} ha[sv]e\{0,1\} been waiting for '

# is_right BUG FILE: the rank, and its line.
is_right () {
    grep -n "BUG $1 \*/" "$source" | cut -d : -f 1 | sed 's/^/stalls.c:/' >"$2.lines"
    case $1 in
    loop)
        grep -q '^accelerate: note: rank 1 has been computing without a call of libaccel for .*, and .* waiting: long work, or an endless loop?$' "$2" &&
            ! grep -q '^  ranks\{0,1\} [02]' "$2" && ! grep -q '^accelerate: warning: rank 1 ' "$2.all"
        ;;
    order) grep -q '^accelerate: warning: all ranks are waiting for each other, for ' "$2" ;;
    *) grep -q "^accelerate: warning: rank 1 has made no progress; $others" "$2" ;;
    esac && ! grep -q "WARNING: " "$2" && frame 1 "$2" >"$2.frame" && test -s "$2.frame" && grep -qxFf "$2.lines" "$2.frame"
}

turns=1
! is_long || turns=5
turns=${TURNS:-$turns}
for bug in skip mutex loop pipe sleep order; do
    ranks=3
    test $bug != order || ranks=2
    test_expect_success "$bug: rank 1 and its line, $turns times of $turns" '
        for turn in $(seq $turns); do
            run $bug $bug --num_processes $ranks && is_right $bug $bug || { cat $bug; return 1; }
        done'
done

test_expect_success 'warnings come after 1, 1, 2 seconds, and the timeout ends the job with the stacks in the report' '
    ACCEL_TIMEOUT_MS=100000 test_exit 1 "$accelerate" launch --cpu --num_processes 3 --stall_timeout 1 --timeout 5 --failure_report json \
        "$program" pipe 2>err >out && cat err && test "$(grep -c "the job continues" err)" -ge 2 &&
    test "$(grep -c "the job continues" err)" -le 3 && grep -q "the next warning comes in 2 s" err &&
    sed -n "/^  the other ranks/,\$ p" err >others && cat others && grep -A 3 "^    rank 1: computing after" others >stack &&
    grep -q "^      [a-z_]*read[a-z0-9.]* (lib[a-z]*)$" stack && grep -q "^      read_batch (stalls.c:" stack &&
    python3 - <<\EOF
import json
stacks = json.load (open ("json"))["failure"]["stacks"]
(rank,) = [rank for rank in stacks if rank["rank"] == 1]
frames = [frame["function"] for frame in rank["stack"]]
assert rank["doing"].startswith ("computing after accel_wait_for_everyone at ") and rank["seconds"] > 4, rank
assert frames.index ("read_batch") < frames.index ("main") and rank["reason"] is None, frames
EOF'
test_expect_success 'a rank that is stopped by a signal is said to be, and goes on' '
    start stop stopped --stall_timeout 1 && wait_for has_warning stopped && cat stopped &&
    grep -q "^accelerate: warning: rank 1 is stopped by a signal, until SIGCONT; ranks 0, 2 have been waiting for " stopped &&
    kill -CONT $(sed -n "s/.*no stack: it is stopped by a signal; process \([0-9]*\): .*/\1/p" stopped | head -n 1) &&
    { wait $launcher; test $? = 0; } && test "$(grep -c done stopped)" = 3'
# Ranks that another process stops get a note, long before a warning.
# is_named FILE [HOW]: rank 1; on a busy machine, the others may not have come to their call yet
is_named () {
    grep -q "^accelerate: note: rank 1 (process [0-9]*) was stopped by signal 19 (SIGSTOP), ${2:-after} accel_[a-z_]* at \
.*stalls\.c:[0-9]*\(; ranks\{0,1\} [02]\(, 2\)\{0,1\} [a-z]* waiting\)\{0,1\}; .kill -CONT [0-9]*. continues it$" "$1"
}
continue_named () {
    kill -CONT "$(sed -n "s/.*kill -CONT \([0-9]*\).*/\1/p" "$1")" && { wait $launcher; test $? = 0; } &&
        test "$(grep -c "done" "$1")" = 3 && ! grep warning "$1"
}
test_expect_success 'a note names a rank that is stopped, and its place' '
    start stop named --stall_timeout 600 && wait_for is_named named && cat named && continue_named named'
test_expect_success 'also if a script has started its program' '
    { "$accelerate" launch --cpu --num_processes 3 --stall_timeout 600 sh -c "\"\$0\" stop; true" "$program" >script 2>&1 & } &&
    launcher=$! && wait_for is_named script && cat script && continue_named script'
# start_sleepers: ranks that do not use libaccel
start_sleepers () {
    rm -f pid.*
    "$accelerate" launch --cpu --num_processes 2 sh -c 'echo $$ >pid.$RANK; exec sleep 3600' >sleepers 2>&1 &
    launcher=$! && await pid.0 pid.1
}
stopped_1='^accelerate: note: rank 1 (process [0-9]*) was stopped by signal 19 (SIGSTOP); .kill -CONT [0-9]*. continues it$'
test_expect_success 'another one says that it continues' '
    start_sleepers && kill -STOP $(cat pid.1) && wait_for grep -q "$stopped_1" sleepers && kill -CONT $(cat pid.1) &&
    wait_for grep -q "^accelerate: note: rank 1 continues, after [0-9.]* s$" sleepers && stop && cat sleepers'
test_expect_success 'no note if the whole job is stopped, as by ^Z; later there is' '
    start_sleepers && kill -TSTP $launcher && wait_for is_stopped $launcher $(cat pid.0 pid.1) && sleep 2 &&
    kill -CONT $launcher && sleep 2 && cat sleepers && ! grep accelerate sleepers && kill -STOP $(cat pid.1) &&
    wait_for grep -q "$stopped_1" sleepers && test "$(wc -l <sleepers)" = 1 && stop && cat sleepers'
test_expect_success 'no warning while all compute, nor with --stall_timeout 0' '
    "$accelerate" launch --cpu --num_processes 3 --stall_timeout 1 "$program" compute >out 2>&1 && cat out &&
    test "$(grep -vc "^done$" out)" = 0 && start pipe never --stall_timeout 0 && sleep 3 && kill -TERM $launcher &&
    { wait $launcher; test $? = 143; } && cat never && ! grep -q warning never'
# has_place FUNCTION: the line after the first note has it, and no other rank's
has_place () {
    test "$(grep -A 1 "^accelerate: note: rank 0 has" out | grep -c "^  rank 0: computing.* for .* s, in $1 (stalls.c:[0-9]*)$")" = 1 &&
        ! grep "^  ranks* [12]" out
}
# is_noted HOW WORK [SECONDS]: rank 0 lets the others wait for five times the timeout, and gets a note and no warning
is_noted () {
    "$accelerate" launch --cpu --num_processes 3 --stall_timeout 1 "$program" "$1" "${3:-5}" >out 2>&1 && cat out &&
        test "$(grep -c "^done$" out)" = 3 && ! grep "accelerate: warning" out &&
        test "$(grep -c "^accelerate: note: rank 0 has been $2 without a call of libaccel for .*, and ranks 1-2 are waiting (.accelerate stacks [0-9a-f]*. shows the stacks, and so does the note after 10 s)$" out)" = 1
}
test_expect_success 'a rank that evaluates alone for five times the timeout gets a note, and no warning' '
    is_noted alone computing && has_place evaluate_alone && ! grep "the job continues" out'
test_expect_success 'also if another thread does, or children of a child' '
    is_noted thread computing && has_place evaluate_in_thread && ! grep "the job continues" out && is_noted children computing && ! grep "the job continues" out'
test_expect_success 'after ten times, a note shows where it is, and no warning comes' '
    is_noted alone computing 13 && test "$(grep -c "the job continues; the next note comes in 10 s" out)" = 1 &&
    test "$(frame 0 out)" && ! grep "^  ranks* 1" out'
test_expect_success 'so does one that waits for a disk, or for a thread that reads' '
    is_noted disk "busy with files" && is_noted files "busy with files" &&
    has_place wait_for_files'
# With the address sanitizer, a rank that is asked for its stack reads 20 KB in one look, which passes for work with files.
if is_sanitized; then
    test_skip 'and one that waits for a GPU' 'with a sanitizer, a rank that is asked for its stack reads files'
else
    test_expect_success 'and one that waits for a GPU' 'is_noted gpu "waiting for a GPU"'
fi
test_expect_success 'the table of a signal has times and the place in the program' '
    start pipe table && sleep 3 && stop && cat table &&
    grep -q "^    rank 1: computing after accel_wait_for_everyone at .*stalls.c:[0-9]* for [2-9].* s, in read_batch (stalls.c:" \
        table && grep -q "^    ranks 0, 2: in accel_wait_for_everyone at .* for [2-9].* s$" table'

# by_themselves RANKS BUG: ranks that no launcher watches, until they have said twice what is wrong.
says_twice () { test "$(grep -c "^WARNING: " themselves)" -ge 2; }
by_themselves () {
    ranks=$1
    : >themselves
    sh "$srcdir/tests/hand.sh" "$ranks" "$(free_port)" "$program" "$2" >themselves 2>&1 &
    starter=$!
    wait_for says_twice && cat themselves && kill $(pgrep -P $starter) && { wait $starter; test $? = 143; }
}
# waits A B WHERE DOING: rank A for rank B
waits () {
    grep -q "^WARNING: \[RANK $1\] rank $1 has been waiting for [0-9]* s in $3 at .*stalls.c:[0-9]*, for rank $2 ($4 at .*stalls.c:[0-9]* \
for [0-9.]* s)$" themselves
}
test_expect_success 'ranks without a launcher say it themselves, the first one of those that wait' '
    by_themselves 3 pipe && waits 0 1 accel_wait_for_everyone "computing after accel_wait_for_everyone" &&
    ! grep "RANK [12]" themselves && by_themselves 2 order &&
    { waits 0 1 accel_comm_recv "in accel_comm_recv" || waits 1 0 accel_comm_recv "in accel_comm_recv"; }'

# More ranks than processors make many short calls, and one of them is stopped for seconds again and again.
calls=200000
! is_long || calls=500000
calls=${CALLS:-$calls}
many () {
    "$accelerate" launch --cpu --num_processes 4 --stall_timeout 5 "$program" many "$1" >calls 2>&1 &&
        test "$(grep -c '^done$' calls)" = 4 && ! grep -q warning calls && grep -q 'SIGSTOP), [a-z]* accel' calls && grep '^stopped for 2 s, [1-9][0-9]* times$' calls
}
test_expect_success "no warning in $calls collectives with stops, under load" 'many $calls'
test_done
