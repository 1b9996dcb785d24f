#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Programs that were compiled with former headers still work with this library: functions are only added, and structs only
# grow where they may.  HACKING.md, "The ABI", has the rules.
. "${srcdir:-.}/tests/testlib.sh"

if command -v python3 >/dev/null; then
    test_expect_success 'structs that programs make are passed with their size' 'python3 "$srcdir/tests/lint/sized.py" --check "$srcdir"'
else
    test_skip 'structs that programs make are passed with their size' 'needs python3'
fi

why_not=
for tool in abidw abidiff python3; do
    command -v $tool >/dev/null || why_not="no $tool"
done
[ "$(uname -m)" = x86_64 ] || why_not='the dump is of x86-64'
if [ "$why_not" ]; then
    skip_rest "$why_not"
fi

dump=$srcdir/tests/abi/libaccel.abi # of the last release
test_expect_success 'the structs that may grow' 'python3 "$srcdir/tests/lint/sized.py" --list "$srcdir" >growing'
# Reads what abidiff says of the types and functions that have changed, with the names of the structs that may grow, and
# prints "compatible" or "incompatible".  What it does not know is incompatible.
cat >verdict.awk <<'EOF'
FNR == NR { grows[$1] = 1; next }
/ summary: .*[1-9][0-9]* (Removed|Changed)/ && !/^(Leaf changes|Changed leaf types) summary/ { bad = 1 }
/ summary: .*[1-9][0-9]* Added/ || /enumerator insertion/ { good = 1 }
/^'(struct|union|enum) .* changed:$/ { name = $2; sub (/'$/, "", name); same_size = 0 }
/type size hasn't changed/ { same_size = 1 }
/data member insertion/ {
    good = 1
    # In what was padding, programs have any value.
    if (same_size || !(name in grows))
        bad = 1
}
/data member (change|deletion)|there are data member changes|enumerator (change|deletion)/ { bad = 1 }
END { print bad || !good ? "incompatible" : "compatible" }
EOF

# compare DUMP FOLDER: what has happened to the ABI since the dump, and one word: same, compatible, incompatible
compare () {
    sh "$srcdir/tests/abi/dump.sh" "$2" new.abi || return 1
    status=0
    abidiff --leaf-changes-only "$1" new.abi >report || status=$?
    [ $((status & 3)) = 0 ] || return 1
    cat report
    if [ "$status" = 0 ]; then
        echo same
    else
        awk -f verdict.awk growing report
    fi
}

# was_raised OLD NEW: whether programs linked with the ABI OLD (current:revision:age) do not start with NEW
was_raised () {
    echo "$1:$2" | tr : ' ' | {
        read -r current _ age new_current _ new_age
        [ $((new_current - new_age)) -gt $((current - age)) ]
    }
}

test_expect_success 'what makes programs start no more is the difference of current and age' '
    was_raised 0:0:0 1:0:0 && was_raised 3:2:1 4:0:0 && ! was_raised 0:0:0 1:0:1 && ! was_raised 3:2:1 3:3:1 &&
    ! was_raised 3:2:1 4:0:2'
new=$(sed -n 's/^AC_SUBST(\[ACCEL_ABI\], \[\(.*\)\])/\1/p' "$srcdir/configure.ac")
test_expect_success 'ACCEL_ABI has three numbers, and the age is not more than the current one' '
    echo "$new" | grep -E "^[0-9]+:[0-9]+:[0-9]+$" && test "${new##*:}" -le "${new%%:*}"'
test_expect_success 'the headers of today, to compare with' 'sh "$srcdir/tests/abi/dump.sh" "$srcdir" today.abi'

