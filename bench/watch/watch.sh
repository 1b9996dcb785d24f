#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What it costs to be watched: watch.sh ACCELERATE BENCH_WATCH [ROUNDS]
#
# calls and logs: what a rank writes for each call, as the difference between a process under a launcher and one alone,
# in turns; the fastest of many batches.
# top: processor time of `accelerate top` beside a job of 2 ranks, in a terminal that script(1) makes, for 20 s; and the
# time of the job's steps with it and without it, in turns.
set -e
accelerate=$1 program=$2 rounds=${3-5}
median () {
    sort -n | awk '{ value[NR] = $1 } END { print NR % 2 ? value[(NR + 1) / 2] : (value[NR / 2] + value[NR / 2 + 1]) / 2 }'
}
one () {
    "$accelerate" launch --quiet --cpu --num_processes 1 "$program" "$@"
}
two () {
    "$accelerate" launch --quiet --cpu --num_processes 2 "$program" "$@"
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for what in calls logs; do
    for round in $(seq "$rounds"); do
        one $what 2000 >>"$work/$what.launched"
        "$program" $what 2000 >>"$work/$what.alone"
    done
    echo "$what: $(median <"$work/$what.launched") ns under a launcher, $(median <"$work/$what.alone") ns alone"
done
for round in $(seq "$rounds"); do
    two steps 3000 >>"$work/without"
    two steps 3000 >>"$work/with" &
    job=$!
    sleep 0.5
    TERM=xterm script -qec "$accelerate top $job" /dev/null </dev/null >"$work/screen" 2>&1 &
    wait $job
    wait
done
echo "steps: median $(cut -d' ' -f1 "$work/without" | median) us without top, $(cut -d' ' -f1 "$work/with" | median) us with it"
two steps 20000 >"$work/long" &
job=$!
sleep 1
TERM=xterm script -qec "sh -c 'echo \$\$ >$work/pid; exec $accelerate top $job'" /dev/null </dev/null >"$work/screen" 2>&1 &
sleep 21
awk -v ticks="$(getconf CLK_TCK)" '{ printf "top: %.3f s of processor time in 20 s\n", ($14 + $15) / ticks }' "/proc/$(cat "$work/pid")/stat"
"$accelerate" kill --signal KILL $job >"$work/ended"
wait || :
