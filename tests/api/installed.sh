#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An installed tree, moved to another place: CMake and pkg-config find the library, man(1) every function; uninstalling
# leaves nothing.
. "${srcdir:-.}/tests/testlib.sh"

unset MAKEFLAGS MAKELEVEL MFLAGS MAKEOVERRIDES
prefix=$(sed -n 's/^prefix = //p' "$builddir/Makefile")
make=$(sed -n 's/^MAKE = //p' "$builddir/Makefile")
: "${make:=make}"
# A build that fails here has failed already, with its own message.
test_expect_success 'make install' '
    $make -C "$builddir" -s install DESTDIR="$scratch/staged" && find staged -type f -o -type l | sort >installed && test -s installed && cp -a "staged$prefix" moved'

# What is tested with a library that needs the runtime of a sanitizer is the sanitizer.
compile_tests () {
    if is_sanitized; then
        echo 'sanitizers'
    elif [ ! -e moved/lib/libaccel.so ]; then
        echo 'no shared library in the prefix lib'
    fi
}
why_not=$(compile_tests)
if [ "$why_not" ]; then
    test_skip 'building against the installed tree' "$why_not"
else
    test_expect_success 'pkg-config' '
        pc=moved/lib/pkgconfig/libaccel.pc && grep "^URL: file://.*/README.md$" $pc &&
        flags=$(PKG_CONFIG_PATH=moved/lib/pkgconfig pkg-config --define-variable=prefix="$scratch/moved" --cflags --libs libaccel) &&
        $CC "$srcdir/examples/pi.c" -o pi $flags && LD_LIBRARY_PATH=moved/lib ./pi >out && grep "^pi is about 3.14" out'
    mkdir project
    cat >project/CMakeLists.txt <<'E2'
cmake_minimum_required (VERSION 3.13)
project (pi C)
find_package (accel ${WANTED} REQUIRED)
foreach (kind accel accel_static)
  if (TARGET accel::${kind})
    add_executable (pi_${kind} pi.c)
    target_link_libraries (pi_${kind} PRIVATE accel::${kind})
  endif ()
endforeach ()
E2
    cp "$srcdir/examples/pi.c" project
    if ! command -v cmake >/dev/null; then
        test_skip 'find_package (accel)' 'no cmake'
    else
        test_expect_success 'find_package (accel) builds an example, wherever the tree lies' '
            CC="$CC" cmake -S project -B built -DCMAKE_PREFIX_PATH="$scratch/moved" -DWANTED=0.1 &&
            cmake --build built && built/pi_accel >out && grep "^pi is about 3.14" out &&
            readelf -d built/pi_accel | grep "NEEDED.*libaccel.so.0" &&
            { ! test -e moved/lib/libaccel.a || { built/pi_accel_static >other && diff out other; }; }'
        # Without a language, CMake looks for no compiler, which takes most of its time.
        mkdir versions
        printf '%s\n' 'cmake_minimum_required (VERSION 3.13)' 'project (versions NONE)' 'find_package (accel ${WANTED} REQUIRED)' \
            >versions/CMakeLists.txt
        # wants VERSION STATUS
        wants () {
            got=0
            cmake -S versions -B "built$1" -DCMAKE_PREFIX_PATH="$scratch/moved" "-DWANTED=$1" >said 2>&1 || got=1
            [ "$got" = "$2" ] || { cat said && echo "version $1: status $got" && return 1; }
        }
        test_expect_success 'versions' 'wants 0.1.0 0 && wants 0.2 1 && wants 1 1 && wants 0.0.9 1 && wants 0.1.1 1'
    fi
    # lint/man.sh only compiles them.
    ! is_long || for page in $(cd "$srcdir/man" && grep -l '^main' -- *.3.in *.7); do
        sed -n '/^\.Bd -literal$/,/^\.Ed$/p' "$srcdir/man/$page" | sed '1d; $d; s/\\e/\\/g' >example.c
        ! grep -q '\.hpp>' example.c || continue
        test_expect_success "the program in $page runs on two processes" '
            $CC -std=gnu11 example.c -o example -Imoved/include -Lmoved/lib -laccel && mkdir -p files && cd files &&
            LD_LIBRARY_PATH=../moved/lib timeout $patience "$accelerate" launch --cpu --num_processes 2 ../example'
    done
fi

nm -D --defined-only "$builddir/.libs/libaccel.so" 2>/dev/null | sed 's/@.*//' | awk '$2 == "T" { print $3 }' | grep '^accel_' |
    sort >functions
man --version >version 2>/dev/null || :
if ! grep -q '^man ' version || [ "$(sed -n 's/^mandir = //p' "$builddir/Makefile")" != '${datarootdir}/man' ]; then
    test_skip 'man finds every function' 'no man(1) of man-db, or pages elsewhere'
elif [ ! -s functions ]; then
    test_skip 'man finds every function' 'no shared library'
else
    test_expect_success 'man finds every function, and its page names it' '
        test "$(wc -l <functions)" -gt 150 &&
        man -M moved/share/man -w 3 $(cat functions) >pages && paste functions pages >found &&
        test "$(wc -l <pages)" = "$(wc -l <functions)" &&
        while read -r name page; do
            while read -r word other <"$page" && [ "$word" = .so ]; do page=moved/share/man/$other; done
            name=${name%_at} name=${name%_sized} && grep -qE "(Nm|F[no]) $name( |$)" "$page" || { echo "$page does not name $name"; return 1; }
        done <found'
    test_expect_success 'man shows the page' 'man -M moved/share/man -P cat accel_open >page && grep -i "accel_open" page'
    if command -v mandb >/dev/null && command -v apropos >/dev/null; then
        test_expect_success 'apropos finds functions by their names' '
            mandb -q -c -u moved/share/man && apropos -M moved/share/man reduce >found && cat found && grep "^accel_reduce_scatter (3)" found &&
            grep "^accel_comm_all_reduce (3)" found && apropos -M moved/share/man accel_tree_map >found &&
            grep "tensors in lists" found'
    else
        test_skip 'apropos finds functions by their names' 'no mandb'
    fi
fi
test_expect_success 'the commands that have a program of their own in the package of Accelerate' '
    for name in launch config estimate-memory merge-weights; do
        moved/bin/accelerate-$name --help >out && grep "^usage: accelerate $name " out &&
        grep "/accelerate-$name\$" installed && grep "/accelerate-$name.fish\$" installed || return 1
    done'
test_expect_success 'make uninstall leaves nothing' '
    $make -C "$builddir" -s uninstall DESTDIR="$scratch/staged" && find staged -type f -o -type l -o -name "accel*" ! -name "accel-[0-9]*" >left && cat left &&
    test ! -s left'
test_done
