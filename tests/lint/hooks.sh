#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What `make hooks` installs, and `make help` lists.
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
test_done
