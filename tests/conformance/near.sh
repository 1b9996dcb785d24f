# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Sourced by tests of tensor parallelism, after testlib.sh.
# near BOUND A B: equal steps; losses and norms that differ by less, relatively
near () {
    [ -s "$2" ] && [ "$(wc -l <"$2")" = "$(wc -l <"$3")" ] && paste -d " " "$2" "$3" | awk -v bound="$1" '
        $1 != $4 || ($2 / $5 - 1) ^ 2 > bound ^ 2 || ($3 / $6 - 1) ^ 2 > bound ^ 2 { print "differ:", $0; bad = 1 }
        END { exit bad || !NR }'
}
