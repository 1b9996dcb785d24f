# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Sourced by testlib.sh and .ci/run: which tests have their turn today, where there is time for half of what they show.

# is_turn TEST: a path such as tests/cli/x.sh has its turn on even days or on odd ones, whatever tests there are besides
is_turn () {
    set -- "${1#"${1%tests/*}"}"
    set -- $(printf %s "$1" | cksum)
    [ $((($1 + $(date +%s) / 86400) % 2)) = 0 ]
}
