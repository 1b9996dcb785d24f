# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Sourced by testlib.sh and .ci/run: which tests have their turn today, where there is time for a third of what they show.

# is_turn TEST: a path such as tests/cli/x.sh, or a part of one, has its turn every third day, whatever tests there are
# besides
is_turn () {
    set -- "${1#"${1%tests/*}"}"
    # shellcheck disable=SC2046 # two numbers
    set -- $(printf %s "$1" | cksum)
    [ $((($1 + $(date +%s) / 86400) % 3)) = 0 ]
}
