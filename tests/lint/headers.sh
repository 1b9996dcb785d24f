#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each installed header compiles alone, as C11 and as C++17, without warnings.
. "${srcdir:-.}/tests/testlib.sh"

cc=${CC:-cc}
cxx=${CXX:-c++}
flags="-Wall -Wextra -Wpedantic -Wshadow -Werror -fsyntax-only -I$srcdir/include"
for header in "$srcdir"/include/accel/*.h; do
    name=accel/$(basename "$header")
    printf '#include <%s>\n#include <%s>\n' "$name" "$name" >one.c
    cp one.c one.cc
    test_expect_success "$name as C11" "$cc -std=c11 $flags one.c"
    if command -v "${cxx%% *}" >/dev/null; then
        test_expect_success "$name as C++17" "$cxx -std=c++17 $flags one.cc"
    else
        test_skip "$name as C++17" "no C++ compiler"
    fi
done
test_done
