#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# No files, and no folders, that need each other in a circle; circles.py says what counts.
. "${srcdir:-.}/tests/testlib.sh"

if ! command -v python3 >/dev/null; then
    skip_rest 'needs python3'
fi
circles=$srcdir/tests/lint/circles.py
test_expect_success 'no circles between folders, and none within one without a reason' \
    'python3 "$circles" "$srcdir" "$builddir" >numbers'
sed -n '$s/^/# /p' numbers

# house NAME=TEXT...: a house of these files, compiled; say what is found
house () {
    rm -rf house
    for file; do
        name=house/src/${file%%=*}
        mkdir -p "${name%/*}" && printf '%b\n' "${file#*=}" >"$name" || return 1
    done
    for source in $(cd house && find src -name '*.c'); do
        mkdir -p "house/build/${source%/*}" &&
            (cd house && $CC -Isrc -c -o "build/${source%.c}.o" "$source") || return 1
    done
    python3 "$circles" house house/build >out 2>&1
    found=$?
    cat out
    return $found
}
a='int b (void); int a (void); int a (void) { return b (); }'
b='int b (void); int b (void) { return 1; }'
calls_a='int a (void); int b (void); int b (void) { return a (); }'
test_expect_success 'a house without a circle' \
    'house "util/a.c=$a" "util/b.c=$b" && grep "circles between files: 0, between folders: 0" out'
test_expect_success 'two files that call each other' \
    '! house "util/a.c=$a" "util/b.c=$calls_a" && grep "circle of 2 files, NO REASON: a b" out &&
     grep "util/a -> util/b: b" out'
test_expect_success 'a file that includes the header of one that calls it' \
    '! house "util/a.c=$a" "util/a.h=" "util/b.c=#include \"util/a.h\"\n$b" && grep "NO REASON: a b" out'
test_expect_success 'a reason within a folder' \
    'house "util/a.c=/* circle: a b: lists\n * in lists */\n$a" "util/b.c=$calls_a" && grep "reason in a.c: a b" out'
test_expect_success 'a reason that is empty, or names other files' \
    '! house "util/a.c=/* circle: a b: */\n$a" "util/b.c=$calls_a" &&
     ! house "util/a.c=/* circle: a b c: lists */\n$a" "util/b.c=$calls_a"'
test_expect_success 'a reason for a circle that is gone' \
    '! house "util/a.c=/* circle: a b: lists */\n$a" "util/b.c=$b" && grep "does not exist: a b" out'
test_expect_success 'no reason helps between folders' \
    '! house "util/a.c=/* circle: a b: lists */\n$a" "config/b.c=$calls_a" && grep "circle of 2 folders" out'
test_expect_success 'rooms of src/lib are folders, and what is below them belongs to them' \
    '! house "lib/comm/a.c=$a" "lib/data/b.c=$calls_a" && grep "circle of 2 folders: src/lib/comm src/lib/data" out &&
     ! house "lib/comm/a.c=$a" "lib/comm/watch/b.c=$calls_a" && grep "circles between files: 1, between folders: 0" out'
test_expect_success 'calls through pointers do not count' \
    'house "util/a.c=int a (int (*b) (void)); int a (int (*b) (void)) { return b (); }" \
         "util/b.c=int a (int (*b) (void)); int c (void); static int d (void) { return 1; } int c (void) { return a (d); }"'
test_expect_success 'a source without an object is reported' \
    'house "util/a.c=$a" "util/b.c=$b" && rm house/build/src/util/b.o && ! python3 "$circles" house house/build'
test_done
