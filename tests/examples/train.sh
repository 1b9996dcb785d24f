#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# examples/train, the program to copy: it learns, on any number of processes and with mixed precision; killed and
# started again, it ends with the bits of an undisturbed run; libaccel(3) shows its loop.
. "${srcdir:-.}/tests/testlib.sh"

train=$builddir/examples/train
epochs=$(sed -n 's/.* EPOCHS = \([0-9]*\).*/\1/p' "$srcdir/examples/train.c")
launch () {
    "$accelerate" launch --cpu --num_cpu_threads_per_process 1 "$@"
}
# learns LOG: all epochs are there, and at the end 80 % are read right
learns () {
    test "$(grep -c '^epoch' "$1")" = "$epochs" && tail -n 1 "$1" | awk '{ good = $3 >= 80 } END { exit !good }'
}

for processes in 1 2 4; do
    test_expect_success "$processes process(es) learn" '
        launch --num_processes $processes "$train" on$processes >log && learns log'
done
test_expect_success 'as a step has the same samples, 2 processes learn what 1 does' '
    "$accelerate" inspect on1/model.safetensors >one && "$accelerate" inspect on2/model.safetensors >two &&
    sed 1d one >a && sed 1d two >b && diff a b'
for precision in bf16 fp16 fp8; do
    test_expect_success "with mixed precision $precision" '
        launch --num_processes 2 --mixed_precision $precision "$train" $precision >log && learns log &&
        ! cmp -s on2/model.safetensors $precision/model.safetensors'
done

# strike PROCESSES CALL: a run in which a process is killed before this one of its calls that change a file; -1: none
strike () {
    rm -rf killed && launch --num_processes "$1" env LD_PRELOAD="$module" STRIKE_ROOT="$PWD/killed" \
        STRIKE_LOG="$PWD/calls" STRIKE_SIGNAL=9 STRIKE_AT="$2" "$train" killed
}
# continues OPTION...: to the same bits, without doing everything again
continues () {
    launch --num_processes 2 "$@" "$train" killed >log 2>err && cat log err && n=$(grep -c '^epoch' log) &&
        test "$n" -gt 0 && test "$n" -lt "$epochs" && cmp on2/model.safetensors killed/model.safetensors
}
module=$builddir/tests/fault/.libs/strike.so calls=
if [ -f "$module" ] && ! is_sanitized; then
    { strike 1 -1 >/dev/null && calls=$(cat calls); } || :
fi
for part in 1 2 3; do
    name="killed after $part of 4 parts of its writes, it continues to the same bits"
    if [ ! -f "$module" ] || is_sanitized; then
        test_skip "$name" 'needs a module that is loaded first'
        continue
    fi
    test_expect_success "$name" '
        test -n "$calls" && test_exit 137 strike 2 $((calls * part / 4)) && test ! -e killed/model.safetensors &&
        test -e killed/checkpoints/checkpoint_0 && cp -r killed again && continues &&
        rm -r killed && mv again killed && continues --resume killed && grep "resuming from .*killed/checkpoints" err'
done
test_expect_success 'a finished run has nothing to do' '
    cp on2/model.safetensors before && launch --num_processes 2 "$train" on2 >log && ! grep "^epoch" log &&
    cmp before on2/model.safetensors'

test_expect_success 'it has at most 150 lines, and compiles as it is installed' '
    test "$(wc -l <"$srcdir/examples/train.c")" -le 150 &&
    $CC -std=gnu11 -Wall -Wextra -Werror -I"$srcdir/include" -fsyntax-only "$srcdir/examples/train.c"'
awk -f "$srcdir/man/library.awk" "$srcdir"/include/accel/*.h "$srcdir"/man/*.3.in page=libaccel.3 \
    "$srcdir/man/libaccel.3.in" >libaccel.3 || exit 99
# code FILE NAME: that function of a program, or of a page
code () { sed 's/\\e/\\/g; s/\\-/-/g' "$1" | sed -n "/^$2 (/,/^}/p"; }
test_expect_success 'libaccel(3) shows its loop, and README.md names it first' '
    for name in train setup; do
        code "$srcdir/examples/train.c" $name >wanted && test -s wanted || return 1
        code libaccel.3 $name | diff wanted - || return 1
    done && grep -o "examples/[a-z_]*\.c" "$srcdir/README.md" | sed 1q | grep -x "examples/train.c"'
test_done