# padded DUMP FOLDER: the structs that are larger than in the dump, and have padding at their ends
padded () {
    sed -n "s/.*<class-decl name='\\(accel_[a-z0-9_]*\\)' size-in-bits='\\([0-9]*\\)'.*/\\1 \\2/p" "$1" >sizes &&
        test "$(wc -l <sizes)" -gt 25 &&
        python3 "$srcdir/tests/lint/sized.py" --tails "$2" >tails.c && $CC -std=gnu11 -I"$2/include" tails.c -o tails &&
        ./tails >now &&
        awk 'FNR == NR { size[$1] = $2; next }
             $1 in size && $2 > size[$1] && $3 { print $1 ": " $3 / 8 " bytes of padding after its last field" }' sizes now
}

if [ -f "$dump" ]; then
    old=$(sed -n 's/^<!-- ACCEL_ABI \([0-9:]*\);.*/\1/p' "$dump")
    compare "$dump" "$srcdir" >differences
    echo "status $?" >>differences
    case $(tail -n 2 differences | head -n 1) in
    compatible) sed 's/^/# /' differences && echo "# At the release, ACCEL_ABI becomes current + 1, revision 0, age + 1." ;;
    esac
    test_expect_success 'programs compiled before still work, or ACCEL_ABI was raised' '
        cat differences && grep "^status 0$" differences &&
        { ! grep "^incompatible$" differences || was_raised "$old" "$new"; }'
    test_expect_success 'structs that have grown have no padding at their ends, in which programs have any value' '
        padded "$dump" "$srcdir" >found && cat found && test ! -s found'
else
    echo '# Nothing has been released: there are no programs compiled before.'
fi

# is VERDICT HEADER SED-SCRIPT: whether this is the verdict on a header that was changed so
is () {
    verdict=$1
    shift
    rm -rf planted && mkdir -p planted/src/lib && cp -R "$srcdir/include" planted/include &&
        cp "$srcdir/src/lib/libaccel.map" planted/src/lib && chmod -R u+w planted &&
        sed -i "$2" "planted/include/accel/$1" && ! cmp -s "planted/include/accel/$1" "$srcdir/include/accel/$1" || return 1
    compare today.abi planted >planted.out && test "$(tail -n 1 planted.out)" = "$verdict"
}
test_expect_success 'a new function is compatible' '
    is compatible state.h "s/^ACCEL_API void accel_close.*/&\nACCEL_API void accel_planted (int x);/"'
test_expect_success 'a new field at the end of options is compatible' '
    is compatible state.h "s/^    uint64_t tp_size;/&\n    uint64_t planted;/"'
test_expect_success 'a new field with padding after it is found' '
    is compatible state.h "s/^    uint64_t tp_size;/&\n    uint64_t planted;/" && padded today.abi planted >found && test ! -s found &&
    is compatible state.h "s/^    uint64_t tp_size;/&\n    uint64_t planted;\n    bool more;/" && padded today.abi planted >found &&
    grep "^accel_options: 7 bytes of padding" found'
test_expect_success 'a new field in the padding of options is not' '
    is incompatible state.h "s/^    enum accel_flag device_placement;/&\n    bool planted;/"'
test_expect_success 'a new field in the middle of options is not' '
    is incompatible state.h "s/^    enum accel_flag device_placement;/    uint64_t planted;\n&/"'
test_expect_success 'a field with another type is not' '
    is incompatible state.h "s/^    bool check_gradients;/    int check_gradients;/"'
test_expect_success 'a new field of a struct whose size is not passed is not' '
    is incompatible state.h "s/^    size_t padding;/    size_t planted;\n&/" &&
    is incompatible base.h "s/^    char text\[ACCEL_ERROR_TEXT_SIZE\];/&\n    int planted;/"'
test_expect_success 'a function that is gone is not' '
    is incompatible state.h "/^ACCEL_API void accel_set_trigger/d"'
test_expect_success 'a function with one more argument is not' '
    is incompatible state.h "s/accel_set_trigger (struct accel \*acc)/accel_set_trigger (struct accel *acc, int planted)/"'
test_expect_success 'a value of an enum that has moved is not' '
    is incompatible base.h "s/^    ACCEL_NO,/    ACCEL_PLANTED,\n&/"'
test_done
