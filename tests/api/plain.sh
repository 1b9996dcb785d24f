#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Other languages find a plain function for each macro that passes sizes, as Python's ctypes does.
. "${srcdir:-.}/tests/testlib.sh"

cat "$srcdir"/include/accel/*.h | sed -e :a -e '/\\$/N; s/\\\n//; ta' |
    sed -n 's/^#define \(accel_[a-z0-9_]*\)(\.\.\.) *accel_[a-z0-9_]*_sized .*/\1/p' | sort >macros
sed -n 's/^    X (\(accel_[a-z0-9_]*\), .*/\1/p' "$srcdir/include/accel/plain.h" | sort >plain
test_expect_success 'each macro that passes sizes has a row in accel/plain.h' 'test -s macros && diff macros plain'
test_expect_success 'C programs can call them' '
    printf "#include <accel/plain.h>\nint main (void) { return (accel_open) (0, 0, 0) != ACCEL_ERR_INVALID; }\n" >one.c &&
    ${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$srcdir/include" one.c'

library=$(find "$builddir/.libs" -name 'libaccel.so.*.*' 2>/dev/null | head -n 1)
if [ -z "$library" ] || is_sanitized || ! python3 -c 'import ctypes' 2>/dev/null; then
    test_skip 'ctypes' 'needs Python with ctypes, and a shared library that is not instrumented'
else
    test_expect_success 'ctypes opens a job and calls a collective' '
        "$accelerate" launch --cpu --num_processes 2 python3 "$srcdir/tests/api/plain.py" "$library" >said 2>&1 && cat said &&
        test "$(grep -c "^rank [01]: sum 3, .*/nowhere: No such file" said)" = 2'
fi
test_done
