#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# All-reduce: libaccel beside Open MPI, gloo and memcpy, one table for each number of ranks.
#
#   collectives.sh ACCELERATE BENCH_COLLECTIVES MPI_ALLREDUCE [in|out] [ROUNDS] [RANKS...]
#
# The peers are run in turns, ROUNDS times each, so that whatever else the machine does hits all of them; the figures
# are medians of all iterations of all rounds.  "in": in place (send == recv), as gradients are averaged; all alike.
# gloo_peer is next to BENCH_COLLECTIVES; the table has the faster of gloo's two algorithms for each size.
accelerate=$1 bench=$2 mpi=$3 place=${4:-in} rounds=${5:-3}
if [ $# -lt 3 ]; then
    echo "usage: collectives.sh ACCELERATE BENCH_COLLECTIVES MPI_ALLREDUCE [in|out] [ROUNDS] [RANKS...]" >&2
    exit 2
fi
if [ $# -gt 5 ]; then shift 5; else set -- 2 4; fi

has_mpi=yes
command -v mpirun >/dev/null && [ -x "$mpi" ] || has_mpi=no
gloo=$(dirname "$bench")/gloo_peer
has_gloo=yes
[ -x "$gloo" ] || has_gloo=no
work=$(mktemp -d) || exit 1
samples=$work/samples
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

table () {
    awk '
        {
            for (i = 3; i <= NF; i++)
                value[$1, $2, n[$1, $2]++] = $i
            if (!($2 in seen)) {
                seen[$2]
                order[++sizes] = $2
            }
        }
        function median (name, bytes,   count, i, j, x, v) {
            count = n[name, bytes]
            if (!count) return -1
            for (i = 0; i < count; i++) {
                x = value[name, bytes, i] + 0
                for (j = i - 1; j >= 0 && v[j] > x; j--) v[j + 1] = v[j]
                v[j + 1] = x
            }
            return count % 2 ? v[(count - 1) / 2] : (v[count / 2 - 1] + v[count / 2]) / 2
        }
        function least (a, b) { return a < 0 || b >= 0 && b < a ? b : a }
        function us (x) { return x < 0 ? "-" : sprintf (x < 10 ? "%.2f" : x < 1000 ? "%.1f" : "%.0f", x) }
        function ratio (a, b) { return a < 0 || b <= 0 ? "-" : sprintf ("%.2f", a / b) }
        END {
            printf "%10s %10s %10s %11s %10s %10s %8s %8s %8s %9s\n", "bytes", "own us", "foreign us", "Open MPI us",
                   "gloo us", "memcpy us", "MPI/own", "MPI/for.", "gloo/own", "gloo/for."
            for (s = 1; s <= sizes; s++) {
                b = order[s]
                o = median("own", b); f = median("foreign", b); m = median("mpi", b); c = median("memcpy", b)
                g = least(median("gloo-ring", b), median("gloo-bcube", b))
                printf "%10d %10s %10s %11s %10s %10s %8s %8s %8s %9s\n", b, us(o), us(f), us(m), us(g), us(c),
                       ratio(m, o), ratio(m, f), ratio(g, o), ratio(g, f)
            }
        }' "$samples"
}

for ranks in "$@"; do
    : >"$samples"
    round=0
    while [ $round -lt "$rounds" ]; do
        "$accelerate" launch --cpu --num_processes "$ranks" "$bench" "$place" 60 >>"$samples" || exit 1
        if [ $has_mpi = yes ]; then
            timeout 60 mpirun --allow-run-as-root --oversubscribe -n "$ranks" "$mpi" "$place" 60 >>"$samples" ||
                { echo "mpirun failed, or did not end; left out from here on"; has_mpi=no; }
        fi
        if [ $has_gloo = yes ]; then
            mkdir "$work/gloo" || exit 1
            timeout 120 "$gloo" "$place" 60 "$ranks" "$work/gloo" >>"$samples" ||
                { echo "gloo_peer failed, or did not end; left out from here on"; has_gloo=no; }
            rm -rf "$work/gloo"
        fi
        round=$((round + 1))
    done
    [ "$place" = in ] && word="in place" || word="out of place"
    echo "all-reduce, float32 sum, $word, $ranks ranks, $(nproc) processors: medians of $rounds rounds in turns"
    table
    echo
done
[ $has_mpi = yes ] || echo "Open MPI: mpirun or mpicc is not here, left out"
[ -x "$gloo" ] || echo "gloo: $gloo was not built (libgloo-dev and a C++ compiler are needed), left out"
