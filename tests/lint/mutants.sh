#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The table of mutants fits the sources: each text that a mutant replaces is there, once.
. "${srcdir:-.}/tests/testlib.sh"

if ! command -v python3 >/dev/null; then
    test_skip 'the table of mutants fits the sources' 'needs python3'
    test_done
fi
mutants=$srcdir/tests/mutants/mutants.py
test_expect_success 'the table of mutants fits the sources' 'python3 "$mutants" --check'

# What a table may get wrong, and how it is told.
mkdir -p src/util
printf '%s\n' 'int' 'twice (int n)' '{' '    for (int i = 0; i < n; i++)' '        if (n > 9 || i == 3)' \
    '            n += i;' '    return n + n;' '}' >src/util/twice.c
# check_one TITLE OLD NEW: a table of one mutant; what is said of it goes to `out`
check_one () {
    printf '== src/util/twice.c\n@ %s\n- %s\n+ %s\n' "$1" "$2" "$3" >table
    python3 "$mutants" --check --source . --table table >out 2>&1
    status=$?
    cat out
    return $status
}
test_expect_success 'statements, conditions and parts of for are found' '
    check_one "twice: t" "n += i;" ";" && check_one "twice: t" "n > 9 ||" "" &&
    check_one "twice: t" "i < n" "i <= n" && check_one "twice: t" "0" "1" &&
    check_one "twice: t" "return n + n;" "return n;"'
test_expect_success 'a text that is not there' '
    ! check_one "twice: t" "n -= i;" ";" &&
    grep -F "table:2: src/util/twice.c: twice: this text is not there: n -= i;" out'
test_expect_success 'a text that is there more than once, and its second place' '
    ! check_one "twice: t" "n" "m" && grep "this text is there [0-9]* times: n" out && check_one "twice [2]: t" "n" "m"'
test_expect_success 'a function that is not there' '
    ! check_one "four: t" "n" "m" && grep -F "no function four, or more than one" out'
test_expect_success 'a piece of two statements' '
    ! check_one "twice: t" "i; return n" "i" && grep "more than one statement" out'
printf '%s\n' 'int' 'thrice (int n)' '{' '    if (n > 9)' '        n++;' '    else if (n < 0)' '        n--;' '    return n;' '}' \
    >>src/util/twice.c
test_expect_success 'an if without its else, and an else without its if' '
    for text in "if (n > 9)" "else if (n < 0)"; do
        ! check_one "thrice: t" "$text" ";" && grep "an if that has an else" out || return 1
    done && check_one "thrice: t" "n > 9" "n > 8" && check_one "thrice: t" "n < 0" "false"'
test_done
