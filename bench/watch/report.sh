#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How long accelerate report takes for a run of 10^6 steps: bench/watch/report.sh ACCELERATE PYTHON [ROUNDS]
set -e
accelerate=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
"$2" "$(dirname "$0")/../../tests/cli/report_page.py" make "$tmp/run" 0.0006 1000000
ls -l "$tmp/run/metrics.jsonl" | awk '{ print "10^6 records, " $5 / 1e6 " MB" }'
for round in $(seq "${3:-3}"); do
    begin=$(date +%s%N)
    "$accelerate" report -o "$tmp/report.html" "$tmp/run"
    end=$(date +%s%N)
    echo "round $round: $(((end - begin) / 1000000)) ms, a page of $(wc -c <"$tmp/report.html") bytes"
done
