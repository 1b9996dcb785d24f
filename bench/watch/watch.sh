#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What it costs to be watched: watch.sh ACCELERATE BENCH_WATCH [ROUNDS]
#
# calls and logs: what a rank writes for each call, as the difference between a process under a launcher and one alone,
# in turns; the fastest of many batches.
# stops: a barrier of 2 ranks without and with accel_should_stop() behind it; the fastest of many batches.
# top: the time of the steps of a job of 2 ranks with `accelerate top` beside it and without it, in turns, and how much
# processor time top takes.
set -e
accelerate=$1 program=$2 rounds=${3-5}
median () {
    sort -n | awk '{ value[NR] = $1 } END { print NR % 2 ? value[(NR + 1) / 2] : (value[NR / 2] + value[NR / 2 + 1]) / 2 }'
}
one () {
    "$accelerate" launch --quiet --cpu --num_processes 1 "$program" "$@"
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
    "$accelerate" launch --quiet --cpu --num_processes 2 "$program" stops 500 >>"$work/stops"
done
echo "stops: $(cut -d " " -f 1 <"$work/stops" | median) ns without, $(cut -d " " -f 2 <"$work/stops" | median) ns with"
python3 "$(dirname "$0")/beside_top.py" "$accelerate" "$program" "$rounds"
