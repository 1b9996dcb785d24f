#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Where no C++ compiler has built test_kernels, its cases count as skipped.
. "${srcdir:-.}/tests/testlib.sh"
program=$builddir/tests/standin/test_kernels cases=2733
if [ -x "$program" ]; then
    # shellcheck disable=SC2034 # used below
    least=$((cases * 9 / 10)) most=$((cases * 11 / 10))
    if is_long; then
        test_expect_success 'test_kernels has about as many cases as are counted where it is not built' '
            "$program" >out && count=$(sed -n "s/^1\.\.//p" out) && echo "$count cases" &&
            [ "$count" -ge "$least" ] && [ "$count" -le "$most" ]'
    fi
    if is_sanitized; then
        test_skip 'arrays of more than 2^32 elements' 'sanitizers touch memory that kernels do not'
    else
        test_expect_success 'blocks of arrays of more than 2^32 elements' \
            '"$program" far >out && test "$(grep -c ^ok out)" -eq 5'
    fi
    test_expect_success 'what a card does with 2^31 elements, with fewer' '"$program" huge 70001 && "$program" huge 4096'
else
    for number in $(seq $cases); do
        test_skip "$number of test_kernels" 'needs a compiler for C++17'
    done
fi
test_done
