#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ZeRO-1 by public calls, as in the port of llm.c's GPU trainer (tests/gpu/llmc/): zero1.c trains with the same bits on
# 1, 2 and 4 GPUs, in any order of streams, on a stream of collectives of its own, and from a checkpoint.
. "${srcdir:-.}/tests/testlib.sh"
subject='optimizers that programs shard' gpus=4
. "$srcdir/tests/standin/module.sh"
# train RANKS FOLDER [WORD...]: all ranks end with the parameters, and the norms, of one rank
train () {
    count=$1 name=$2
    shift 2
    { test -d "$name" || mkdir "$name"; } &&
        (cd "$name" && ranks "$count" zero1 params "$@" >out) &&
        for rank in $(seq 0 $((count - 1))); do cmp one/params.0 "$name/params.$rank" || return 1; done
}
test_expect_success 'one rank' 'train 1 one && test "$(grep -c "^step" one/out)" = 6 && ! grep -E "norm (0|nan|inf)" one/out'
for ranks in 2 4; do
    test_expect_success "$ranks ranks end with the bits of one" 'train $ranks many-$ranks && cmp one/out many-$ranks/out'
    test_expect_success "... with a stream for collectives" 'train $ranks own-$ranks own-stream && cmp one/out own-$ranks/out'
    test_expect_success "... and from a checkpoint, to which each of $ranks ranks adds its shard" '
        train $ranks saved-$ranks save && test "$(ls saved-$ranks/checkpoint/rank_*.safetensors | wc -l)" = $ranks &&
        rm saved-$ranks/params.* && train $ranks saved-$ranks load && sed 1,3d one/out | cmp - saved-$ranks/out'
done
seeds=3
if is_long; then seeds=20; fi
test_expect_success '2 ranks in any order of streams' '
    for seed in $(seq $seeds); do
        STANDIN_SEED=$seed train 2 seed-$seed && STANDIN_SEED=$seed train 2 seed-$seed own-stream || return 1
    done'
test_expect_success 'planted: streams that do not wait' '
    ! STANDIN_SKIP=cudaStreamWaitEvent train 2 planted own-stream 2>err &&
    grep "^standin: .*another stream .*, without an event between them" err'
test_done
