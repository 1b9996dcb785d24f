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

# Those of accel.hpp, too, which take a second each.
for header in $(! is_long || echo "$srcdir"/include/accel/hpp/*.hpp); do
    name=accel/hpp/$(basename "$header")
    printf '#include <%s>\n#include <%s>\n' "$name" "$name" >one.cc
    if command -v "${cxx%% *}" >/dev/null; then
        test_expect_success "$name as C++17" "$cxx -std=c++17 $flags one.cc"
    else
        test_skip "$name as C++17" "no C++ compiler"
    fi
done
if command -v "${cxx%% *}" >/dev/null; then
    printf '#include <accel/accel.hpp>\nint main () {}\n' >old.cc
    test_expect_success 'accel.hpp as C++14: one error, which names the standard' "
        test_exit 1 $cxx -std=c++14 $flags old.cc 2>said && test \$(grep -c 'error:' said) = 1 && grep 'C++17' said"
fi

# accel.hpp: by every compiler, in every standard that it claims; tests that are not long leave out half of the pairs.
# -Wshadow, for programs that have it on.
printf '#include <accel/accel.hpp>\n#include <accel/accel.hpp>\n' >all.cc
for compiler in g++ clang++; do
    for standard in c++17 c++20; do
        case $compiler-$standard in
        g++-c++17 | clang++-c++20) ;;
        *) is_long || continue ;;
        esac
        if ! command -v "${compiler%% *}" >/dev/null; then
            test_skip "accel.hpp, $compiler -std=$standard" 'no such compiler'
        else
            test_expect_success "accel.hpp, $compiler -std=$standard" '$compiler -std=$standard $flags all.cc'
        fi
    done
done
# Programs of CUDA include them, too: as C, which nvcc leaves to the host's compiler, and where nvcc itself parses them,
# once for the host and once for a GPU.
nvcc=$(sed -n 's/^NVCC = //p' "$builddir/Makefile")
skipped=
[ -n "$nvcc" ] || skipped='needs nvcc'
is_long || skipped='TEST_LONG=yes runs it'
printf '#include <accel/accel.h>\n#include <accel/accel.h>\n#include <accel/engine.h>\nint main (void) { return 0; }\n' >gpu.c
cp gpu.c gpu_h.cu
printf '__global__ void kernel (float *p) { *p = 1; }\n' | cat all.cc - >gpu_hpp.cu
nvcc_flags="-Werror all-warnings -Xcompiler -Wall,-Wextra,-Wshadow,-Werror -I$srcdir/include"
# by_nvcc NAME ARGUMENT...
by_nvcc () {
    name=$1
    shift
    if [ -n "$skipped" ]; then
        test_skip "$name" "$skipped"
    else
        arguments=$*
        test_expect_success "$name" '"$nvcc" $nvcc_flags $arguments -c -o gpu.o'
    fi
}
by_nvcc 'the headers, nvcc as C' gpu.c
by_nvcc 'the headers, nvcc as C++17' -std=c++17 gpu_h.cu
by_nvcc 'accel.hpp, nvcc as C++17' -std=c++17 gpu_hpp.cu

if command -v python3 >/dev/null; then
    test_expect_success 'the options of accel.hpp have a setter for each field' 'python3 "$srcdir/tests/lint/options.py" "$srcdir"'
    test_expect_success 'rule 1 of base.h: order of arguments, names, memory' '
        python3 "$srcdir/tests/lint/convention.py" "$srcdir"'
    test_expect_success 'accel.hpp calls each function' 'python3 "$srcdir/tests/lint/functions.py" "$srcdir"'
else
    test_skip 'accel.hpp has all fields and functions' 'needs python3'
fi
test_done
