#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checkpoints of models on GPUs, of which the stand-in for the CUDA runtime is one: the files and the bits of the CPU's.
. "${srcdir:-.}/tests/testlib.sh"
subject='checkpoints of models on GPUs'
. "$srcdir/tests/standin/module.sh"
checkpoint=$standin/checkpoint

# on DEVICE ARGUMENT...
on () {
    timeout $patience "$checkpoint" "$@"
}
# list FOLDER: its files with their sums; of a manifest, what does not depend on the time of the save
list () {
    find "$1" -type f >"$scratch/files" && sort "$scratch/files" >"$scratch/sorted" || return 1
    while read -r file; do
        case $file in
        */manifest.json) sed '/^  "saved_ns"/d; /^  "xxh3"/d' "$file" >"$scratch/text" || return 1 ;;
        *) cp "$file" "$scratch/text" || return 1 ;;
        esac
        echo "${file#"$1/"}" && cksum <"$scratch/text" || return 1
    done <"$scratch/sorted"
}
# same FOLDER FOLDER
same () {
    list "$1" >"$scratch/first" && list "$2" >"$scratch/second" && test -s "$scratch/first" &&
        diff "$scratch/first" "$scratch/second"
}

mkdir cpu cuda
test_expect_success 'a model on the CPU is saved, as a state and as a model' 'on cpu run "$scratch/cpu"'
test_expect_success 'so is one on a GPU' 'on cuda run "$scratch/cuda"'
test_expect_success 'with the same files' 'same cpu cuda && test -f cuda/half/model.safetensors.index.json'
test_expect_success 'a save in the background has the state of its start' 'same cuda/state cuda/later'
for from in cpu cuda; do
    for to in cpu cuda; do
        test_expect_success "training saved on $from continues on $to with the same bits" '
            on $to resume "$scratch/$from/state" "$scratch/end" && cmp end cuda/end'
    done
done
test_expect_success 'the parameters of a saved model are loaded by either' '
    on cpu weights "$scratch/cuda/model" "$scratch/first" && on cuda weights "$scratch/cpu/model" "$scratch/second" &&
    cmp first second && on cuda weights "$scratch/cuda/half" "$scratch/second" && on cpu weights "$scratch/cpu/half" "$scratch/first" &&
    cmp first second'
seeds=
if is_long; then seeds=$(seq 10); fi
port=$(free_port)
test_expect_success 'one process continues with what two had: the average of gradients' '
    by_hand 2 $port "$checkpoint" cpu open "$scratch/two/saved" >out && on cpu resume "$scratch/two/saved" "$scratch/first" small &&
    on cuda resume "$scratch/two/saved" "$scratch/second" small && cmp first second'
test_expect_success 'in any order of streams' '
    for seed in $seeds; do
        rm -rf other && mkdir other && STANDIN_SEED=$seed on cuda run "$scratch/other" && same cpu other || return 1
    done'

# ---- faults ----

mkdir before
test_expect_success 'a checkpoint from before each fault' 'on cuda first "$scratch/before/saved"'
# intact: the checkpoint is the one from before the fault, and nothing is beside it
intact () {
    test "$(ls -A kept)" = saved && same kept/saved before/saved
}
# broken CALL N ERROR WORDS [async]: this call fails while a state is saved
broken () {
    rm -rf kept && mkdir kept && on cuda fail "$1" "$2" "$3" "$scratch/kept/saved" ${5-} >out &&
        grep "^accel_save_state.*cuda:0: $4" out && intact
}
illegal='an illegal memory access was encountered (cudaErrorIllegalAddress)'
test_expect_success 'a copy from the GPU fails: the former checkpoint stays' '
    broken cudaMemcpyAsync 1 700 "cudaMemcpyAsync: $illegal" && broken cudaMemcpyAsync 9 700 "cudaMemcpyAsync: $illegal"'
test_expect_success 'also in a save in the background' '
    broken cudaMemcpyAsync 1 700 "cudaMemcpyAsync: $illegal" async &&
    broken cudaMemcpyAsync 9 700 "cudaMemcpyAsync: $illegal" async'
test_expect_success 'the GPU fails before it has copied' '
    broken cudaStreamSynchronize 5 719 cudaStreamSynchronize && broken cudaEventSynchronize 8 719 cudaEventSynchronize async'
# full [async]: each call to the file system fails once while a state is saved
full () {
    rm -rf kept && mkdir kept && on cuda full "$scratch/kept/saved" ${1-} && test "$(ls -A kept)" = saved
}
test_expect_success 'the disk is full: the former checkpoint stays' full
test_expect_success 'also in a save in the background' 'full async'
# allocations ERROR: each of a training fails once.  Without memory for a table of arrays, these are treated one by one.
allocations () {
    failed=0
    for call in $(seq 18); do
        status=0
        on cuda allocate $call "$1" >out || status=$?
        case $status in
        0) failed=$((failed + 1)) ;;
        3) ;;
        *) return 1 ;;
        esac
    done
    test "$status" -eq 3 && test "$failed" -ge "$2"
}
STANDIN_NO_POOLS=yes
export STANDIN_NO_POOLS
test_expect_success 'an allocation on the GPU fails for another reason than a want of memory: the reason is given' \
    'allocations 700 16'
test_expect_success 'a want of memory on the GPU is one' 'allocations 2 12'
unset STANDIN_NO_POOLS
# stopped CALL N ERROR WORDS COMMAND FROM: this call fails while a state, or a model, is loaded
stopped () {
    test_exit 1 env STANDIN_FAIL="$1:$2:$3" timeout $patience "$checkpoint" cuda "$5" "$scratch/cuda/$6" "$scratch/end" >out &&
        grep "$4" out
}
test_expect_success 'copies to the GPU fail while a checkpoint is loaded' '
    stopped cudaMemcpyAsync 24 700 "accel_load_state.*cuda:0: cudaMemcpyAsync: $illegal" resume state &&
    stopped cudaMemcpyAsync 24 700 "accel_load_model.*cuda:0: cudaMemcpyAsync: $illegal" weights model'
test_done
