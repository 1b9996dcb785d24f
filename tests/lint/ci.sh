#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Three days of .ci/run in a row leave nothing out: .ci/days.
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
days='20785 20786 20787'
env -u MAKEFLAGS -u MFLAGS make -C "$builddir" -s print-tests | tr ' ' '\n' | sort >"$scratch/all"

test_expect_success 'each part has a day, and is one that .ci/run or .ci/days asks for' '
    on_day 0 "printf \"%s\\n\" \"\${!ci_parts[@]}\"" >out && sort out >parts && test "$(wc -l <parts)" -ge 8 &&
    cat "$srcdir/.ci/run" "$srcdir/.ci/days" | grep -o "has_day [a-z][a-z]*" | sed "s/.* //" | sort -u | diff - parts &&
    for day in $days; do
        on_day $day "for part in \$(sort \"$PWD/parts\"); do ! has_day \$part || echo \$part; done" >"parts.$day" || return 1
    done && sort -u parts.* | diff - parts'
test_expect_success 'each test runs on one of the days, and lints without long forms on each' '
    for day in $days; do on_day $day "of_today \"\$@\"" >out && sort out >"day.$day" || return 1; done &&
    sort -u day.* | diff - "$scratch/all" &&
    (cd "$srcdir" && grep -L "[i]s_long" $(grep "^tests/lint/" "$scratch/all")) >out && sort out >lints && test -s lints &&
    for day in $days; do comm -23 lints "day.$day" >missing && test ! -s missing || return 1; done'
test_expect_success 'other scripts run once, and no day has more than 60 % of them' '
    grep "\.sh$" "$scratch/all" | comm -23 - lints >slow && test -s slow &&
    sort day.* | uniq -c | sed -n "s/^ *1 \(.*\.sh\)$/\1/p" | diff - slow &&
    for day in $days; do
        comm -12 slow "day.$day" >some && test $(($(wc -l <some) * 10)) -le $(($(wc -l <slow) * 6)) || return 1
    done'
test_expect_success 'on a day without these tests, the address sanitizer has them' '
    for day in $days; do on_day $day "has_day tests || has_day asan" || return 1; done'
test_expect_success 'each bare machine has its turn within six days' '
    for day in $days 20788 20789 20790; do on_day $day "! has_day bare || bare_turn 4" || return 1; done >turns &&
    sort -u turns >each && printf "%d\n" 0 1 2 3 | diff each -'
test_expect_success 'CI_ALL=yes: everything, on any day' '
    CI_ALL=yes && export CI_ALL && on_day 0 "of_today \"\$@\"" >out && diff out "$scratch/all" &&
    on_day 0 "for part in \"\${!ci_parts[@]}\"; do has_day \$part; done"'
test_expect_success 'a part that is not there is an error' '
    test_exit 1 on_day 0 "has_day none || :" 2>err && grep "no part is called .none." err'
test_done
