#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Manual pages are well-formed.
. "${srcdir:-.}/tests/testlib.sh"

for page in "$srcdir"/man/*.[1357]; do
    if command -v mandoc >/dev/null; then
        test_expect_success "$(basename "$page")" "mandoc -Tlint -Wwarning '$page'"
    else
        test_skip "$(basename "$page")" 'no mandoc'
    fi
done
test_done
