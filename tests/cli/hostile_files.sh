#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Files that mean harm, and each reader of them: accel_safetensors_open, accel_load_model, accel_load_state, inspect and
# merge-weights refuse each with one line that says why, and read nothing outside the folder.
. "${srcdir:-.}/tests/testlib.sh"

hostile=$builddir/tests/cli/hostile
# file NAME HEADER DATA: a safetensors file
file () {
    header=$2
    while [ $((${#header} % 8)) != 0 ]; do header="$header "; done
    {
        # shellcheck disable=SC2059
        printf "\\$(printf %03o $((${#header} % 256)))\\$(printf %03o $((${#header} / 256)))\\0\\0\\0\\0\\0\\0"
        printf '%s%s' "$header" "$3"
    } >"$1"
}
W='"dtype":"U8","shape":[2],"data_offsets"'
nested () { printf '%01000d' 0 | tr 0 '['; }
# index TEXT: of a set in the folder
index () { printf '%s' "$1" >model.safetensors.index.json; }
# refused READER WORDS COMMAND...: status 1, one line with these words, and nothing else
refused () {
    reader=$1 said=$2
    shift 2
    status=0
    timeout $patience "$@" >out 2>err || status=$?
    case $reader in open | load_*) mv out err && : >out ;; esac
    test "$status" = 1 && test "$(wc -l <err)" = 1 && grep -F -- "$said" err && ! test -s out ||
        { echo "$reader: status $status" && cat out err && return 1; }
}
# by_all WORDS READER...: each reader refuses the folder `bad`
by_all () {
    words=$1
    shift
    for each; do
        case $each in
        open) path=bad && if test -e bad/model.safetensors; then path=bad/model.safetensors; fi ;;
        *) path=bad ;;
        esac
        case $each in
        inspect) refused inspect "$words" "$accelerate" inspect --norms bad ;;
        verify) refused verify "$words" "$accelerate" inspect --verify bad ;;
        merge) refused merge "$words" "$accelerate" merge-weights bad to && test ! -e to/model.safetensors ;;
        *) refused "$each" "$words" "$hostile" "$each" $path ;;
        esac || return 1
    done
}
# make COMMANDS: the folder `bad`, by commands that run in it
make () { rm -rf bad to && mkdir bad && (cd bad && set -e && eval "$1"); }

# One file, which is also that of a checkpoint: NAME|COMMANDS|WORDS
while IFS='|' read -r name commands words; do
    test_expect_success "a file: $name" '
        make "$commands" && "$hostile" manifest bad model.safetensors && by_all "$words" open load_model load_state inspect merge'
