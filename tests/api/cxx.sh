#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accel.hpp and the examples in C++: without warnings.  One compiler builds the test, another one only reads an example,
# in a newer standard; in long tests, each compiler that is here builds and runs everything, with sanitizers.
. "${srcdir:-.}/tests/testlib.sh"

library=$builddir/.libs/libaccel.a
sanitizer=$(sed -n 's/^SAN_CFLAGS = //p' "$builddir/Makefile") coverage=$(sed -n 's/^COVERAGE_CFLAGS = //p' "$builddir/Makefile")
warnings="-Wall -Wextra -Wpedantic -Werror -O0 -g1 -I$srcdir/include"
if [ ! -f "$library" ]; then
    skip_rest 'no static library in this build'
fi
# A library that is instrumented already needs the runtime of the compiler that it was built with.
if is_sanitized; then
    compilers=$CXX
else
    compilers=$(for name in g++ clang++; do ! command -v "$name" || :; done | sed 's|.*/||')
    : "${compilers:=$CXX}"
    ! is_long || sanitizer=-fsanitize=address,undefined
fi
# build COMPILER STANDARD SOURCE PROGRAM
build () {
    $1 -std=$2 $warnings -DEXAMPLE_DATA="\"$srcdir/examples/data\"" $sanitizer $coverage "$3" -o "$4" "$library" -lm -pthread
}
launch () {
    processes=$1
    shift
    "$accelerate" launch --cpu --num_processes "$processes" --num_cpu_threads_per_process 1 "$@"
}

# tests_of COMPILER STANDARD: build the test and run it
tests_of () {
    compiler=$1 standard=$2
    test_expect_success "$compiler -std=$standard: accel.hpp" 'build "$compiler" $standard "$srcdir/tests/api/cxx_test.cc" cxx_test'
    for processes in 1 3; do
        test_expect_success "$compiler: $processes process(es)" '
            launch $processes ./cxx_test >said 2>&1 && cat said && ! grep -E "not ok|Bail out|runtime error" said &&
            test "$(grep -c "^1\.\." said)" = $processes'
    done
    test_expect_success "$compiler: an exception ends the job, and the report names the rank it was thrown in" '
        test_exit 1 launch 3 ./cxx_test fail >said 2>&1 && cat said &&
        grep "^accelerate: rank 2 .*exited with status 1" said && grep "^cxx_test: .*this rank cannot" said'
}

# examples_of COMPILER STANDARD: build the examples and run them
examples_of () {
    compiler=$1 standard=$2
    test_expect_success "$compiler -std=$standard: the examples" '
        build "$compiler" $standard "$srcdir/examples/pi.cc" pi && build "$compiler" $standard "$srcdir/examples/train.cc" train'
    test_expect_success 'pi.cc prints what pi.c does' '
        launch 3 ./pi >said && launch 3 "$builddir/examples/pi" >wanted && diff wanted said'
    for processes in 1 2; do
        test_expect_success "train.cc learns on $processes process(es)" '
            launch $processes ./train >said && cat said && awk "END { exit !(\$5 > 95) }" said'
    done
}

first=$(printf '%s\n' "$compilers" | sed -n 1p) last=$(printf '%s\n' "$compilers" | sed -n '$p')
if ! command -v "${first%% *}" >/dev/null; then
    test_skip 'accel.hpp' 'no C++ compiler'
elif is_long; then
    printf '%s\n' "$compilers" >compilers
    while read -r each <&3; do
        case $each in *clang*) one=c++20 two=c++17 ;; *) one=c++17 two=c++20 ;; esac
        tests_of "$each" $one
        examples_of "$each" $two
    done 3<compilers
else
    # clang++ takes half the time of g++.
    tests_of "$last" c++17
    test_expect_success "$first -std=c++20: an example" '
        $first -std=c++20 $warnings -DEXAMPLE_DATA="\"\"" -fsyntax-only "$srcdir/examples/train.cc"'
    test_skip 'everything by each compiler' 'only with TEST_LONG=yes'
fi
test_done
