#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accel.hpp and the examples in C++: built without warnings and with sanitizers by each compiler that is here, and run.
. "${srcdir:-.}/tests/testlib.sh"

library=$builddir/.libs/libaccel.a
sanitizer=$(sed -n 's/^SAN_CFLAGS = //p' "$builddir/Makefile") coverage=$(sed -n 's/^COVERAGE_CFLAGS = //p' "$builddir/Makefile")
warnings="-Wall -Wextra -Wpedantic -Werror -O0 -g -I$srcdir/include"
if [ ! -f "$library" ]; then
    test_skip 'accel.hpp' 'no static library in this build'
    test_done
fi
# A library that is instrumented already needs the runtime of the compiler that it was built with.
if is_sanitized; then
    compilers=$CXX
else
    sanitizer=-fsanitize=address,undefined
    compilers="g++ clang++"
fi
# build COMPILER STANDARD SOURCE PROGRAM
build () {
    $1 -std=$2 $warnings $sanitizer $coverage "-DEXAMPLE_DATA=\"$srcdir/examples/data\"" "$3" -o "$4" "$library" -lm -pthread
}
launch () {
    processes=$1
    shift
    "$accelerate" launch --cpu --num_processes "$processes" --num_cpu_threads_per_process 1 "$@"
}

for compiler in $compilers; do
    if ! command -v "${compiler%% *}" >/dev/null; then
        test_skip "$compiler" 'no such compiler'
        continue
    fi
    # Each standard is half of the work of each compiler.
    case $compiler in *clang*) one=c++20 two=c++17 ;; *) one=c++17 two=c++20 ;; esac
    test_expect_success "$compiler -std=$one: accel.hpp" 'build "$compiler" $one "$srcdir/tests/cli/cxx_test.cc" cxx_test'
    for processes in 1 3; do
        test_expect_success "$compiler: $processes process(es)" '
            launch $processes ./cxx_test >said 2>&1 && cat said && ! grep -E "not ok|Bail out|runtime error" said &&
            test "$(grep -c "^1\.\." said)" = $processes'
    done
    test_expect_success "$compiler: an exception ends the job, and the report names the rank it was thrown in" '
        test_exit 1 launch 3 ./cxx_test fail >said 2>&1 && cat said &&
        grep "^accelerate: rank 2 .*exited with status 1" said && grep "^cxx_test: .*this rank cannot" said'
    if [ -f pi ]; then
        test_expect_success "$compiler -std=$two: the examples compile" '
            $compiler -std=$two $warnings -fsyntax-only "$srcdir/examples/pi.cc" "$srcdir/examples/train.cc"'
        continue
    fi
    test_expect_success "$compiler -std=$two: the examples" '
        build "$compiler" $two "$srcdir/examples/pi.cc" pi && build "$compiler" $two "$srcdir/examples/train.cc" train'
    test_expect_success 'pi.cc prints what pi.c does' '
        launch 3 ./pi >said && launch 3 "$builddir/examples/pi" >wanted && diff wanted said'
    for processes in 1 2; do
        test_expect_success "train.cc learns on $processes process(es)" '
            launch $processes ./train >said && cat said && tail -n 1 said | awk "{ exit !(\$5 > 95) }"'
    done
done
test_done