done <<'EOT'
a header of 2^63 bytes|printf "\0\0\0\0\0\0\0\200{}" >model.safetensors|header would have 9223372036854775808 bytes
a header of 2^64-1 bytes|printf "\377\377\377\377\377\377\377\377{}" >model.safetensors|header would have 18446744073709551615 bytes
a header that is longer than the file|printf "\100\0\0\0\0\0\0\0{}" >model.safetensors|ends inside its header of 64 bytes
less than a length|printf "\1\0\0" >model.safetensors|only 3 bytes
nothing|: >model.safetensors|only 0 bytes
overlapping offsets|file model.safetensors "{\"a\":{$W:[0,2]},\"b\":{$W:[1,3]}}" abc|tensor 'b' begins at 1
the same bytes twice|file model.safetensors "{\"a\":{$W:[0,2]},\"b\":{$W:[0,2]}}" ab|tensor 'b' begins at 0
a hole|file model.safetensors "{\"a\":{$W:[0,2]},\"b\":{$W:[3,5]}}" abcde|tensor 'b' begins at 3
offsets after the end|file model.safetensors "{\"a\":{$W:[0,2]}}" a|was it truncated?
bytes that belong to no tensor|file model.safetensors "{\"a\":{$W:[0,2]}}" abc|3 bytes of tensors, but its header says 2
offsets that end before they begin|file model.safetensors "{\"a\":{$W:[2,0]}}" ab|data_offsets end before they begin
negative offsets|file model.safetensors "{\"a\":{$W:[-2,0]}}" ab|header: tensor 'a': byte
offsets beyond 64 bits|file model.safetensors "{\"a\":{$W:[0,18446744073709551618]}}" ab|header: tensor 'a': byte
a shape that overflows|file model.safetensors "{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}" ""|overflow
a duplicate tensor|file model.safetensors "{\"a\":{$W:[0,2]},\"a\":{$W:[2,4]}}" abcd|duplicate tensor 'a'
a duplicate key|file model.safetensors "{\"a\":{$W:[0,2],\"dtype\":\"I8\"}}" ab|duplicate dtype
a duplicate key of the metadata|file model.safetensors "{\"__metadata__\":{\"k\":\"a\",\"k\":\"b\"},\"a\":{$W:[0,2]}}" ab|duplicate key 'k'
duplicate metadata|file model.safetensors "{\"__metadata__\":{},\"__metadata__\":{}}" ""|duplicate __metadata__
invalid UTF-8|file model.safetensors "$(printf "{\"\351\":{%s:[0,2]}}" "$W")" ab|not valid UTF-8
an unknown type|file model.safetensors "{\"a\":{\"dtype\":\"U\",\"shape\":[2],\"data_offsets\":[0,2]}}" ab|unknown element type 'U'
values that are nested 1000 times|file model.safetensors "{\"a\":{\"x\":$(nested),$W:[0,2]}}" ab|header: tensor 'a': byte
a FIFO|mkfifo model.safetensors|is not a regular file
EOT

# A set of files: NAME|COMMANDS|WORDS.  A file above the folder must not be read, so a good one is there.
file good.safetensors "{\"a\":{$W:[0,2]}}" ab
while IFS='|' read -r name commands words; do
    test_expect_success "an index: $name" 'make "$commands" && by_all "$words" open load_model inspect merge'
done <<'EOT'
a shard above|index "{\"weight_map\":{\"a\":\"../good.safetensors\"}}"|'../good.safetensors' is not the name of a file
a shard above, with escapes|index "{\"weight_map\":{\"a\":\"\\u002e\\u002e\\u002fgood.safetensors\"}}"|'../good.safetensors' is not the name of a file
an absolute shard|index "{\"weight_map\":{\"a\":\"$scratch/good.safetensors\"}}"|good.safetensors' is not the name of a file
a shard in a folder|mkdir x && cp ../good.safetensors x && index "{\"weight_map\":{\"a\":\"x/good.safetensors\"}}"|'x/good.safetensors' is not the name of a file
a link above|ln -s ../good.safetensors a && index "{\"weight_map\":{\"a\":\"a\"}}"|is a symbolic link
an absolute link|ln -s "$scratch/good.safetensors" a && index "{\"weight_map\":{\"a\":\"a\"}}"|is a symbolic link
a link to a link|ln -s b a && ln -s a b && index "{\"weight_map\":{\"a\":\"a\"}}"|is a symbolic link
an index that is a link|ln -s ../x model.safetensors.index.json|model.safetensors.index.json: is a symbolic link
a FIFO|mkfifo a && index "{\"weight_map\":{\"a\":\"a\"}}"|is not a regular file
an index that is a FIFO|mkfifo model.safetensors.index.json|is not a regular file
a missing shard|index "{\"weight_map\":{\"a\":\"a\"}}"|No such file
a tensor that is not in its file|cp ../good.safetensors a && index "{\"weight_map\":{\"b\":\"a\"}}"|tensor 'b' is not in a
a tensor in two files|cp ../good.safetensors a && cp ../good.safetensors b && file b "{\"a\":{$W:[0,2]},\"b\":{$W:[2,4]}}" abcd && index "{\"weight_map\":{\"a\":\"a\",\"b\":\"b\"}}"|duplicate tensor 'a'
a duplicate tensor|cp ../good.safetensors a && index "{\"weight_map\":{\"a\":\"a\",\"a\":\"a\"}}"|duplicate tensor 'a'
a duplicate map|index "{\"weight_map\":{},\"weight_map\":{}}"|duplicate weight_map
invalid UTF-8|printf "{\"weight_map\":{\"\351\":\"a\"}}" >model.safetensors.index.json|not valid UTF-8
a shard with a header of 2^63 bytes|printf "\0\0\0\0\0\0\0\200{}" >a && index "{\"weight_map\":{\"a\":\"a\"}}"|header would have 9223372036854775808 bytes
a truncated shard|head -c 20 ../good.safetensors >a && index "{\"weight_map\":{\"a\":\"a\"}}"|ends inside its header
EOT

