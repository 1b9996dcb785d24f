#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Programs that were compiled with older and newer headers, whose structs have fewer and more fields, work with this
# library; one that sets a field that the library does not have gets an error.
. "${srcdir:-.}/tests/testlib.sh"

if is_sanitized || [ ! -e "$builddir/.libs/libaccel.so" ]; then
    skip_rest 'needs a shared library, without sanitizers'
fi

# headers NAME: a copy to change
headers () {
    cp -R "$srcdir/include" "$1" && chmod -R u+w "$1"
}

# cut_struct NAME HEADER STRUCT FIELD: the struct as it was before that field and those after it
cut_struct () {
    awk -v begin="struct $3 {" -v field="$4" '
        $0 == begin { inside = 1 }
        inside && match ($0, "[ *(]" field "[;)]") { dropping = found = 1 }
        /^};/ { inside = dropping = 0 }
        !dropping
        END { exit !found }' "$1/accel/$2" >remains && cat remains >"$1/accel/$2"
}

# grow NAME: all structs that may grow, with one more field
grow () {
    python3 "$srcdir/tests/lint/sized.py" --list "$srcdir" >growing &&
        for header in "$1"/accel/*.h; do
            awk 'FNR == NR { grows["struct " $1 " {"] = 1; next }
                 $0 in grows { inside = 1 }
                 /^};/ && inside { print "    uint64_t newest;"; inside = 0 }
                 { print }' growing "$header" >grown && cat grown >"$header" || return 1
        done
}

# build NAME FLAG...: the program with these headers
build () {
    name=$1
    shift
    $CC -std=gnu11 -Wall -Werror "-I$name" "$@" "$srcdir/tests/abi/program.c" -o "program-$name" "-L$builddir/.libs" \
        -laccel "-Wl,-rpath,$builddir/.libs"
}

cat >expected <<'EOF'
loss scale 2
5 samples in 3 batches
parameters 0.75 and 0.875, next rates 0.25 and 0.125
EOF
test_expect_success 'with the headers of today' '
    headers today && build today && ./program-today >out && diff expected out'

cat >older <<'EOF'
state.h accel_options check_gradients
state.h accel_grad_scaler growth_interval
dataset.h accel_dataset read_many
loader.h accel_loader_options workers
train.h accel_param_group nesterov
layout.h accel_array dtype
layout.h accel_array_row offset
scheduler.h accel_scheduler_options group
EOF
test_expect_success 'with older headers, whose structs have fewer fields' '
    headers shorter &&
    while read -r header struct field; do
        cut_struct shorter "$header" "$struct" "$field" || return 1
    done <older &&
    build shorter && ./program-shorter >out && diff expected out'
if command -v python3 >/dev/null; then
    test_expect_success 'with newer headers, whose structs have more fields' '
        headers longer && grow longer && test "$(cat longer/accel/*.h | grep -c newest)" -gt 25 &&
        build longer && ./program-longer >out && diff expected out'
    test_expect_success 'a new field that is set is refused, with what to do' '
        build longer -DNEWEST && test_exit 1 ./program-longer >out 2>err && test ! -s out &&
        grep "accel_open: .options. sets a field that libaccel [0-9.]* does not have .*install" err'
else
    test_skip 'newer headers' 'needs python3'
fi
test_done
