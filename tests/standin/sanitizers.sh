#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sanitizers see into kernels that are compiled for the host: each mistake is found by the one that is for it.
. "${srcdir:-.}/tests/testlib.sh"
if ! is_long; then
    skip_rest 'TEST_LONG=yes runs it'
fi
standin=$srcdir/tests/standin

# can CC CXX FLAG...: whether these compilers have the sanitizer
can () {
    cc=$1 cxx=$2
    shift 2
    echo 'int main (void) { return 0; }' >probe.c && cp probe.c probe.cc && $cc "$@" -o probe probe.c && $cxx "$@" -o probe probe.cc
}
# build CC CXX FLAG...: ./planted with these flags
build () {
    cc=$1 cxx=$2
    shift 2
    for file in fibers memory order queue calls costs graph launch; do
        $cc -std=gnu11 "$@" -O1 -g -ffp-contract=off -D_GNU_SOURCE -I"$builddir" -I"$srcdir" -I"$standin/include" \
            -c "$standin/cuda/$file.c" -o "$file.o" || return 1
    done
    $cxx -std=gnu++17 "$@" -O1 -g -ffp-contract=off -I"$srcdir/src" -I"$srcdir/include" -I"$srcdir" \
        -I"$standin/include" -o planted "$standin/planted.cc" ./*.o -lpthread -ldl
}
# silent: nothing is found where there is nothing
silent () {
    timeout $patience ./planted none 2 >out 2>&1 && grep "none: right" out && ! grep -i sanitizer out
}
# found MISTAKE WORDS
found () {
    { timeout $patience ./planted "$1" 2 >out 2>&1 || :; } && grep "$2" out
}

if can "$CC" "$CXX" -fsanitize=address,undefined 2>can.out; then
    test_expect_success 'address sanitizer: build' 'build "$CC" "$CXX" -fsanitize=address,undefined -fno-sanitize-recover=all'
    test_expect_success 'address sanitizer: silent' silent
    test_expect_success 'address sanitizer: beyond device memory' 'found beyond-global "heap-buffer-overflow"'
    test_expect_success 'undefined sanitizer: beyond shared memory' 'found beyond-shared "out of bounds"'
else
    test_skip 'address sanitizer' "$CC cannot build with it"
fi
if can "$CC" "$CXX" -fsanitize=thread 2>can.out; then
    test_expect_success 'thread sanitizer: build' 'build "$CC" "$CXX" -fsanitize=thread'
    test_expect_success 'thread sanitizer: silent' silent
    test_expect_success 'thread sanitizer: no barrier' 'found no-barrier "data race"'
    test_expect_success 'thread sanitizer: no atomic operation' 'found no-atomic "data race"'
else
    test_skip 'thread sanitizer' "$CC cannot build with it"
fi
if can clang clang++ -fsanitize=memory 2>can.out; then
    test_expect_success 'memory sanitizer: build' 'build clang clang++ -fsanitize=memory -DSTANDIN_UNDEFINED'
    test_expect_success 'memory sanitizer: silent' silent
    test_expect_success 'memory sanitizer: never written' 'found unwritten "use-of-uninitialized-value"'
else
    test_skip 'memory sanitizer' 'clang++ cannot build with it'
fi
test_done
