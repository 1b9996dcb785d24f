#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Four days of .ci/run in a row leave nothing out: .ci/days.
. "${srcdir:-.}/tests/testlib.sh"

if ! command -v bash >/dev/null; then
    skip_rest 'needs bash'
fi
unset CI_ALL
# on_day DAY COMMAND: of .ci/days, on that day since 1970, with the names of all tests as its arguments
on_day () {
    # shellcheck disable=SC2046 # words
    (cd "$srcdir" && CI_DAY=$1 bash -euc ". .ci/days && $2" bash $(cat "$scratch/all"))
}
days='20785 20786 20787 20788'
env -u MAKEFLAGS -u MFLAGS make -C "$builddir" -s print-tests | tr ' ' '\n' | sort >"$scratch/all"

test_expect_success 'each part has a day, and is one that .ci/run or .ci/days asks for' '
    on_day 0 "printf \"%s\\n\" \"\${!ci_parts[@]}\"" >out && sort out >parts && test "$(wc -l <parts)" -ge 8 &&
    cat "$srcdir/.ci/run" "$srcdir/.ci/days" | grep -o "has_day [a-z][a-z]*" | sed "s/.* //" | sort -u | diff - parts &&
    for day in $days; do
        on_day $day "for part in \$(sort \"$PWD/parts\"); do ! has_day \$part || echo \$part; done" >"parts.$day" || return 1
    done && sort -u parts.* | diff - parts'
test_expect_success 'each test with a long form runs in it once' '
    for day in $days; do on_day $day "long_of_today \"\$@\"" >out && sort out >"day.$day" || return 1; done &&
    (cd "$srcdir" && for test in $(cat "$scratch/all"); do
        test -e "$test" || test=$test.c
        ! grep -qE "[i]s_long|TEST_LON[G]" "$test" || echo "${test%.c}"
    done) >long && test $(wc -l <long) -gt 50 && sort day.* | diff - long'
test_expect_success 'each bare machine has its turn within six days' '
    for day in $days 20789 20790; do on_day $day "! has_day bare || bare_turn 4" || return 1; done >turns &&
    sort -u turns >each && printf "%d\n" 0 1 2 3 | diff each -'
test_expect_success 'CI_ALL=yes: everything, on any day' '
    CI_ALL=yes && export CI_ALL && on_day 0 "long_of_today \"\$@\"" >out && sort out | diff - long &&
    on_day 0 "for part in \"\${!ci_parts[@]}\"; do has_day \$part; done"'
test_expect_success 'CI runs the long forms of its day, and a day is a number' '
    grep "long_of_today" "$srcdir/.ci/run" && for day in -1 08 one ""; do
        test_exit 1 on_day "$day" "has_day long" 2>err && grep "expected a number" err || return 1
    done'
test_expect_success 'a part that is not there is an error' '
    test_exit 1 on_day 0 "has_day none || :" 2>err && grep "no part is called .none." err'
test_done
