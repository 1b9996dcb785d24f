#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Training: libaccel beside the same loop by hand, by Open MPI, and torch's AdamW.
#
#   train.sh ACCELERATE BENCH_TRAIN MPI_TRAIN [ROUNDS]
#
# Peers are run in turns, ROUNDS times each, small networks on 2 processes four times as often, for a processor that shares
# its core with another tenant's is slow for seconds.  Figures are medians of all steps of all rounds, and the fastest step.  PYTHON: one that has torch.
accelerate=$1 bench=$2 mpi=$3 rounds=${4:-3}
if [ $# -lt 3 ]; then
    echo "usage: train.sh ACCELERATE BENCH_TRAIN MPI_TRAIN [ROUNDS]" >&2
    exit 2
fi
python=${PYTHON:-python3} peer=$(dirname "$0")/train_peer.py
has_mpi=yes has_torch=yes
command -v mpirun >/dev/null && [ -x "$mpi" ] || { has_mpi=no; echo "Open MPI: mpirun or mpicc is not here, left out"; }
"$python" -c 'import torch' 2>/dev/null || { has_torch=no; echo "torch is not here (PYTHON=$python), left out"; }
samples=$(mktemp) || exit 1
trap 'rm -f "$samples"' EXIT
trap 'exit 1' INT TERM HUP

# table BASE [pairs]: the medians of each peer, and how they compare to BASE's; reductions and losses where they were
# printed.  pairs: compare what was measured right after each other, take the median of each launch, and of these; and
# print the least and the greatest launch.
table () {
    sort -s -k1,1 "$samples" | awk -v base="$1" -v pairs="$2" '
        {
            launch = ++launches[$1]
            for (i = 3; i <= NF; i++) {
                all[$1, ++n[$1]] = $i + 0
                each[$1, launch, i] = $i + 0
                if (n[$1] == 1 || $i + 0 < fastest[$1]) fastest[$1] = $i + 0
            }
            steps[$1] = NF
        }
        !/^(loss|reduce)-/ && !($1 in seen) { seen[$1]; order[++peers] = $1 }
        function median (name,   i, j, x, v, count) {
            count = n[name]
            for (i = 1; i <= count; i++) {
                x = all[name, i]
                for (j = i - 1; j > 0 && v[j] > x; j--) v[j + 1] = v[j]
                v[j + 1] = x
            }
            return count % 2 ? v[(count + 1) / 2] : (v[count / 2] + v[count / 2 + 1]) / 2
        }
        function compare (name,   l, i, ratio) {
            if (!pairs) return median(name) / median(base)
            for (l = 1; l <= launches[name]; l++) {
                for (i = 3; i <= steps[name]; i++) all["step", i - 2] = each[name, l, i] / each[base, l, i]
                n["step"] = steps[name] - 2
                all["launch", l] = ratio = median("step")
                if (l == 1 || ratio < low) low = ratio
                if (l == 1 || ratio > high) high = ratio
            }
            n["launch"] = launches[name]
            return median("launch")
        }
        END {
            printf "%-16s %12s %12s %12s %12s", "peer", "us per step", "of " base, "fastest us", "of " base
            printf "%14s %12s%s\n", "averaging us", "last loss", pairs ? "   launches, of " base : ""
            for (p = 1; p <= peers; p++) {
                name = order[p]
                printf "%-16s %12.1f %12.3f", name, median(name), compare(name)
                printf " %12.1f %12.3f", fastest[name], fastest[name] / fastest[base]
                printf "%14s", n["reduce-" name] ? sprintf ("%.1f", median("reduce-" name)) : "-"
                printf "%12s", n["loss-" name] ? sprintf ("%.5g", median("loss-" name)) : "-"
                printf "%s\n", pairs ? sprintf ("   %.3f to %.3f", low, high) : ""
            }
        }'
    echo
}
load () { cut -d " " -f 1 /proc/loadavg; }

for size in 100000 10000000; do
    [ $size = 100000 ] && steps=200 updates=300 launches=$((4 * rounds)) || steps=20 updates=15 launches=$rounds
    for place in huge malloc; do
        : >"$samples"
        for round in $(seq "$rounds"); do
            "$bench" step $size 30 $place >>"$samples" || exit 1
        done
        [ $place = malloc ] && places="as malloc() places them" || places="in huge pages"
        echo "whole steps, 1 process, some $size parameters, the arrays by hand $places (load $(load))"
        table hand pairs
    done

    : >"$samples"
    for round in $(seq "$launches"); do
        "$accelerate" launch --cpu --num_processes 2 --num_cpu_threads_per_process 1 "$bench" several $size $steps \
            >>"$samples" || exit 1
        for way in tensor flat; do
            [ $has_mpi = no ] || timeout 120 mpirun --allow-run-as-root --oversubscribe -n 2 "$mpi" $way $size $steps \
                >>"$samples" || { echo "mpirun failed, or did not end; left out from here on"; has_mpi=no; }
        done
    done
    echo "whole steps, 2 processes, some $size parameters (load $(load))"
    table own

    for threads in 1 2; do
        : >"$samples"
        for round in $(seq "$rounds"); do
            "$bench" adamw $size $updates $threads >>"$samples" || exit 1
            [ $has_torch = no ] || "$python" "$peer" $size $updates $threads >>"$samples" || exit 1
        done
        echo "AdamW alone, some $size parameters, $threads thread(s) of own and torch, 1 of the others (load $(load))"
        table own
    done
done

for size in 10000000 40000000; do
    : >"$samples"
    for round in $(seq "$rounds"); do
        "$accelerate" launch --cpu --num_processes 2 --num_cpu_threads_per_process 1 "$bench" overlap $size 20 \
            >>"$samples" || exit 1
    done
    echo "averaging during a backward pass elsewhere of 40 times 1 ms, 2 processes, $size parameters (load $(load))"
    table after
done
