#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The batch size that fits, log lines, the progress bar and the profile, over real ranks.
. "${srcdir:-.}/tests/testlib.sh"
utility=$builddir/tests/conformance/utility

# ranks COUNT CHECK...: their standard error in the file "lines"
ranks () {
    count=$1
    shift
    timeout $patience "$accelerate" launch --quiet --cpu --num_processes "$count" "$utility" "$@" >out 2>lines ||
        { cat lines; return 1; }
}

# count NUMBER TEXT: NUMBER lines are that text
count () {
    [ "$(grep -cxF "$2" lines)" = "$1" ] || { echo "wanted $1 times: $2"; cat lines; return 1; }
}

for number in 1 2 3; do
    test_expect_success "$number ranks: batch sizes shrink as the original's, on all alike" 'ranks $number batch'
done

test_expect_success 'log lines: the main process, all processes, once, in order' '
    ranks 3 log && count 1 "WARNING: [RANK 0] once 1" && ! grep hidden lines &&
    for r in 0 1 2; do count 1 "ERROR: [RANK $r] everybody" || exit 1; done &&
    count 1 "WARNING: [RANK 0] again and again" && count 1 "DEBUG: [RANK 0] shown" &&
    count 1 "INFO: [RANK 0] some" && [ "$(grep -c some lines)" = 1 ]
'
test_expect_success 'in order is in the order of ranks' '
    timeout $patience "$accelerate" launch --quiet --cpu --num_processes 3 \
        sh -c "exec 2>>ordered; exec \"\$0\" log" "$utility" &&
    grep "in turn" ordered >turns &&
    printf "CRITICAL: [RANK %d] in turn\n" 0 1 2 >wanted && diff wanted turns
'
test_expect_success 'ACCELERATE_LOG_LEVEL in any case' '
    ACCELERATE_LOG_LEVEL=info ranks 2 log && count 1 "INFO: [RANK 0] hidden" &&
    ACCELERATE_LOG_LEVEL=ERROR ranks 2 log && ! grep WARNING lines && ACCELERATE_LOG_LEVEL= ranks 2 log
'
test_expect_success 'an invalid level is refused' '
    ! ACCELERATE_LOG_LEVEL=loud ranks 1 log && grep "ACCELERATE_LOG_LEVEL=.loud. is invalid" lines
'

test_expect_success 'progress elsewhere than on a terminal: lines of local rank 0 only' '
    ranks 3 progress && [ "$(wc -l <lines)" = 1 ] && grep "^two lines: 100% |#*| 50/50 \[[0-9:]*<00:00, .*/s]\$" lines
'
test_expect_success 'progress without a total' '
    ranks 2 progress unknown && [ "$(wc -l <lines)" = 1 ] && grep "^two lines: 50 \[[0-9:]*, .*/s]\$" lines
'
if ! command -v python3 >/dev/null; then
    test_skip 'progress on a terminal' 'no python3'
elif ! python3 -c 'import pty; pty.openpty()' 2>/dev/null; then
    test_skip 'progress on a terminal' 'no pseudo-terminals'
else
    test_expect_success 'progress on a terminal: redrawn in place, never wider than the terminal' '
        timeout $patience python3 "$srcdir/tests/conformance/utility_terminal.py" "$utility" progress
    '
fi

test_expect_success 'a trace that cannot be written is an error on all ranks, and the job continues' '
    ranks 3 unwritable && ! ls | grep json
'
if ! command -v python3 >/dev/null; then
    skip_rest 'no python3'
fi
for number in 1 2 3; do
    test_expect_success "$number ranks: the trace is Chrome's, whole, and nests" '
        ranks $number profile trace.json &&
        python3 "$srcdir/tests/conformance/utility_trace.py" whole $number trace.json
    '
done
test_expect_success 'what finds no room is counted' '
    ranks 2 bounded bounded.json && python3 "$srcdir/tests/conformance/utility_trace.py" bounded 2 bounded.json
'
test_done
