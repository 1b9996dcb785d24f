#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# On each host of a job, ps and top show the ranks of that host, and kill ends the whole job.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/hosts/lab"
begin_lab 3 || exit

# begin: three ranks on two hosts, in the background
begin () {
    on host1 timeout -k 10 "$patience" "$accelerate" launch --cpu --hosts host2:2,host3:1 sh -c "echo >begun.\$RANK; sleep 1000" >out 2>err &
    head=$!
}
test_expect_success 'each host shows its own ranks' '
    begin && await begun.0 begun.1 begun.2 && on host2 "$accelerate" top --once >once && cat once &&
    grep "^  2 of 2 ranks .* (of 3 ranks on all hosts, those of this one)" once && grep "^    1 .* not open" once && ! grep "^    2 " once &&
    on host3 "$accelerate" top --json >json && cat json && grep "\"first_rank\": 2," json && grep "\"rank\": 2," json && ! grep "\"rank\": 1," json'
test_expect_success 'what is in another process namespace has a launcher, too' '
    id=$(sed -n "s/.*\"job\": \"\(.*\)\",/\1/p" json) && "$accelerate" ps >jobs 2>ignored && cat jobs &&
    grep "^$id	[1-9][0-9]*	1/1	.*	sh -c " jobs'
test_expect_success 'the launcher of one host ends the whole job' '
    on host3 "$accelerate" ps >jobs && cat jobs && on host3 "$accelerate" kill "$(cut -f1 jobs)" >said && cat said &&
    grep "has ended: rank 2 was killed by signal 15 (SIGTERM)" said && wait_for grep "host3" err && cat err &&
    all_clean host1 host2 host3'
test_done
