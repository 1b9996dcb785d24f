#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tensor parallelism on GPUs of the stand-in, beside data parallelism: any grid has the losses, norms and files of one
# process on a CPU.
. "${srcdir:-.}/tests/testlib.sh"
subject='tensor parallelism on GPUs' gpus=4
. "$srcdir/tests/standin/module.sh"
. "$srcdir/tests/conformance/near.sh"
# same A B: two saved states, and models, have the same bits
same () {
    for file in /model.safetensors /optimizer.safetensors /optimizer.json .model/model.safetensors \
        .masters/model.safetensors; do
        cmp "$1$file" "$2$file" || return 1
    done
}
test_expect_success 'one process, on the CPU' '
    "$builddir/examples/tensor_parallel" >example &&
    "$builddir/tests/conformance/parallel" train 1 6 f32 - host >log.f32 &&
    "$builddir/tests/conformance/parallel" train 1 6 bf16 - host.bf16 >log.bf16'
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
        [ $type = f32 ] && bound=1e-6 || bound=1e-5
        test_expect_success "a model in $type: $count GPUs, $tp of which divide tensors, learn what one process does" '
            for STANDIN_SEED in $orders; do
                export STANDIN_SEED && ranks $count parallel train $tp 6 $type - - >log && near $bound log.$type log || return 1
            done'
    done
    test_expect_success "$count GPUs, $tp of which divide tensors, load what one process has saved, and save it again" '
        ranks $count parallel train $tp 6 f32 host again$grid >log && same host again$grid'
    test_expect_success "parts that are joined and cut, and losses of logits in parts: $count GPUs, $tp" '
        ranks $count parallel pairs $tp'
    [ "$tp" = 1 ] || test_expect_success "orders of samples, and schedules: $count GPUs, $tp" 'ranks $count parallel orders $tp'
done
for count in 1 2 3 4; do
    test_expect_success "layers that $count GPUs divide have the bits of whole ones" '
        for STANDIN_SEED in $orders; do
            export STANDIN_SEED && ranks $count parallel_layers || return 1
        done'
done
# Stages 1 to 3 are 2 to 4.
for sharding in 2 3 4; do
    test_expect_success "4 GPUs, 2 of which divide tensors, sharding $sharding: they learn what one process does" '
        for STANDIN_SEED in $orders; do
            export STANDIN_SEED && ranks 4 parallel train 2 6 f32 - f32 $sharding >log && near 1e-6 log.f32 log &&
            ranks 4 parallel train 2 6 bf16 - bf16 $sharding >log && near 1e-5 log.bf16 log || return 1
        done'
    test_expect_success "sharding $sharding: one process loads what they have saved, and they what one has" '
        for type in f32 bf16; do
            from=host && [ $type = f32 ] || from=host.bf16
            "$builddir/tests/conformance/parallel" train 1 6 $type $type alone >log && same $type alone &&
            ranks 4 parallel train 2 6 $type $from again $sharding >log && same $from again || return 1
        done'
done
# To host memory (h) or files (f).
for way in 4h 4f; do
    test_expect_success "4 GPUs, 2 of which divide tensors, parameters offloaded, $way: they learn, save and load as one process does" '
        for type in f32 bf16; do
            [ $type = f32 ] && bound=1e-6 from=host || { bound=1e-5 && from=host.bf16; }
            ranks 4 parallel train 2 6 $type - off $way >log && near $bound log.$type log &&
            "$builddir/tests/conformance/parallel" train 1 6 $type off alone >log && same off alone &&
            ranks 4 parallel train 2 6 $type $from again $way >log && same $from again || return 1
        done'
done
for way in 1c 2c 4n; do
    test_expect_success "4 GPUs, 2 of which divide tensors: states cannot be offloaded, $way" '
        test_exit 1 ranks 4 parallel train 2 6 f32 - - $way >log 2>err &&
        grep "accel_prepare: a model on a GPU whose tensors are divided (tp_size) cannot be offloaded$" err'
done
# The masters of parameters that no optimizer changes are not saved, and stay packed: l leaves one, p all.
for sharding in 2 3 4; do
    test_expect_success "sharding $sharding: a parameter that no optimizer changes is saved, and loaded" '
        ranks 4 parallel train 2 3 bf16 - left ${sharding}l >log &&
        "$builddir/tests/conformance/parallel" train 1 3 bf16 left alone 0l >log && same left alone'
    test_expect_success "sharding $sharding: a model whose optimizer is not prepared is saved, and loaded" '
        ranks 4 parallel train 2 0 bf16 - bare ${sharding}p >log &&
        "$builddir/tests/conformance/parallel" train 1 0 bf16 bare alone.bare 0p >log &&
        for file in "" .model .masters; do
            cmp bare$file/model.safetensors alone.bare$file/model.safetensors || return 1
        done'
done
for sharding in 2 3 4; do
    test_expect_success "sharding $sharding: a model in parts that is no longer prepared is saved as a whole one is" '
        ranks 4 parallel train 1 6 bf16 host.bf16 unwrapped 3u >log &&
        ranks 4 parallel train 2 6 bf16 host.bf16 unwrapped.cut ${sharding}u >log &&
        for kind in model masters; do
            cmp unwrapped.$kind/model.safetensors unwrapped.cut.$kind/model.safetensors || return 1
        done'
done
test_expect_success 'what cannot be cut' 'ranks 2 parallel refused'
test_done
