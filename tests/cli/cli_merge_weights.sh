#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate merge-weights: the same files as Accelerate's, and one line for whatever is wrong with the input.
. "${srcdir:-.}/tests/testlib.sh"

golden=$srcdir/tests/golden/dcp
merge () {
    timeout $patience "$accelerate" merge-weights "$@"
}

for name in fsdp1 fsdp2 dtypes layouts grid; do
    test_expect_success "$name: as Accelerate, byte for byte" '
        merge "$golden/$name" "new/$name" >out 2>error && test ! -s error &&
        cmp "$golden/$name.safetensors" "new/$name/model.safetensors" &&
        printf "%s\n" "saved in new/$name/model.safetensors" | diff - out && [ "$(ls -A "new/$name")" = model.safetensors ]'
done

# A sharded set of safetensors files, written by hand.
# shard FILE HEADER DATA
shard () {
    header=$2
    while [ $((${#header} % 8)) != 0 ]; do header="$header "; done
    {
        # shellcheck disable=SC2059
        printf "\\$(printf %03o "${#header}")\\0\\0\\0\\0\\0\\0\\0"
        printf '%s%s' "$header" "$3"
    } >"$1"
}
make_set () {
    mkdir -p "$1"
    shard "$1/model-00001-of-00002.safetensors" '{"b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}' xyz
    shard "$1/model-00002-of-00002.safetensors" \
        '{"__metadata__":{"format":"np"},"a":{"dtype":"U8","shape":[2,2],"data_offsets":[0,4]}}' abcd
    echo '{"metadata": {"total_size": 7}, "weight_map": {"a": "model-00002-of-00002.safetensors", "b": "model-00001-of-00002.safetensors"}}' \
        >"$1/model.safetensors.index.json"
}
make_set set
test_expect_success 'a sharded set becomes one file, with its metadata' '
    merge set one >out && "$accelerate" inspect one/model.safetensors >rows && printf "a\tU8\t[2, 2]\t4\nb\tU8\t[3]\t3\n" | diff - rows &&
    grep -a "\"format\":\"np\"" one/model.safetensors && [ "$(tail -c 7 one/model.safetensors)" = abcdxyz ]'
test_expect_success 'the index itself may be given' '
    merge set/model.safetensors.index.json two >out && cmp one/model.safetensors two/model.safetensors'
test_expect_success 'into the folder of the set, and again' '
    make_set place && merge place place >out && cmp one/model.safetensors place/model.safetensors &&
    merge place place >out && cmp one/model.safetensors place/model.safetensors'
test_expect_success 'the old file is replaced, and a link stays one' '
    mkdir links && echo old >target && ln -s ../target links/model.safetensors && merge set links >out &&
    cmp one/model.safetensors target && test -L links/model.safetensors'

# A tensor of 48 MiB, most of it a hole, with 30 MB of address space.
make_set large
shard large/model-00001-of-00002.safetensors '{"b":{"dtype":"U8","shape":[50331648],"data_offsets":[0,50331648]}}' xyz
size=$(wc -c <large/model-00001-of-00002.safetensors) || exit 1
truncate -s $((size - 3 + 50331648)) large/model-00001-of-00002.safetensors || exit 1
if is_sanitized; then
    test_skip 'a tensor that is larger than memory' 'sanitizers need memory themselves'
else
    test_expect_success 'a tensor that is larger than memory' '
        (ulimit -v 30000 && merge large large/out) && "$accelerate" inspect large/out/model.safetensors >rows &&
        printf "a\tU8\t[2, 2]\t4\nb\tU8\t[50331648]\t50331648\n" | diff - rows'
fi
rm -r large

# ---- removing ----
test_expect_success 'the checkpoint is removed, but not what links in it lead to' '
    make_set gone && mkdir kept gone/folder && echo x >kept/file && ln -s ../kept gone/link && echo y >gone/folder/file &&
    merge --remove_checkpoint_dir gone three >out && test ! -e gone && test -e kept/file && cmp one/model.safetensors three/model.safetensors'
test_expect_success 'not if the output would go, too' '
    make_set stays && for to in stays stays/out ./stays/../stays/new; do
        test_exit 1 merge --remove_checkpoint_dir stays "$to" >out 2>error && grep "would remove the output, too" error &&
        test ! -s out && test -e stays/model-00001-of-00002.safetensors || return 1
    done'
test_expect_success 'not after a failure' '
    make_set broken && rm broken/model-00002-of-00002.safetensors && test_exit 1 merge --remove_checkpoint_dir broken four 2>error &&
    cat error && grep "^accelerate: broken/model-00002-of-00002.safetensors: No such file" error && test -e broken/model-00001-of-00002.safetensors && test ! -e four'
test_expect_success 'not through a link' '
    make_set real && ln -s real link && test_exit 1 merge --remove_checkpoint_dir link five 2>error && grep "link is not a folder" error &&
    test -e real/model.safetensors.index.json'

# ---- what is wrong: NAME|CHANGE, in a copy of a checkpoint, as the current folder|what is said ----
count=0
while IFS='|' read -r from name change said; do
    count=$((count + 1))
    test_expect_success "refused: $name" '
        rm -rf bad && cp -R "$golden/$from" bad && (cd bad && eval "$change") && mkdir -p to && echo old >to/model.safetensors &&
        test_exit 1 merge bad to >out 2>error && cat error && test "$(wc -l <error)" = 1 && grep -F -- "$said" error &&
        test ! -s out && [ "$(cat to/model.safetensors)" = old ] && [ "$(ls -A to)" = model.safetensors ]'
done <<'EOT'
fsdp1|a file in the folder above|sed -i s/__0_0.distcp/..\\/_0.distcp/ .metadata|'../_0.distcp' is not the name of a file in the checkpoint's folder
fsdp1|an absolute path|sed -i s/__0_0.distcp/\\/etc\\/passwd\\// .metadata|'/etc/passwd/' is not the name of a file
fsdp1|a file name with an escape|sed -i "s/__0_0.distcp/__0$(printf '\033')0.distcp/" .metadata|is not the name of a file
fsdp1|a link|mv __0_0.distcp x && ln -s x __0_0.distcp|bad/__0_0.distcp: is a symbolic link
fsdp1|a link to another folder|mv __0_0.distcp ../x && ln -s ../x __0_0.distcp|is a symbolic link
fsdp1|metadata that are a link|mv .metadata x && ln -s x .metadata|bad/.metadata: is a symbolic link
fsdp1|a folder|rm __0_0.distcp && mkdir __0_0.distcp|bad/__0_0.distcp: is not a regular file
fsdp1|a pipe|rm __0_0.distcp && mkfifo __0_0.distcp|bad/__0_0.distcp: is not a regular file
fsdp1|a file is missing|rm __1_0.distcp|bad/__1_0.distcp: No such file or directory
fsdp1|a file is truncated|truncate -s -1 __1_0.distcp|should contain a zip archive up to byte
fsdp1|a file is empty|: >__1_0.distcp|has 0 bytes, but should contain a zip archive
fsdp1|metadata are truncated|truncate -s -1 .metadata|byte 2 of the pickle: a frame of
fsdp1|metadata are empty|: >.metadata|bad/.metadata: byte 0 of the pickle: unexpected end
fsdp1|metadata are text|echo hello >.metadata|bad/.metadata: byte 0 of the pickle
fsdp1|metadata are JSON|echo "{}" >.metadata|bad/.metadata: byte 0 of the pickle
fsdp1|metadata that execute something|printf "\200\002cos\nsystem\nX\006\000\000\000id >x.\205R." >.metadata|'os.system', which is not allowed in weights: nothing was executed
fsdp1|an unknown class|sed -i s/_get_layout/_get_layouX/ .metadata|'torch.serialization._get_layouX', which is not allowed
fsdp1|an unknown element type|sed -i s/float32/float31/ .metadata|'torch.float31', which is not allowed
fsdp1|a type that safetensors lacks|sed -i s/float32/qint320/ .metadata|'torch.qint320', which is not allowed
fsdp1|another element type|sed -i s/float32/complex/ .metadata|'torch.complex', which is not allowed
fsdp1|sparse tensors|sed -i s/torch.strided/torch.sparse1/ .metadata|only dense tensors are supported
fsdp1|metadata of something else|printf "\200\002}." >.metadata|not the metadata of a distributed checkpoint
fsdp1|a class in the tensors|sed -i s/OrderedDict/OrderedDicX/ __0_0.distcp|is damaged: its CRC
EOT
test_expect_success 'a table of that length' 'test "$count" -ge 23'
test_expect_success 'elements that changed' '
    rm -rf bad && cp -R "$golden/grid" bad && at=$(grep -abo "archive/data/0FB" bad/__0_0.distcp | head -n 1 | cut -d: -f1) &&
    printf X | dd of=bad/__0_0.distcp bs=1 seek=$((at + 80)) conv=notrunc 2>/dev/null && ! cmp -s bad/__0_0.distcp "$golden/grid/__0_0.distcp" &&
    test_exit 1 merge bad to2 2>error && cat error && grep "is damaged: its CRC" error && [ ! -e to2/model.safetensors ]'
test_expect_success 'the folder above the checkpoint is answered with the folder to give' '
    mkdir state && cp -R "$golden/fsdp1" state/pytorch_model_fsdp_0 && test_exit 1 merge state six 2>error &&
    grep -x "accelerate: state: has no weights itself; give its folder state/pytorch_model_fsdp_0" error && test ! -e six'
while IFS='|' read -r name change said; do
    test_expect_success "refused set: $name" '
        rm -rf bad && make_set bad && (cd bad && eval "$change") && test_exit 1 merge bad to3 >out 2>error && cat error &&
        test "$(wc -l <error)" = 1 && grep -F -- "$said" error && [ ! -e to3/model.safetensors ]'
done <<'EOT'
a shard in the folder above|cp model-00001-of-00002.safetensors .. && sed -i "s/\"model-00001/\"..\\/model-00001/" *.json|'../model-00001-of-00002.safetensors'
an absolute shard|sed -i "s/\"model-00001/\"\\/model-00001/" *.json|'/model-00001-of-00002.safetensors'
a shard that is a link|mv model-00001-of-00002.safetensors x && ln -s x model-00001-of-00002.safetensors|follow_links
a tensor twice|cp model-00001-of-00002.safetensors model-00003.safetensors && sed -i "s/: \"model-00002-of-00002/: \"model-00003/" *.json|is not in model-00003.safetensors
a truncated shard|truncate -s -1 model-00002-of-00002.safetensors|was it truncated?
an index that is not JSON|echo x >model.safetensors.index.json|index.json
EOT
test_expect_success 'a shard that is a link, where that is allowed' '
    rm -rf bad && make_set bad && mkdir blobs && mv bad/model-00001-of-00002.safetensors blobs/x && ln -s ../blobs/x bad/model-00001-of-00002.safetensors &&
    merge --follow_links bad seven >out && cmp one/model.safetensors seven/model.safetensors'
test_expect_success 'entries that are not tensors are named' '
    rm -rf bad && cp -R "$golden/objects" bad && test_exit 1 merge bad eight 2>error && cat error &&
    grep "bad: .text. and other entries are not a tensor" error && test ! -e eight'
file_limit_test 'no room: the old file stays' '
    mkdir full && echo old >full/model.safetensors &&
    { (trap "" XFSZ && ulimit -f 0 && merge "$golden/fsdp1" full 2>&1); echo $? >status; } | cat >error && cat error &&
    test "$(cat status)" = 1 && grep "full/model.safetensors" error && [ "$(cat full/model.safetensors)" = old ] &&
    [ "$(ls -A full)" = model.safetensors ]'
test_expect_success 'a file of PyTorch' '
    printf "PK\003\004xxxx" >weights.bin && test_exit 1 merge weights.bin nine 2>error && grep "weights.bin: is a pickled file of PyTorch" error'
test_expect_success 'a file of PyTorch under the name of a model' '
    for magic in "PK\003\004xxxx" "\200\002}q\000X\001\000\000"; do
        rm -rf named && mkdir named && printf "$magic" >named/model.safetensors &&
        test_exit 1 merge named nine 2>error && cat error && grep "model.safetensors: is a pickled file of PyTorch" error || return 1
    done'
test_expect_success 'an output that is a file' 'echo x >file && test_exit 1 merge set file 2>error && grep "file: is not a folder" error'
test_done
