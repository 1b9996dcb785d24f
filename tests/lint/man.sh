#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Manual pages are well-formed, and those of the library have all that the headers declare.
. "${srcdir:-.}/tests/testlib.sh"

mkdir pages && cp "$srcdir"/man/*.[157] pages
test_expect_success 'the pages of the library are made' '
    for page in "$srcdir"/man/*.3.in; do
        name=$(basename "$page" .in) && awk -f "$srcdir/man/library.awk" "$srcdir"/include/accel/*.h "$srcdir"/man/*.3.in \
            page=$name "$page" >pages/$name || return 1
    done'

for page in pages/*.[1357]; do
    if command -v mandoc >/dev/null; then
        test_expect_success "$(basename "$page")" "mandoc -Tlint -Wwarning '$page'"
    else
        test_skip "$(basename "$page")" 'no mandoc'
    fi
done

test_expect_success 'macros in lines of text, which mandoc takes for words' '
    for page in pages/*.[1357]; do
        sed "/^\.Bd/,/^\.Ed/d" "$page" | awk "/^[^.].* \.[A-Z][a-z]( |\$)/ { print; bad = 1 } END { exit bad }" ||
            { echo "in $page" && return 1; }
    done'

test_expect_success 'headings whose first word is a macro lose it' \
    '! grep -nE "^\.S[sh] (Ad|An|Ap|Ar|At|Do|Er|Ex|In|Lb|Li|Ms|Nd|Nm|No|Ns|Op|Os|Pa|Re|So|St|Tn|Up|Va) " pages/*.[1357]'

# What groff says of prototypes, whose arguments it does not break.
synopsis="warning .*: (cannot (adjust|break)|can.t break) line"
# The formatter that Debian's man(1) uses, at 80 columns: lines that it cannot break stand out of the page.
if command -v groff >/dev/null; then
    test_expect_success 'groff warns of nothing' \
        'for page in pages/*.[1357]; do groff -mandoc -Tutf8 -rLL=78n -z "$page" || return 1; done >lines 2>&1 &&
        { grep -vE "$synopsis" lines >said || :; } && cat said && test ! -s said'
else
    test_skip 'groff warns of nothing' 'no groff'
fi

test_expect_success 'examples fit into 80 columns' '
    ! awk "/^\.Bd/ { width = /-offset/ ? 69 : 75 } /^\.Ed/ { width = 0 }
           width { line = \$0; gsub (/\\\\[e&-]/, \".\", line); if (length (line) > width) print FILENAME \":\" FNR \": \" \$0 }" \
        pages/*.[1357] | grep .'

cat "$srcdir"/include/accel/*.h | awk '/^ACCEL_API/ { text = "" ; open = 1 }
     open { text = text " " $0 }
     open && /;/ { open = 0; if (match (text, /accel_[a-z0-9_]+ \(/)) print substr (text, RSTART, RLENGTH - 2) }' |
    sed 's/_at$//; s/_sized$//' | sort -u >functions
cat "$srcdir"/include/accel/*.h | sed -nE 's/^(struct|enum|union) (accel[a-z0-9_]*)( \{.*|;)$/\2/p
    s/^typedef .*\(\*(accel[a-z0-9_]*)\) .*/\1/p; s/^typedef .* (accel[a-z0-9_]*);/\1/p' | sort -u >types
sort -u functions types >declared
test_expect_success 'every function and type is in the NAME section of one page, for man(1) and apropos(1)' '
    test -s functions && test -s types && for page in pages/*.3; do
        sed -n "/^\.Sh NAME\$/,/^\.Nd /s/^\.Nm \(accel[a-z0-9_]*\).*/\1/p" "$page"
    done | sort >listed && uniq -d listed >twice && comm -13 listed declared >missing && cat twice missing &&
    test ! -s twice && test ! -s missing'
# What a page lacks because it has no line @synopsis@ or @types@, or because library.awk does not see it in the headers.
test_expect_success 'every function is in a SYNOPSIS, and every type is printed' '
    sed -n "s/^\.Fo //p" pages/*.3 | sort -u | comm -13 - functions >missing &&
    sed -nE "s/^\.Ss (struct |enum )?(accel[a-z0-9_]*)$/\2/p" pages/*.3 | sort -u | comm -13 - types >>missing &&
    cat missing && test ! -s missing'
test_expect_success 'the body of every struct and enum is printed' '
    cat "$srcdir"/include/accel/*.h | grep -oE "^(struct|enum|union) accel[a-z0-9_]* \{" | sort -u >bodies && test -s bodies &&
    grep -ohE "^(struct|enum|union) accel[a-z0-9_]* \{" pages/*.3 | sort -u | comm -13 - bodies >missing && cat missing &&
    test ! -s missing'
test_expect_success 'library.awk refuses a line that it does not know' '
    echo "@sinopsis@" >wrong.3.in && test_exit 1 awk -f "$srcdir/man/library.awk" page=wrong.3 wrong.3.in 2>error &&
    grep "wrong.3.in:1: .@sinopsis@. is not a form" error'

# Whole programs in the examples compile, as C or, if they are marked, as C++.
for page in $(cd "$srcdir/man" && grep -l "^main" -- *.3.in *.7); do
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
