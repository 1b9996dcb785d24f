#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate merge-weights gets SIGINT, SIGTERM or SIGKILL before each of its calls that change a file: the output is the
# old file or the whole new one, and beside it there is at most what the next merge sweeps away.
. "${srcdir:-.}/tests/testlib.sh"

module=$builddir/tests/fault/.libs/strike.so
if [ ! -f "$module" ]; then
    skip_rest 'this build has no shared libraries'
fi
if is_sanitized; then
    skip_rest 'a sanitizer must be loaded first'
fi
golden=$srcdir/tests/golden

# strike SIGNAL CALL ARGUMENT...: merge-weights, struck before that call; its status in $status
strike () {
    number=$1 at=$2 status=0
    shift 2
    rm -f calls
    timeout $patience env LD_PRELOAD="$module" STRIKE_ROOT="$PWD/to" STRIKE_SIGNAL="$number" STRIKE_AT="$at" STRIKE_LOG="$PWD/calls" \
        "$accelerate" merge-weights "$@" >out 2>error || status=$?
}
# is_whole: the output is the old or the new file
is_whole () { cmp to/model.safetensors old 2>/dev/null || cmp to/model.safetensors new; }
# begin: the output of a former merge
begin () { rm -rf to && mkdir to && cp old to/model.safetensors; }
# try SIGNAL CALL: one merge into a folder with an old file, and one after it
try () {
    begin && strike "$1" "$2" "$input" to && is_whole || return 1
    case $1 in
    9) test "$status" = 137 && ! find to -mindepth 1 ! -name model.safetensors ! -name '.model.safetensors.*.partial' | grep . ;;
    *)  # it ended by itself, and tells what it did
        test "$(ls -A to)" = model.safetensors &&
            if [ "$status" = 0 ]; then cmp to/model.safetensors new
            else test "$status" = $((128 + $1)) && cmp to/model.safetensors old; fi ;;
    esac && "$accelerate" merge-weights "$input" to >out && cmp to/model.safetensors new && test "$(ls -A to)" = model.safetensors
}
# all SIGNAL: each call
all () {
    begin && strike 0 -1 "$input" to && count=$(cat calls) && test "$count" -gt 4 || return 1
    at=0
    while [ $at -lt "$count" ]; do
        try "$1" $at || { echo "call $at of $count, status $status" && ls -la to && cat out error && return 1; }
        at=$((at + 1))
    done
    echo "$count calls"
}

cp "$golden/dcp/grid.safetensors" old
for input in $golden/save_model/sharded $golden/dcp/fsdp1; do
    test_expect_success "the new file of ${input##*/}" '"$accelerate" merge-weights "$input" whole && mv whole/model.safetensors new'
    for signal in 2 15 9; do
        test_expect_success "${input##*/}: signal $signal before each call" 'all $signal'
    done
done
# A checkpoint that is removed is not missed: the output is whole before that begins.
test_expect_success '--remove_checkpoint_dir is killed at each call' '
    at=-1 && status=137 && while [ "$status" != 0 ] && [ $at -lt 200 ]; do
        at=$((at + 1)) && begin && cp -R "$golden/dcp/fsdp1" to/input || return 1
        strike 9 $at --remove_checkpoint_dir to/input to || return 1
        strike_status=$status
        is_whole || return 1
        cmp to/model.safetensors new || "$accelerate" merge-weights to/input again || return 1
        status=$strike_status
    done && test $at -gt 8'
# The names of the new folders, the bytes of the new file and its name, and only then is anything removed.
test_expect_success '--remove_checkpoint_dir comes after all syncs, those of new folders, too' '
    mkdir fresh && cp -R "$golden/dcp/fsdp1" fresh/input &&
    LD_PRELOAD="$module" STRIKE_ROOT="$PWD/fresh" STRIKE_NAMES="$PWD/names" \
        "$accelerate" merge-weights --remove_checkpoint_dir "$PWD/fresh/input" "$PWD/fresh/to/there" >out &&
    uniq names >order && test "$(sed -n "/remove/q;p" order | tr "\n" " ")" = \
        "mkdir fsync mkdir fsync open ftruncate pwrite fsync rename fsync " && test ! -e fresh/input'
test_done
