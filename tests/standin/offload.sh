#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# States, masters and divided parameters of models on GPUs in host memory or in files, with engine nccl on the
# stand-ins: the losses and bits of training without offloading, in pieces of few elements; checkpoints that are the same
# files, and go either way; less memory; and what fails or is refused.
. "${srcdir:-.}/tests/testlib.sh"
subject='offloading from GPUs' gpus=4
. "$srcdir/tests/standin/module.sh"
for ranks in $(fewer '1 2' '1 2 4'); do
    for stage in whole '' gradients layers; do
        case $stage in gradients) lines=12 ;; layers) lines=14 ;; *) lines=13 ;; esac
        test_expect_success "$ranks ranks, ${stage:-states divided}: the losses and bits of training without offloading" '
            ranks_pass $ranks $lines sharded scenes cpu $stage'
    done
done
for ranks in 1 2; do
    test_expect_success "$ranks ranks: the same in files, with blocks and threads" 'ranks_pass $ranks 21 offload files'
done
test_expect_success '4 ranks, within pairs' 'ranks_pass 4 13 sharded scenes cpu hybrid'
for words in params 'cpu params' 'nvme file'; do
    for ranks in $(fewer 2 '1 2 4'); do
        test_expect_success "$ranks ranks, parameters offloaded, too: $words" 'ranks_pass $ranks 14 sharded scenes layers $words'
    done
    test_expect_success "... within pairs: $words" 'ranks_pass 4 13 sharded scenes hybrid $words'
done
test_expect_success 'parameters in memory that cannot be pinned' 'ranks_pass 2 1 offload pageable'
for ranks in 2 3; do
    test_expect_success "$ranks ranks: what a program may do with layers whose parameters are offloaded" '
        ranks_pass $ranks 78 layers uses params'
done
test_expect_success '... they are copied while others are computed, and then gathered, as early as the formula says' '
    ranks_pass 2 8 layers times params'
test_expect_success '2 groups of 2 ranks: averages of groups are averaged, parameters offloaded' 'ranks_pass 4 36 layers groups params'
# Bytes, what has enough memory then, and what has not.
while read -r limit enough less; do
    test_expect_success "GPUs with $limit bytes have enough for parameters that are $enough, not for $less" '
        STANDIN_BYTES=$limit ranks_pass 4 1 layers fits $enough && ! STANDIN_BYTES=$limit ranks_pass 4 1 layers fits $less'
done <<END
3400000 lent parameters
2700000 offloaded lent
END
seeds=3
if is_sanitized; then seeds=1; fi
if is_long; then seeds=20; fi
test_expect_success '2 ranks in any order of streams' '
    for seed in $(seq $seeds); do
        for words in cpu "layers params" "layers cpu params"; do
            lines=14 && [ "$words" != cpu ] || lines=13
            STANDIN_SEED=$seed ranks_pass 2 $lines sharded scenes $words || return 1
        done
    done'
test_expect_success 'planted: a host that does not wait for gradients' '
    ! STANDIN_SKIP=cudaEventSynchronize ranks_pass 2 13 sharded scenes cpu && grep "^not ok 1 " out'
test_expect_success 'planted: streams that do not wait' '
    ! STANDIN_SKIP=cudaStreamWaitEvent ranks_pass 2 13 sharded scenes cpu &&
    grep "^standin: .*another stream .*, without an event" error'
test_expect_success 'a GPU that is too small for the states of a model has enough memory without' '
    STANDIN_BYTES=5000000 ranks_pass 1 1 sharded fits && STANDIN_BYTES=5000000 ranks_pass 1 1 sharded fits cpu'
test_expect_success 'a model without cuts in a job with tensor parallelism' 'ranks_pass 2 1 offload parallel'
test_expect_success 'what cannot be offloaded' 'ranks_pass 2 7 offload refused'
test_expect_success 'what the launcher is asked for' '
    ACCELERATE_USE_DEEPSPEED=true ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE=cpu ranks_pass 2 1 offload launched'
test_expect_success 'one rank without a stream, or a folder: all have its error' '
    ranks_pass 2 1 offload fails stream . "rank 1: " &&
    ranks_pass 2 1 offload fails folder "$PWD/none" "rank 1: " "$PWD/none"'
test_expect_success '... or without memory for any part of a model with divided gradients: no rank is left waiting' '
    for turn in $(seq 20); do
        ranks_pass 2 1 sharded fails prepare $turn gradients nvme || return 1
        if grep prepared out; then break; fi
    done &&
    test "$(grep -c prepared out)" = 2 && test "$turn" -gt 3'
test_expect_success '... or with offloaded parameters, also of the host' '
    for turn in $(seq 20); do
        ranks_pass 2 1 sharded fails prepare $turn layers params || return 1
        if grep prepared out; then break; fi
    done &&
    test "$(grep -c prepared out)" = 2 && test "$turn" -gt 3 &&
    for turn in $(seq 0 7 200); do
        ranks_pass 2 1 sharded fails host $turn layers params || return 1
        if grep prepared out; then break; fi
    done && [ "$turn" -gt 30 ] && [ "$turn" -lt 200 ]'
test_expect_success 'offloaded parameters that cannot be gathered: their memory goes back after what is copied there' '
    ranks_pass 2 1 sharded fails gather layers cpu params'
test_expect_success 'a step that has no memory for offloaded parameters is not counted, and one with aborted sums fails' '
    ranks_pass 2 2 sharded fails step layers params'

# ---- checkpoints ----

# saved FROM TO RANKS WORD...
saved () {
    from=$1 to=$2 ranks=$3
    shift 3
    rm -rf "$to" "$to.masters"
    ranks_pass "$ranks" 1 sharded run "$from" "$to" "$@"
}
# same TO LIKE: they are the same files
same () {
    for file in /model /optimizer .masters/model; do
        cmp "$2$file.safetensors" "$1$file.safetensors" || return 1
    done
}
test_expect_success 'a state has the files of one without offloading' '
    saved - plain 2 2 && saved plain goal 2 2 &&
    for words in whole sharded gradients layers "layers params" "layers file"; do
        saved - off 2 2 cpu $words && same off plain || return 1
    done && saved - off 2 2 layers params && same off plain'
test_expect_success '... also in the background, or by each rank' '
    saved - shares 2 2 cpu sharded shares && cmp plain.masters/model.safetensors shares.masters/model.safetensors &&
    saved - late 2 2 cpu sharded async && cmp plain/optimizer.safetensors late/optimizer.safetensors &&
    saved - shares 2 2 layers params shares && cmp plain.masters/model.safetensors shares.masters/model.safetensors &&
    saved - late 2 2 cpu layers params async && cmp plain/optimizer.safetensors late/optimizer.safetensors'
for words in whole sharded layers 'layers params'; do
    test_expect_success "training continues from it, on any count, with offloading or without: $words" '
        for from in plain off shares; do
            saved $from on 2 2 cpu $words && same on goal && saved $from again 1 cpu $words && same again plain &&
                saved $from again 3 cpu $words && same again plain || return 1
        done && saved off on 2 2 $words && same on goal && saved shares on 2 2 && same on goal'
done
test_done