# A manifest: NAME|COMMANDS|WORDS, where a good checkpoint is; `seal` gives a manifest the right checksum.
test_expect_success 'a checkpoint is saved' '
    "$hostile" save state >out && rm state/manifest.json && cp state/model.safetensors w.safetensors'
good () { cp ../state/* .; }
manifest () { "$hostile" manifest . "$@"; }
# entries TEXT: a manifest with these files
entries () {
    printf '{"format":"accel-checkpoint","version":1,"files":{%s},' "$1" >manifest.json && "$hostile" seal manifest.json
}
E='{"bytes":80,"xxh3":"0123456789abcdef"}'
test_expect_success 'the checkpoint that others differ from is read' '
    make "good && manifest *" && "$hostile" load_state bad >out && grep -x read out && "$accelerate" inspect --verify bad'
while IFS='|' read -r name commands words; do
    test_expect_success "a manifest: $name" 'make "good && $commands" && by_all "$words" load_state verify'
done <<'EOT'
a file above|manifest * ../w.safetensors|file name '../w.safetensors' is not allowed
a file above a folder|mkdir x && manifest * x/../../w.safetensors|is not allowed
an absolute file|manifest * "$scratch/w.safetensors"|w.safetensors' is not allowed
itself|manifest * manifest.json|file name 'manifest.json' is not allowed
a link above|ln -s ../w.safetensors x && manifest *|x: is a symbolic link
a folder that is a link|ln -s .. x && manifest model.safetensors x/w.safetensors|bad/x/w.safetensors:
a model that is a link|mv model.safetensors x && ln -s x model.safetensors && manifest model.safetensors|model.safetensors: is a symbolic link
a FIFO|mkfifo x && manifest *|x: is not a regular file
a missing file|manifest * x|x: No such file
a duplicate file|entries "\"model.safetensors\":$E,\"model.safetensors\":$E"|duplicate file 'model.safetensors'
a duplicate tensor|entries "\"model.safetensors\":{\"bytes\":80,\"header\":\"0123456789abcdef\",\"tensors\":{\"w\":\"0123456789abcdef\",\"w\":\"0123456789abcdef\"}}"|duplicate tensor 'w'
a duplicate key|entries "\"model.safetensors\":{\"bytes\":80,\"bytes\":80,\"xxh3\":\"0123456789abcdef\"}"|duplicate 'bytes'
a size of 2^64|entries "\"model.safetensors\":{\"bytes\":18446744073709551616,\"xxh3\":\"0123456789abcdef\"}"|manifest.json: byte
another size|entries "\"model.safetensors\":{\"bytes\":79,\"xxh3\":\"0123456789abcdef\"}"|but the manifest says 79
invalid UTF-8|entries "$(printf "\"\351\":%s" "$E")"|manifest.json: byte 51: not valid UTF-8
another checksum of itself|manifest * && sed -i s/processes/Processes/ manifest.json|its own checksum is wrong
a version of the future|printf "{\"version\":2," >manifest.json && "$hostile" seal manifest.json|format version 2 is newer
values that are nested 1000 times|printf "{\"x\":%s" "$(nested)" >manifest.json|manifest.json: byte
a manifest that is a FIFO|mkfifo manifest.json|manifest.json
truncated|manifest * && truncate -s 100 manifest.json|manifest.json: byte 100: 
damaged|manifest * && printf y >../last && dd if=../last of=model.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null|damaged: the checksum of the file is wrong
EOT
# Values of a checkpoint: NAME|TEXT of accumulation.json|WORDS
while IFS='|' read -r name text words; do
    test_expect_success "values: $name" '
        make "good && $text >accumulation.json && manifest *" && by_all "$words" load_state'
done <<'EOT'
invalid UTF-8|printf "{\"a\":\"\351\"}"|accumulation.json: byte 6: not valid UTF-8
a duplicate name|echo "{\"a\":1,\"a\":2}"|accumulation.json: duplicate name 'a'
a list|echo "{\"a\":[1]}"|accumulation.json: byte 5: expected a number, a text or a truth value
nothing|:|accumulation.json: byte 0: unexpected end
EOT

# A file that is truncated while it is read: at each call that reads.
module=$builddir/tests/fault/.libs/strike.so
# strike CALL COMMAND...: before that call, half of the file `big/model.safetensors` goes; its status in $status
strike () {
    call=$1 status=0
    shift
    rm -rf big to && cp -R state big && (cd big && "$hostile" manifest . [a-z]*)
    timeout $patience env LD_PRELOAD="$module" STRIKE_ROOT="$scratch/big" STRIKE_READS=yes STRIKE_AT="$call" \
        STRIKE_TRUNCATE="$scratch/big/model.safetensors" STRIKE_LOG="$scratch/calls" "$@" >out 2>err || status=$?
}
# truncated LEAST COMMAND...: at each call, of which there are so many at least, it fails with one line, or had read all
truncated () {
    least=$1
    shift
    strike -1 "$@" && test "$status" = 0 && count=$(cat calls) && test "$count" -ge "$least" || { cat out err && return 1; }
    call=0 failed=0
    while [ $call -lt "$count" ]; do
        strike $call "$@" || return 1
        if [ "$status" = 0 ]; then :
        elif [ "$status" = 1 ] && [ "$(cat out err | wc -l)" = 1 ] && grep -q "big/model.safetensors: " out err; then failed=$((failed + 1))
        else echo "call $call of $count: status $status" && cat out err && return 1; fi
        call=$((call + 1))
    done
    echo "$failed of $count" && test $failed -gt 1
}
if [ ! -f "$module" ] || is_sanitized; then
    test_skip 'files that are truncated while they are read' 'this build has no module to do it'
else
    test_expect_success 'truncated while inspect reads it' 'truncated 3 "$accelerate" inspect --norms big/model.safetensors'
    test_expect_success 'truncated while merge-weights reads it' '
        truncated 3 "$accelerate" merge-weights big to'
    test_expect_success 'truncated while accel_load_state reads it' 'truncated 3 "$hostile" load_state big'
    test_expect_success 'truncated while accel_load_model reads it' 'truncated 3 "$hostile" load_model big'
    test_expect_success 'truncated while accel_safetensors_open reads it' 'truncated 2 "$hostile" open big/model.safetensors'
fi

# Many tensors are not a reason to stop.  A header of 100 MB may have a million.
many=100000
if is_long; then many=1000000; fi
test_expect_success "a file with $many tensors" 'mkdir many && "$hostile" many many/model.safetensors $many'
test_expect_success "$many tensors: inspect" '"$accelerate" inspect many >out && [ "$(wc -l <out)" = $many ]'
test_expect_success "$many tensors: merge-weights" '
    "$accelerate" merge-weights many to >out && "$accelerate" inspect --diff many to >out && ! test -s out'
test_expect_success "$many tensors: accel_safetensors_open" '"$hostile" open many >out && grep -x read out'
test_expect_success "$many tensors: accel_load_model" '
    test_exit 1 "$hostile" load_model many >out && cat out && grep "1 parameter is missing: .w.; $many unexpected tensors: " out'
test_expect_success "$many tensors: accel_load_state" '
    rm -rf bad && cp -R state bad && cp many/model.safetensors bad && (cd bad && "$hostile" manifest . [a-z]*) &&
    test_exit 1 "$hostile" load_state bad >out && cat out && [ "$(wc -l <out)" = 1 ] && grep "model: tensor .w. is missing" out'
test_done
