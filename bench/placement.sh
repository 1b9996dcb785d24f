#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Whether binding ranks to cores helps: a program on 2 ranks with --bind none and --bind core, on an idle machine and
# beside a process that keeps a core busy.
#
#   placement.sh ACCELERATE ROUNDS PROGRAM [ARGUMENTS...]
#
# The two are run in turns, so that what else the machine does meets both; a figure is the median of ROUNDS launches,
# and the ratio that of the pairs' ratios, with the least and the greatest.
if [ $# -lt 3 ]; then
    echo "usage: placement.sh ACCELERATE ROUNDS PROGRAM [ARGUMENTS...]" >&2
    exit 2
fi
accelerate=$1 rounds=$2
shift 2
samples=$(mktemp) || exit 1
neighbour=
trap 'rm -f "$samples"; [ -z "$neighbour" ] || kill $neighbour 2>/dev/null' EXIT
trap 'exit 1' INT TERM HUP

# once BIND PROGRAM...: milliseconds of a launch
once () {
    bind=$1
    shift
    begin=$(date +%s%N)
    "$accelerate" launch --quiet --cpu --num_processes 2 --bind "$bind" "$@" >/dev/null || exit 1
    echo $((($(date +%s%N) - begin) / 1000000))
}

# compare TITLE PROGRAM...
compare () {
    title=$1
    shift
    : >"$samples"
    for round in $(seq "$rounds"); do
        none=$(once none "$@") || exit 1
        core=$(once core "$@") || exit 1
        echo "$none $core" >>"$samples"
    done
    awk -v title="$title" '
        function median (v,   i, j, x, s) {
            for (i = 1; i <= NR; i++) {
                x = v[i]
                for (j = i - 1; j > 0 && s[j] > x; j--) s[j + 1] = s[j]
                s[j + 1] = x
            }
            return NR % 2 ? s[(NR + 1) / 2] : (s[NR / 2] + s[NR / 2 + 1]) / 2
        }
        {
            none[NR] = $1; core[NR] = $2; ratio[NR] = $2 / $1
            if (NR == 1 || ratio[NR] < low) low = ratio[NR]
            if (NR == 1 || ratio[NR] > high) high = ratio[NR]
        }
        END {
            printf "%-24s none %6d ms   core %6d ms   core / none %.2f (%.2f to %.2f)\n", title, median(none),
                   median(core), median(ratio), low, high
        }' "$samples"
}

compare alone "$@"
sh -c 'while :; do :; done' &
neighbour=$!
compare "beside a busy neighbour" "$@"
