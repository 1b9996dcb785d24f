#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# No function of libaccel crashes when all of its arguments are zero: bindings of other languages pass such.
. "${srcdir:-.}/tests/testlib.sh"

library=$builddir/.libs/libaccel.a
if [ ! -f "$library" ] || is_sanitized || ! command -v "${CXX%% *}" >/dev/null; then
    test_skip 'all arguments are zero' 'needs a C++ compiler, and a static library that is not instrumented'
    test_done
fi
# A declaration may span lines: join from ACCEL_API to ';', then take the name before the first '(' that is ours.
awk '/^ACCEL_API/ { text = "" ; open = 1 }
     open { text = text " " $0 }
     open && /;/ { open = 0; if (match (text, /accel_[a-z0-9_]+ \(/)) print "EXPORT (" substr (text, RSTART, RLENGTH - 2) ")" }' \
    "$srcdir"/include/accel/*.h >exports.h
test_expect_success 'the functions were found' 'test "$(wc -l <exports.h)" -gt 200'
test_expect_success 'all arguments are zero' '
    $CXX -std=c++17 -O0 -w -I"$srcdir/include" -I. "$srcdir/tests/api/zeros.cc" -o zeros "$library" -lm -pthread &&
    ./zeros >said 2>/dev/null </dev/null && cat said'
test_done
