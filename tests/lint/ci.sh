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
# of_run FUNCTION COMMAND: in a bash that knows this function of .ci/run
of_run () { (cd "$scratch" && bash -c "$(sed -n "/^$1 ()/,/^}/p" "$srcdir/.ci/run")
$2"); }
test_expect_success 'a list of tests that make cannot print, or that is empty, is an error' '
    mkdir -p lists && printf "print-tests:\n\t@echo tests/a tests/b\n" >lists/Makefile &&
    of_run those_of "those_of lists a$" >out && test "$(cat out)" = "tests/a " &&
    of_run those_of "those_of lists a$ -v" >out && test "$(cat out)" = "tests/b " &&
    test_exit 1 of_run those_of "those_of lists c$" 2>err && grep "no test of lists" err &&
    test_exit 2 of_run those_of "those_of nowhere a$ -v" 2>err && grep nowhere err'
if command -v git >/dev/null && command -v xz >/dev/null; then
    test_expect_success 'a file that the tarball lacks, and a git that cannot list files, are errors' '
        rm -rf build && mkdir -p build accel-1 && : >one && cp one accel-1 && git -c init.defaultBranch=main init -q . && git add one &&
        tar -cJf build/accel-1.tar.xz accel-1 && of_run tarball_is_complete tarball_is_complete &&
        : >two && git add two && test_exit 1 of_run tarball_is_complete tarball_is_complete >out && echo two | cmp - out &&
        git rm -q --cached two && : >.git/index && ! of_run tarball_is_complete tarball_is_complete'
else
    test_skip 'a file that the tarball lacks' 'needs git and xz'
fi
followed () { of_run with_recipes "PATH=fake:\$PATH; with_recipes folder"; }
test_expect_success 'recipes that failed are followed once more, and good ones are not' '
    mkdir fake && printf "#!/bin/sh\necho run >>runs && exit \$(cat fake/status)\n" >fake/python3 && chmod +x fake/python3 &&
    echo 1 >fake/status && test_exit 1 followed && echo 0 >fake/status && followed && echo 1 >fake/status && followed &&
    test "$(wc -l <runs)" = 2'
test_expect_success 'the last line is the total, also if nothing can be built' '
    mkdir -p empty/.ci empty/scripts && cp "$srcdir/.ci/run" "$srcdir/.ci/days" empty/.ci && cp "$srcdir/scripts/setup.sh" empty/scripts &&
    : >empty/scripts/packages.txt && test_exit 1 env CI_DAY=2 bash empty/.ci/run >out 2>err &&
    tail -n 1 out >last && echo "0 passed, 1 failed, 0 skipped" | cmp - last && grep "bootstrap failed" err'
test_done
