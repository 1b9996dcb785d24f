#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate ps: running jobs are listed, whoever has started them, with the step that they are in.
. "${srcdir:-.}/tests/testlib.sh"

# begin ARGUMENTS...: launch ranks in the background; sets $launcher
begin () {
    rm -f out
    "$accelerate" launch --quiet --cpu "$@" >out 2>err &
    launcher=$!
    echo "$launcher" >>launchers
}
end () {
    "$accelerate" kill --signal KILL "$launcher" >ended && gone "$launcher"
}
# row: our job's, from what ps prints
row () {
    "$accelerate" ps >all_jobs 2>ps_err && awk -F '\t' -v launcher="$launcher" '$2 == launcher' all_jobs >row
}
# row_has FIELD PATTERN
row_has () {
    row && awk -F '\t' -v field="$1" -v pattern="^($2)\$" '$field ~ pattern { found = 1 } END { exit !found }' row
}

test_expect_success 'a job begins' 'begin --num_processes 2 "$builddir/tests/cli/watched" ms=20 "a word" && await out'
launcher=$(cat launchers)
test_expect_success 'a job: id, launcher, ranks, step, pace, age, program' '
    wait_for row_has 4 "[0-9][0-9]+" && cat row &&
    row_has 1 "[0-9a-f]+" && row_has 3 2/2 && row_has 5 "[0-9.]+" && row_has 6 "0:0[0-9]:[0-9][0-9]" &&
    row_has 7 ".*/tests/cli/watched ms=20 .a word."'
test_expect_success 'as JSON' '
    "$accelerate" ps --json >json && sed -n "/\"launcher_pid\": $launcher,/,/}/p" json >ours && cat ours &&
    grep "\"ranks_alive\": 2" ours && grep "\"step\": [1-9]" ours && grep "\"steps_per_second\": [0-9]" ours &&
    grep "\"world_size\": 2" ours && end'
test_expect_success 'a step that the program logs takes precedence' '
    begin --num_processes 1 "$builddir/tests/cli/watched" log=7000000 && await out && wait_for row_has 4 "70000[0-9][0-9]" && end'
test_expect_success 'the pace does not count from steps of another kind' '
    begin --num_processes 1 "$builddir/tests/cli/watched" ms=100 log=7000000 && await out && wait_for row_has 5 "[0-9.]+" && cat row &&
    row_has 5 "[0-9]|[0-9][.][0-9]*|1[0-9][.0-9]*" && end'
test_expect_success 'a program without libaccel has no steps' '
    begin --num_processes 3 sleep 1000 && wait_for row_has 3 3/3 && cat row && row_has 4 - && row_has 5 - && row_has 7 "sleep 1000" && end'
test_expect_success 'after a restart: the same id, the same launcher' '
    begin --num_processes 1 --max_restarts 3 sh -c "echo \$TORCHELASTIC_RESTART_COUNT >>starts; until [ -e go ]; do sleep 0.1; done; [ \$TORCHELASTIC_RESTART_COUNT = 2 ] || exit 1; sleep 1000" &&
    await starts && row && id=$(cut -f1 row) && touch go &&
    wait_for grep 2 starts && "$accelerate" ps --json >json && sed -n "/\"job\": \"$id\",/,/}/p" json >ours && cat row ours &&
    grep "\"launcher_pid\": $launcher," ours && grep "\"restarts\": 2" ours && end'
test_expect_success 'ranks of another launcher' '
    port=$(free_port) && { by_hand 2 $port "$builddir/tests/cli/watched" steps=300 port=$port >hand 2>&1 & } && starter=$! && await hand &&
    "$accelerate" ps >jobs 2>ignored && cat jobs && grep "	-	2/2	[1-9][0-9]*	.*watched steps=300 port=$port" jobs && { wait $starter || :; } &&
    "$accelerate" ps >jobs 2>ignored && ! grep "port=$port" jobs'
test_expect_success 'nothing else is an argument' 'test_exit 2 "$accelerate" ps x'
{ xargs kill -KILL <launchers 2>ignored || :; } # of tests that have failed
test_done
