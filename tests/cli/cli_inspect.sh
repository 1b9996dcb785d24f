#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate inspect: tables, JSON, differences; and hostile files, which are one line.
. "${srcdir:-.}/tests/testlib.sh"

golden=$srcdir/tests/golden/dcp
inspect () {
    timeout $patience "$accelerate" inspect "$@"
}

# file NAME HEADER DATA: a safetensors file
file () {
    header=$2
    while [ $((${#header} % 8)) != 0 ]; do header="$header "; done
    {
        # shellcheck disable=SC2059
        printf "\\$(printf %03o $((${#header} % 256)))\\$(printf %03o $((${#header} / 256)))\\0\\0\\0\\0\\0\\0"
        printf '%s%b' "$header" "$3"
    } >"$1"
}
file one.safetensors '{"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"n":{"dtype":"I64","shape":[],"data_offsets":[16,24]}}' \
    '\000\000\200\077\000\000\000\300\000\000\200\177\000\000\000\000\007\000\000\000\000\000\000\000'
file two.safetensors '{"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"m":{"dtype":"I64","shape":[],"data_offsets":[16,24]}}' \
    '\000\000\200\077\000\000\100\300\000\000\200\177\000\000\000\200\007\000\000\000\000\000\000\000'

test_expect_success 'tensors in a pipe: tabs, no heading' '
    inspect one.safetensors >out && printf "n\tI64\t[]\t8\nw\tF32\t[2, 2]\t16\n" | diff - out'
test_expect_success 'with norms' '
    inspect --norms one.safetensors >out && cat out && printf "n\tI64\t[]\t8\t7\t7\t7\t0\nw\tF32\t[2, 2]\t16\t2.23607\t-2\t1\t1\n" | diff - out'
test_expect_success 'differences, and the exit status' '
    test_exit 1 inspect --diff one.safetensors two.safetensors >out 2>error && cat out && test ! -s error &&
    printf "m\textra\t-\tI64 []\t-\t-\nn\tmissing\tI64 []\t-\t-\t-\nw\telements\tF32 [2, 2]\tF32 [2, 2]\t1\t1\n" | diff - out &&
    inspect --diff one.safetensors one.safetensors >out && test ! -s out'
test_expect_success 'a distributed checkpoint is the same as what was merged from it' '
    for name in fsdp1 fsdp2 dtypes layouts grid; do
        inspect --diff "$golden/$name" "$golden/$name.safetensors" >out && test ! -s out &&
        inspect --norms "$golden/$name" >rows && inspect --norms "$golden/$name.safetensors" >merged && diff rows merged && test -s rows || return 1
    done'
test_expect_success 'other types and shapes' '
    test_exit 1 inspect --diff "$golden/fsdp1" "$golden/fsdp2" >out && cat out &&
    grep "^norm.weight	type	F32 \[5\]	BF16 \[5\]	0	0$" out && [ "$(wc -l <out)" = 8 ] &&
    file three.safetensors "{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}" "0123456789abcdef" &&
    test_exit 1 inspect --diff one.safetensors three.safetensors >out && cat out && grep "^w	shape	F32 \[2, 2\]	F32 \[4\]	-	-$" out'
test_expect_success 'values of all small types are those of PyTorch' '
    test_exit 1 inspect --diff "$golden/codes.safetensors" "$golden/values.safetensors" >out && cat out && [ "$(wc -l <out)" = 7 ] &&
    ! grep -v "	0	0$" out'
test_expect_success 'checksums of a distributed checkpoint' '
    inspect --verify --json "$golden/dtypes" >out && grep "\"checksums\": \"verified\"" out &&
    cp -R "$golden/dtypes" damaged && sed -i s/OrderedDict/OrderedDicX/ damaged/__0_0.distcp &&
    inspect damaged >out && test_exit 1 inspect --verify damaged >out 2>error && cat error && grep "is damaged: its CRC" error && test ! -s out'
test_expect_success 'entries that are not tensors are reported' '
    inspect --json "$golden/objects" >out && cat out && grep "\"other_entries\": \[\"text\", \"number\"" out && grep "\"tensor\"" out'
test_expect_success 'a folder: all of its files' '
    mkdir folder && cp one.safetensors folder/b.safetensors && cp two.safetensors folder/a.safetensors && echo x >folder/x.json &&
    inspect folder >out && cat out && printf "m\tI64\t[]\t8\ta.safetensors\nn\tI64\t[]\t8\tb.safetensors\nw\tF32\t[2, 2]\t16\ta.safetensors\nw\tF32\t[2, 2]\t16\tb.safetensors\n" |
    diff - out'
test_expect_success 'a folder with an index: the files that it names come once' '
    mkdir shards && cp one.safetensors shards/model-00001-of-00002.safetensors && cp two.safetensors shards/other.safetensors &&
    echo "{\"weight_map\":{\"w\":\"model-00001-of-00002.safetensors\",\"n\":\"model-00001-of-00002.safetensors\"}}" \
        >shards/model.safetensors.index.json && inspect shards >out && cat out &&
    test "$(grep -c "model-00001" out)" -eq 2 && test "$(grep -c "other" out)" -eq 2'
test_expect_success 'a difference that is not a number of JSON is null' '
    file finite.safetensors "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}" \
        "\000\000\200\077\000\000\000\300\000\000\200\077\000\000\000\000" &&
    test_exit 1 inspect --json --diff one.safetensors finite.safetensors >out && cat out &&
    grep "\"unequal\": 1, \"max_abs_difference\": null" out'
test_expect_success 'control characters in names are escapes' '
    file bad.safetensors "{\"a\\u001b[2Jb\\tc\\n\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}" "" &&
    inspect bad.safetensors >out && cat -v out && [ "$(cat out)" = "a\\x1b[2Jb\\tc\\n	U8	[0]	0" ] && inspect --json bad.safetensors >out &&
    grep -F "\"name\": \"a\\u001b[2Jb\\tc\\n\"" out'

if command -v python3 >/dev/null; then
    test_expect_success 'JSON that Python reads' '
        for options in "--norms one.safetensors" "$golden/layouts" "$golden/objects" bad.safetensors; do
            inspect --json $options >out && python3 -m json.tool out >/dev/null || return 1
        done && test_exit 1 inspect --json --diff one.safetensors two.safetensors >out && python3 -m json.tool out >pretty && cat pretty &&
        grep "max_abs_difference\": 1$" pretty'
    terminal_test 'a table on a terminal' '
        python3 "$srcdir/tests/cli/on_terminal.py" "$accelerate" inspect --norms one.safetensors >out && cat out &&
        tr -d "\r" <out >lines && cat >wanted <<-EOT && diff wanted lines
	NAME  TYPE  SHAPE   BYTES     NORM  MIN  MAX  NOT FINITE
	n     I64   []          8        7    7    7           0
	w     F32   [2, 2]     16  2.23607   -2    1           1
	one.safetensors: 2 tensors, 5 elements, 24 B
	EOT'
    terminal_test 'differences on a terminal' '
        test_exit 1 python3 "$srcdir/tests/cli/on_terminal.py" "$accelerate" inspect --diff one.safetensors two.safetensors >out && cat out &&
        grep "^NAME  DIFFERS IN  FIRST       SECOND      UNEQUAL  LARGEST DIFFERENCE" out && grep "one.safetensors and two.safetensors: 3 of 3 tensors differ" out'
else
    test_skip 'JSON that Python reads, and tables on a terminal' 'no python3'
fi

# Hostile files: NAME|COMMAND that makes `hostile`|what is said
while IFS='|' read -r name make said; do
    test_expect_success "refused: $name" '
        rm -rf hostile && eval "$make" && test_exit 1 inspect --norms hostile >out 2>error && cat error && test "$(wc -l <error)" = 1 &&
        grep -F -- "$said" error && test ! -s out'
done <<'EOT'
a header of 2^63 bytes|printf "\0\0\0\0\0\0\0\200{}" >hostile|header would have 9223372036854775808 bytes
a header of 2^64-1 bytes|printf "\377\377\377\377\377\377\377\377{}" >hostile|header would have 18446744073709551615 bytes
overlapping tensors|file hostile "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}" abc|tensor 'b' begins at 1
a hole|file hostile "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}" abc|tensor 'a' begins at 1
the same name twice|file hostile "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}" ""|duplicate tensor 'a'
invalid UTF-8|file hostile "$(printf "{\"\351\":1}")" ""|not valid UTF-8
a shape that overflows|file hostile "{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}" ""|overflow
truncated|head -c 100 one.safetensors >hostile|hostile: ends inside its header of 112 bytes
no file|mkfifo hostile|is not a regular file
an index with a file above|mkdir hostile && echo "{\"weight_map\":{\"w\":\"../one.safetensors\"}}" >hostile/model.safetensors.index.json|../one.safetensors
an index with a link|mkdir hostile && ln -s ../one.safetensors hostile/x.safetensors && echo "{\"weight_map\":{\"w\":\"x.safetensors\"}}" >hostile/m.index.json|is a symbolic link
an index that lacks a file|mkdir hostile && echo "{\"weight_map\":{\"w\":\"x.safetensors\"}}" >hostile/m.index.json|No such file
an index with a wrong file|mkdir hostile && cp one.safetensors hostile && echo "{\"weight_map\":{\"x\":\"one.safetensors\"}}" >hostile/m.index.json|tensor 'x' is not in one.safetensors
EOT
test_expect_success 'a checkpoint is compared with its manifest.json' '
    "$accelerate" launch --quiet --cpu --num_processes 1 "$builddir/examples/digits" --epochs 1 --output_dir run \
        --checkpointing_steps epoch >/dev/null && state=run/checkpoints/checkpoint_0 &&
    inspect --verify --json $state >out && grep "\"checksums\": \"verified\"" out &&
    printf x | dd of=$state/optimizer.safetensors bs=1 seek=3000 conv=notrunc &&
    test_exit 1 inspect --verify $state 2>error && cat error && grep "optimizer.safetensors: damaged: the checksum of" error'
test_expect_success 'a state that is not finite is called one' '
    state=run/checkpoints/checkpoint_0 && inspect $state >out 2>error && test ! -s error &&
    inspect --json $state >out && grep "\"nonfinite\": null" out &&
    "$accelerate" launch --quiet --cpu --num_processes 1 "$builddir/examples/digits" --epochs 1 --output_dir apart \
        --checkpointing_steps epoch --lr 999999 --warmup 0 >/dev/null && state=apart/checkpoints/checkpoint_0.nonfinite &&
    inspect $state >out 2>error && test -s out &&
    grep "^accelerate: note: $state is kept apart: parameter .hidden.bias. is NaN at element 0; jobs resume" error &&
    inspect --json $state >out 2>error && test ! -s error && grep "\"nonfinite\": \".hidden.bias. is NaN at element 0\"" out'
test_done
