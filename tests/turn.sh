# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Sourced by testlib.sh and .ci/run: which tests have their turn today, where there is time for half of what they show.

# is_turn TEST [DAYS]: a path such as tests/cli/x.sh has its turn every second day, or each time that so many have passed,
# whatever tests there are besides
is_turn () {
    set -- "${1#"${1%tests/*}"}" "${2-2}"
    # shellcheck disable=SC2046 # two numbers
    set -- "$2" $(printf %s "$1" | cksum)
    [ $((($2 + $(date +%s) / 86400) % $1)) = 0 ]
}
