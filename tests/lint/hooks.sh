#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What `make hooks` installs, `make help` lists and `make check` builds.
. "${srcdir:-.}/tests/testlib.sh"

message () {
    sh "$srcdir/scripts/commit-msg" message
}
test_expect_success 'a subject has at most 72 characters' '
    printf "%72s\n\nWhy.\n" what >message && message && printf "%73s\n\nWhy.\n" what >message &&
    test_exit 1 message 2>err && grep "the subject has 73 characters, but must have at most 72" err'
test_expect_success 'characters are counted, not bytes' 'printf "%71s\303\251\n" s >message && LC_ALL=C.UTF-8 message'
test_expect_success 'an empty line is between subject and body' '
    printf "What\nwhy\n" >message && test_exit 1 message 2>err && grep "second line must be empty" err'
if git --version >/dev/null 2>&1; then
    test_expect_success 'a commit is not made with a line of more than 120 columns' '
        mkdir copy && cp -R "$srcdir/include" "$srcdir/scripts" "$srcdir/src" "$srcdir/tests" "$srcdir/examples" \
            "$srcdir/bench" "$srcdir/man" "$srcdir/HACKING.md" copy && chmod -R u+w copy && cd copy && git init -q . &&
        printf "/* %120s */\n" "" >>src/util/io.c && test_exit 1 sh scripts/pre-commit >out &&
        grep "^not ok .* lines have at most 120 columns" out'
else
    test_skip 'a commit is not made with a line of more than 120 columns' 'no git'
fi
test_expect_success 'make help lists targets that exist' '
    sed -n "s/^# help: \([a-z-]*\) .*/\1/p" "$builddir/Makefile" >listed && test "$(wc -l <listed)" -ge 15 &&
    while read -r target; do
        grep -E "^(@[A-Z_]*_TRUE@)?$target[ :]" "$srcdir/Makefile.in" >found || { echo "no $target" && return 1; }
    done <listed'

# What tests need is read from their scripts: tests/programs.awk.
needed () {
    awk -v srcdir="$PWD" -v all='tests/port tests/a/one tests/a/one_more tests/b/two.la tests/b/c/three.la' -v tests="$1" \
        -f "$srcdir/tests/programs.awk"
}
mkdir -p tests/a
echo '"$builddir/tests/port"' >tests/testlib.sh
echo '. "${srcdir:-.}/tests/testlib.sh"; "$builddir/tests/a/one" x' >tests/a/calls.sh
echo 'module=$builddir/tests/b/.libs/t$w.so; LD_PRELOAD=$module:$builddir/tests/b/$c/.libs/three.so' >tests/a/module.sh
echo 'programs=$builddir/tests/a' >tests/a/folder.sh
test_expect_success 'a script has the programs that it and the scripts that it sources name, and no others' '
    test "$(needed "tests/a/calls.sh tests/b/none.sh")" = " tests/port tests/a/one"'
test_expect_success 'modules, and variables in names' '
    test "$(needed tests/a/module.sh)" = " tests/b/two.la tests/b/c/three.la"'
test_expect_success 'all of a folder' 'test "$(needed tests/a/folder.sh)" = " tests/a/one tests/a/one_more"'
test_expect_success 'a program that is itself a test; no tests: all programs' '
    test "$(needed tests/a/one)" = " tests/a/one" && test "$(needed " ")" = "$(needed "tests/port tests/a tests/b tests/b/c")"'
# built TESTS: what make check would build for them, or has built
built () {
    env -u MAKEFLAGS -u MFLAGS make -C "$builddir" -n check-programs TESTS="$1" >log 2>&1 || return 1
    sed -n "s/^make.*: .\(tests\/.*\). is up to date\.$/\1/p; s/.* -o \(tests\/[^ .]*\(\.la\)\{0,1\}\) .*/\1/p" log | sort -u
}
test_expect_success 'make check TESTS=... builds what these tests need, and no other program' '
    built "tests/unit/command/test_util tests/api/check.sh" >out && cat out &&
    printf "%s\n" tests/api/checker tests/free_port tests/unit/command/test_util | diff - out'
test_expect_success 'each program in tests/ is needed by a test, and without TESTS all are built' '
    env -u MAKEFLAGS -u MFLAGS make -C "$builddir" -s print-tests >tests.out &&
    built "$(cat tests.out)" >some && built "" >every && test "$(wc -l <every)" -gt 100 && diff some every'
test_done
