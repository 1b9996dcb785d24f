#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# No shell test ignores the exit status of a command; and the script that finds such commands works.
. "${srcdir:-.}/tests/testlib.sh"

if ! command -v python3 >/dev/null; then
    skip_rest 'no python3'
fi
lint () { python3 "$srcdir/tests/lint/status.py" "$@"; }

test_expect_success 'every status of every shell test counts' \
    'lint "$srcdir/tests/testlib.sh" "$srcdir/tests/hand.sh" "$srcdir"/tests/*/*.sh "$srcdir"/tests/unit/*/*.sh'

# ---- planted cases: "== lost" or "== counts", a name, and the lines of a test ----
cat >cases <<'END'
== lost a newline instead of && in a body
test_expect_success 'x' '
    "$drive" -- ./rank >out
    grep word out'
== lost the same in a function that a chain calls
train () {
    test_exit "$1" "$drive" -- ./rank >out
    cat out
    ! grep WRONG out
}
test_expect_success 'x' 'train 0 && grep word out'
== lost a semicolon
test_expect_success 'x' 'test_exit 2 "$accelerate" confg 2>error; grep word error'
== lost a pipe to a filter
test_expect_success 'x' '"$drive" -- ./rank | grep word'
== lost a pipe in a function
run () {
    "$accelerate" launch "$@" | sort >got
}
== lost a program in $(...)
test_expect_success 'x' 'test "$("$accelerate" launch ./show)" = word'
== lost what follows !
test_expect_success 'x' '
    ! grep WRONG out
    grep word out'
== lost the rounds of a loop but the last
test_expect_success 'x' 'for n in 1 2; do ./rank $n; done && grep word out'
== lost what a loop decides on
test_expect_success 'x' 'while read -r n; do ./rank $n | grep word; done <list'
== lost between the branches of an if
run () {
    if [ "$1" = 1 ]; then
        ./rank
        grep word out
    fi
}
== lost in a subshell
test_expect_success 'x' '(ulimit -c 0; ./rank; grep word out)'
== lost in the background, for ever
test_expect_success 'x' './rank & grep word out'
== lost outside of tests
"$faults" list >names
test_expect_success 'x' 'test -s names'
== lost in a body in double quotes
test_expect_success "x" "
    './rank' \"$1\"
    grep word out"
== lost in a body made of several quotes
test_expect_success "x" '
    ./rank '"$1"'
    grep word out'
== lost in a body that another function hands on
sometimes () { test_expect_success "$@"; }
sometimes 'x' './rank; grep word out'
== lost after a here-document
test_expect_success 'x' '
    cat >in <<-LINES &&
	it'\''s
	LINES
    ./rank <in
    grep word out'
== counts a chain
test_expect_success 'x' '
    test_exit 7 "$drive" -- ./rank >out && ! grep WRONG out &&
    test "$(grep -c word out)" = 2'
== counts a status that is read
test_expect_success 'x' '{ ./rank; echo $? >status; } | head -n 1 && test "$(cat status)" = 0'
== counts a loop that stops
test_expect_success 'x' 'for n in 1 2; do ./rank $n || return 1; done && grep word out'
== counts a job that is waited for
test_expect_success 'x' '{ ./rank & } && job=$! && wait $job'
== counts where it is said that it does not
test_expect_success 'x' '{ ./rank || :; } && grep word out'
== counts text from tools
words () { sed 's/a/b/' "$1" | sort -u; }
test_expect_success 'x' 'words out | grep word && test "$(words out | wc -l)" = 2'
== counts functions that declare tests
scenario () {
    test_expect_success "$1" './rank && grep word out'
    sed 's/^/# /' out
}
scenario one
scenario two
END
awk '/^== / { close (file); file = sprintf ("case%02d.sh", ++n); sub (/^== /, "# "); } { print >file }' cases
for file in case*.sh; do
    read -r _ verdict name <"$file"
    case $verdict in
    lost) test_expect_success "found: $name" 'test_exit 1 lint "$file" >said && grep "goes nowhere\$" said' ;;
    counts) test_expect_success "left alone: $name" 'lint "$file"' ;;
    esac
done
test_expect_success 'what cannot be read is an error' '
    echo "for n in 1; do echo \$n" >open.sh && test_exit 1 lint open.sh >said && grep "cannot be read" said'

# ---- what testlib.sh itself holds while tests run ----
cat >broken.sh <<'END'
. "$srcdir/tests/testlib.sh"
test_expect_success 'a newline' 'false
    true'
test_expect_success 'a semicolon' 'false; true'
test_expect_success 'a group' '{ false; true; }'
test_expect_success 'a loop' 'for n in 1 2; do [ $n = 2 ]; done'
test_expect_success 'a wrong status' 'test_exit 3 false'
test_expect_success 'or' 'false || true'
test_done
END
test_expect_success 'testlib.sh refuses a body that loses one' '
    test_exit 1 sh broken.sh >said && test "$(grep -c "^not ok" said)" = 6 && ! grep "^ok" said'
test_expect_success 'no tests are a failure' '
    printf ". \"%s\"\ntest_done\n" "$srcdir/tests/testlib.sh" >none.sh && test_exit 1 sh none.sh'
test_done
