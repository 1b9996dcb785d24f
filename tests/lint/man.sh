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

test_expect_success 'macros in lines of text, which mandoc takes for words' '
    for page in "$srcdir"/man/*.[1357]; do
        sed "/^\.Bd/,/^\.Ed/d" "$page" | awk "/^[^.].* \.[A-Z][a-z]( |\$)/ { print; bad = 1 } END { exit bad }" ||
            { echo "in $page" && return 1; }
    done'

test_expect_success 'headings whose first word is a macro lose it' \
    '! grep -nE "^\.S[sh] (Ad|An|Ap|Ar|At|Do|Er|Ex|In|Lb|Li|Ms|Nd|Nm|No|Ns|Op|Os|Pa|Re|So|St|Tn|Up|Va) " "$srcdir"/man/*.[1357]'

# groff 1.23 says so of each prototype, whose arguments it does not break, where 1.22 was silent.
synopsis='warning .*: cannot \(adjust\|break\) line'
groff --version >version 2>&1 || :
! grep -q ' 1\.22' version || synopsis='^$'
# The formatter that Debian's man(1) uses, at 80 columns: lines that it cannot break stand out of the page.
if command -v groff >/dev/null; then
    test_expect_success 'groff warns of nothing' \
        'for page in "$srcdir"/man/*.[1357]; do groff -mandoc -Tutf8 -rLL=78n -z "$page" || return 1; done >lines 2>&1 &&
        { grep -v "$synopsis" lines >said || :; } && cat said && test ! -s said'
else
    test_skip 'groff warns of nothing' 'no groff'
fi

test_expect_success 'examples fit into 80 columns' '
    ! awk "/^\.Bd/ { width = /-offset/ ? 69 : 75 } /^\.Ed/ { width = 0 }
           width { line = \$0; gsub (/\\\\[e&-]/, \".\", line); if (length (line) > width) print FILENAME \":\" FNR \": \" \$0 }" \
        "$srcdir"/man/*.[1357] | grep .'

# libaccel(3) names every function (collectives by their macro) and every status, with the words of the header.
grep -oE 'Fn accel_[a-z0-9_]+' "$srcdir/man/libaccel.3" | sed 's/Fn //' | sort -u >named
cat "$srcdir"/include/accel/*.h | awk '/^ACCEL_API/ { text = "" ; open = 1 }
     open { text = text " " $0 }
     open && /;/ { open = 0; if (match (text, /accel_[a-z0-9_]+ \(/)) print substr (text, RSTART, RLENGTH - 2) }' |
    sed 's/_at$//; s/_sized$//' | grep -v '^accel_prepare_end_mark$' | sort -u >declared
test_expect_success 'libaccel(3) names every function' 'test -s declared && comm -13 named declared >missing && test ! -s missing'
test_expect_success 'every function is in the NAME section of one page, for man(1) and apropos(1)' '
    for page in "$srcdir"/man/*.3; do
        sed -n "/^\.Sh NAME\$/,/^\.Nd /s/^\.Nm \(accel_[a-z0-9_]*\).*/\1/p" "$page"
    done | sort >listed && uniq -d listed >twice && comm -13 listed declared >missing && cat twice missing &&
    test ! -s twice && test ! -s missing'
sed -n 's/^ *X (\(OK\|ERR_[A-Z_]*\), .*/ACCEL_\1/p' "$srcdir/include/accel/base.h" >statuses
test_expect_success 'libaccel(3) names every status' \
    'test -s statuses && for s in $(cat statuses); do grep -q "^\.It Dv $s\$" "$srcdir/man/libaccel.3" || { echo "$s"; exit 1; }; done'

# Whole programs in the examples are programs, in C or, where they say so, in C++.
for page in $(cd "$srcdir/man" && grep -l "^main" -- *.[37]); do
    sed -n '/^\.Bd -literal$/,/^\.Ed$/p' "$srcdir/man/$page" | sed '1d; $d; s/\\e/\\/g' >$page.c
    if grep -q '^#include .*\.hpp>' $page.c; then
        mv $page.c $page.cc
        if command -v "${CXX%% *}" >/dev/null; then
            test_expect_success "the example of $page compiles as C++17" \
                'grep -q "^main" $page.cc && $CXX -std=c++17 -Wall -Wextra -Werror -I"$srcdir/include" -fsyntax-only $page.cc'
        else
            test_skip "the example of $page compiles as C++17" 'no C++ compiler'
        fi
        continue
    fi
    test_expect_success "the example of $page compiles" \
        'grep -q "^main" $page.c && $CC -std=gnu11 -Wall -Werror -I"$srcdir/include" -fsyntax-only $page.c'
done
test_done
