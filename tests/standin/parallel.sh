#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tensor parallelism on GPUs of the stand-in, beside data parallelism: any grid has the losses, norms and files of one
# process on a CPU.
. "${srcdir:-.}/tests/testlib.sh"
subject='tensor parallelism on GPUs'
. "$srcdir/tests/standin/module.sh"
. "$srcdir/tests/conformance/near.sh"
cp "$standin/.libs/accel_engine_nccl.so" engines
STANDIN_DEVICES=4
export STANDIN_DEVICES
port=$(free_port)

# ranks COUNT PROGRAM ARGUMENT...: that many ranks with a GPU each
ranks () {
    count=$1 program=$2
    shift 2
    by_hand "$count" "$port" timeout $patience "$standin/$program" "$@"
}
test_expect_success 'one process, on the CPU' '
    "$builddir/examples/tensor_parallel" >example &&
    "$builddir/tests/conformance/parallel" train 1 6 f32 - host >log.f32 &&
    "$builddir/tests/conformance/parallel" train 1 6 bf16 - - >log.bf16'
if is_long; then
    grids='1:1 2:2 4:4 4:2' orders='1 2'
else
    grids='2:2 4:2' orders=1
fi
for grid in $grids; do
    count=${grid%:*} tp=${grid#*:}
    test_expect_success "examples/tensor_parallel: $count GPUs, $tp of which divide layers" '
        for STANDIN_SEED in $orders; do
            export STANDIN_SEED && ranks $count tensor_parallel $tp >log && diff example log || return 1
        done'
    for type in f32 bf16; do
        [ $type = f32 ] && bound=1e-6 || bound=5e-3
        test_expect_success "a model in $type: $count GPUs, $tp of which divide tensors, learn what one process does" '
            for STANDIN_SEED in $orders; do
                export STANDIN_SEED && ranks $count parallel train $tp 6 $type - - >log && near $bound log.$type log || return 1
            done'
    done
    test_expect_success "$count GPUs, $tp of which divide tensors, load what one process has saved, and save it again" '
        ranks $count parallel train $tp 6 f32 host again$grid >log && for file in /model.safetensors \
            /optimizer.safetensors /optimizer.json .model/model.safetensors .masters/model.safetensors; do
            cmp "host$file" "again$grid$file" || return 1
        done'
    test_expect_success "parts that are joined and cut, and losses of logits in parts: $count GPUs, $tp" '
        ranks $count parallel pairs $tp'
    [ "$tp" = 1 ] || test_expect_success "orders of samples, and schedules: $count GPUs, $tp" 'ranks $count parallel orders $tp'
done
test_expect_success 'what cannot be cut' 'ranks 2 parallel refused'
test_done
