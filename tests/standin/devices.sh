#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tensors on GPUs, of which the stand-in for the CUDA runtime is one: gpu.c trains the network of examples/digits on it,
# and device.c (of tests/engines/) does everything that one process can do with a device.  Both give the CPU's bits.
. "${srcdir:-.}/tests/testlib.sh"
subject='tensors on GPUs'
. "$srcdir/tests/standin/module.sh"
gpu=$standin/gpu

test_expect_success 'digits are learnt with the losses and the bits of the CPU' 'timeout $patience "$gpu" >out'
test_expect_success 'a step has as many launches for many parameters as for few, and waits for nothing but numbers' '
    timeout $patience "$standin/launches" >out && test "$(grep -c ^ok out)" -eq 35'
test_expect_success 'a step becomes a CUDA graph, whose launches have the bits of calls' '
    timeout $patience "$standin/graphs" >out && test "$(grep -c ^ok out)" -eq 32'
if is_long; then
    test_expect_success '... also for 120, in all ways' '
        timeout $patience "$standin/launches" large >out && test "$(grep -c ^ok out)" -eq 53'
fi
if is_long; then
    test_expect_success 'digits, in any order of streams' '
        for seed in $(seq 30); do
            STANDIN_SEED=$seed timeout $patience "$gpu" short >out || return 1
        done'
fi
test_expect_success 'collectives, groups and training give the bits of the host' \
    'timeout $patience "$standin/device" >out'
test_expect_success 'lists of arrays: what overlaps, grows, changes while the GPU is late, and ends' '
    STANDIN_BYTES=2000000 timeout $patience "$standin/lists" >out && test "$(grep -c ^ok out)" -eq 10'
# unlisted WHEN CALL:N WORDS...: a list that lacks memory has no error, and one with another error has it
unlisted () {
    for plan in $2; do
        timeout $patience "$standin/lists" "$1" "$plan:700" >out && grep "^ok 1 - the GPU has an error" out || return 1
    done
    for plan in $3; do
        timeout $patience "$standin/lists" "$1" "$plan:2" >out && grep "^ok 1 - nothing was done" out || return 1
    done
}
test_expect_success 'errors of a list: a want of memory is none of the GPU, and the list may be tried again' '
    unlisted new "cudaEventCreateWithFlags:1 cudaHostAlloc:1 cudaMalloc:1 cudaMalloc:2 cudaMemcpyAsync:1 cudaEventRecord:1" \
        "cudaHostAlloc:1 cudaMalloc:1 cudaMalloc:2" &&
    unlisted grown "cudaEventSynchronize:1 cudaFreeHost:1 cudaFree:1 cudaHostAlloc:1 cudaMalloc:1 cudaFree:2 cudaMalloc:2 \
        cudaMemcpyAsync:1 cudaEventRecord:1" "cudaHostAlloc:1 cudaMalloc:1 cudaMalloc:2"'
test_expect_success 'each function of the table has the results of the host, and does nothing on a GPU that does not exist' '
    timeout $patience "$standin/memory_table" >out && test "$(grep -c ^ok out)" -eq 125'
test_expect_success 'what each function asks of CUDA, and what follows when one of these calls fails' '
    timeout $patience "$standin/cuda_script" >calls && diff "$srcdir/tests/standin/cuda_calls" calls'
test_expect_success 'tensors go to a GPU, to another one and back' '
    STANDIN_DEVICES=2 timeout $patience "$gpu" send >out && test "$(grep -c ^ok out)" -eq 4'
test_expect_success 'a GPU that does not exist' '
    test_exit 1 timeout $patience "$gpu" send >out && grep "cuda:1: cudaSetDevice: .*cudaErrorInvalidDevice" out'
test_expect_success 'too little memory on the GPU' '
    test_exit 1 env STANDIN_DEVICES=2 STANDIN_BYTES=1000000 timeout $patience "$gpu" send >out &&
    grep "cannot allocate 1200000 bytes on cuda:0" out'

test_expect_success 'there is no way to GPUs of other makers' 'timeout $patience "$gpu" rocm >out && test "$(grep -c ^ok out)" -eq 1'
test_expect_success 'a call leaves the device of the thread as it was, and tells errors of the program once' '
    STANDIN_DEVICES=3 timeout $patience "$gpu" visits >out && test "$(grep -c ^ok out)" -eq 17'
test_expect_success 'a call makes no context on other GPUs' '
    echo "int (*context_state) (int, unsigned *, int *);
        int cuDevicePrimaryCtxGetState (int device, unsigned *flags, int *active)
        { return context_state (device, flags, active); }
        int (*pointer_attributes) (unsigned, const int *, void **, unsigned long long);
        int cuPointerGetAttributes (unsigned count, const int *attributes, void **values, unsigned long long address)
        { return pointer_attributes ? pointer_attributes (count, attributes, values, address) : 3; }" >driver.c &&
    $CC -shared -fPIC -Wl,-soname,libcuda.so.1 -o libcuda.so.1 driver.c &&
    STANDIN_DEVICES=3 STANDIN_LIBCUDA=$scratch/libcuda.so.1 timeout $patience "$gpu" contexts >out &&
    test "$(grep -c ^ok out)" -eq 6'

# ---- models that accel_prepare() places ----

test_expect_success 'a model goes to the GPU, back, and there again, with the bits of the CPU' '
    timeout $patience "$standin/place" >out && test "$(grep -c ^ok out)" -eq 2'
is_long && test_expect_success '... in any order of streams' '
    for seed in $(seq 10); do
        STANDIN_SEED=$seed timeout $patience "$standin/place" >out && test "$(grep -c ^ok out)" -eq 2 || return 1
    done'
test_expect_success 'a model that cannot go there, or back, stays as it was' '
    STANDIN_NO_POOLS=yes timeout $patience "$standin/place" errors >out && test "$(grep -c ^ok out)" -eq 10 &&
    timeout $patience "$standin/place" lost >out && test "$(grep -c ^ok out)" -eq 4'
# learns NAME PROGRAM OPTION...: its lines in NAME.out, without the time, and its model in NAME
learns () {
    name=$1
    shift
    timeout $patience "$@" --epochs 2 --output_dir "$name" >lines && sed "s/ in [0-9.]* s\$//" lines >"$name.out"
}
test_expect_success 'examples/digits learns on a GPU as on the CPU, with another network and no other line' '
    for options in "" "--mixed_precision fp16 --gradient_accumulation_steps 2" "--mixed_precision fp8"; do
        learns cpu "$builddir/examples/digits" $options && learns gpu "$standin/digits_gpu" $options &&
            cmp cpu.out gpu.out && cmp cpu/model.safetensors gpu/model.safetensors || return 1
    done'
test_expect_success 'and continues from checkpoints of the CPU there, and of the GPU on the CPU' '
    learns saved "$standin/digits_gpu" --checkpointing_steps epoch && learns there "$builddir/examples/digits" \
        --resume_from_checkpoint saved/checkpoints/checkpoint_0 && learns whole "$builddir/examples/digits" --checkpointing_steps epoch &&
    learns back "$standin/digits_gpu" --resume_from_checkpoint whole/checkpoints/checkpoint_0 &&
    for name in there back; do cmp "$name/model.safetensors" whole/model.safetensors || return 1; done'

# tested N [OPTION...]: accelerate test with one process, of which N steps are for GPUs
tested () {
    wanted=$1
    shift
    timeout $patience "$accelerate" test --num_processes 1 "$@" >out 2>&1 &&
        { grep -c "^GPU: .* ok\$" out || :; } | grep -x "$wanted"
}
test_expect_success 'accelerate test tries the GPU, too' 'tested 4'
test_expect_success 'and leaves it out where the CPU computes' 'tested 0 --cpu && STANDIN_DEVICES=0 tested 0'
test_expect_success 'accelerate test names the step of an error on the GPU' '
    test_exit 1 env STANDIN_FAIL=cudaMemcpyAsync:3:700 "$accelerate" test --num_processes 1 >out 2>&1 &&
    grep "^accel_selftest: rank 0: GPU: tensors: accel_send_to_device: .*cuda:0: cudaMemcpyAsync: " out'

# ---- which GPU ----

# has DEVICE [NAME=VALUE...]: a process alone computes on it
has () {
    wanted=$1
    shift
    env "$@" timeout $patience "$gpu" device >out && grep -Fx "$wanted" out
}
none='cpu: no GPU can be used: no CUDA-capable device is detected'
test_expect_success 'a process alone has the first GPU' 'has cuda:0 STANDIN_DEVICES=3'
test_expect_success 'without a GPU, it has the CPU' 'has "$none" STANDIN_DEVICES=0'
test_expect_success 'ACCELERATE_USE_CPU' 'has "cpu: " ACCELERATE_USE_CPU=true'
test_expect_success 'CUDA_VISIBLE_DEVICES: indices, UUIDs, MIG instances, none' '
    has cuda:0 STANDIN_DEVICES=4 CUDA_VISIBLE_DEVICES=3 && has cuda:0 STANDIN_DEVICES=4 CUDA_VISIBLE_DEVICES=GPU-2,MIG-1 &&
    has "$none; CUDA_VISIBLE_DEVICES=" STANDIN_DEVICES=4 CUDA_VISIBLE_DEVICES= &&
    has "$none; CUDA_VISIBLE_DEVICES=GPU-9" STANDIN_DEVICES=4 CUDA_VISIBLE_DEVICES=GPU-9'
# ranks DEVICES N [NAME=VALUE...]: what N ranks of one host have, sorted
ranks () {
    port=$(free_port) wanted=$1 count=$2
    shift 2
    by_hand "$count" "$port" env "$@" "$gpu" "$what" >out && sort out | tr "\n" " " >sorted && test "$(cat sorted)" = "$wanted"
}
what=device
test_expect_success 'ranks have the CPU, without an engine for GPUs' 'ranks "cpu:  cpu:  " 2 STANDIN_DEVICES=4'
what=choice
test_expect_success 'ranks have one GPU each' 'ranks "cuda:0 cuda:1 cuda:2 " 3 STANDIN_DEVICES=4'
test_expect_success 'more ranks than GPUs share them' 'ranks "cuda:0 cuda:0 cuda:1 " 3 STANDIN_DEVICES=4 CUDA_VISIBLE_DEVICES=2,GPU-0'

# ---- the module ----

test_expect_success 'without the module, it has the CPU' \
    'has "cpu: accel_device_cuda.so is not installed" ACCEL_ENGINE_PATH="$scratch/nothing"'
test_expect_success 'a module that others may change is not loaded' '
    chmod o+w engines/accel_device_cuda.so && timeout $patience "$gpu" device >out && chmod o-w engines/accel_device_cuda.so &&
    grep "^cpu: the code for GPUs is not loaded: others may write" out'
test_expect_success 'a warning reports it, unless the CPU was asked for' '
    chmod o+w engines/accel_device_cuda.so && timeout $patience "$gpu" device 2>err >out &&
    ACCELERATE_USE_CPU=true timeout $patience "$gpu" device 2>none >out && chmod o-w engines/accel_device_cuda.so &&
    grep "WARNING.* this program computes on CPUs: the code for GPUs is not loaded: others may write" err && test ! -s none &&
    timeout $patience "$gpu" device 2>none >out && test ! -s none &&
    STANDIN_DEVICES=0 timeout $patience "$gpu" device 2>none >out && test ! -s none'
test_expect_success 'code for other devices is not code for GPUs' '
    mkdir others && cp "$module" others && : >others/accel_device_aaa.so && : >others/accel_device_zzz.so &&
    has cuda:0 ACCEL_ENGINE_PATH="$scratch/others" && rm others/accel_device_cuda.so &&
    has "cpu: accel_device_cuda.so is not installed" ACCEL_ENGINE_PATH="$scratch/others"'
# A module that says that there is a GPU.
cat >other.c <<'END'
#include <config.h>
#include "lib/memory/device.h"
#include "lib/memory/memory.h"
extern const struct device_module accel_device;
static const struct memory table;
static enum accel_status
choose (const struct device_helpers *helpers, int rank, int *device, struct accel_error *err)
{
    return (void) helpers, (void) rank, (void) err, *device = 0, ACCEL_OK;
}
const struct device_module accel_device = { RELEASE, sizeof (struct memory) SMALLER, &table, choose };
END
# build_other RELEASE SMALLER: as other/accel_device_cuda.so
build_other () {
    $CC -std=gnu11 -D_GNU_SOURCE "-DRELEASE=$1" "-DSMALLER=$2" -I"$builddir" -I"$srcdir/src" -I"$srcdir/include" \
        -shared -fPIC -o other/accel_device_cuda.so other.c
}
mkdir other
test_expect_success 'a module from a different release is not used' '
    build_other PACKAGE_VERSION "" && ACCEL_ENGINE_PATH=$scratch/other timeout $patience "$gpu" device >out && grep "^cuda:0" out &&
    for differs in "\"0\" " "PACKAGE_VERSION -8"; do
        build_other "${differs% *}" "${differs##* }" && ACCEL_ENGINE_PATH=$scratch/other timeout $patience "$gpu" device >out &&
            grep "^cpu: .*other/accel_device_cuda.so is from a different release than libaccel" out || return 1
    done'
test_expect_success 'a module whose library is missing' '
    build_other PACKAGE_VERSION "" && cp other/accel_device_cuda.so libmissing_for_test.so &&
    printf "extern const int accel_device; int uses (void); int uses (void) { return accel_device; }\n" >uses.c &&
    $CC -shared -fPIC -Wl,--no-as-needed -o other/accel_device_cuda.so uses.c -L. -lmissing_for_test &&
    ACCEL_ENGINE_PATH=$scratch/other timeout $patience "$gpu" device >out &&
    grep "^cpu: the code for GPUs cannot be loaded: libmissing_for_test.so: cannot open" out'
if [ -f "$builddir/.libs/libaccel.so" ]; then
    test_expect_success 'nothing of CUDA is linked' '
        for file in "$builddir/.libs/libaccel.so" "$accelerate"; do
            readelf -d "$file" >needs && ! grep -i cuda needs || return 1; done'
fi

# ---- errors ----

# fails CALL:N[:ERROR] WORDS: training ends with a message
fails () {
    test_exit 1 env STANDIN_FAIL="$1" timeout $patience "$gpu" >out 2>&1 && grep "^Bail out! .*$2" out
}
for plan in cudaMemcpyAsync:3:700 cudaLaunchKernel:4:700 cudaMemsetAsync:12:719 cudaStreamSynchronize:3:46 \
    cudaEventRecord:2:2 cudaEventSynchronize:5:1 cudaHostAlloc:1:2 cudaEventCreateWithFlags:1:1 cudaGetDevice:9:999; do
    call=${plan%%:*}
    # A launch has no return value: the next call that asks has the error.
    [ "$call" != cudaLaunchKernel ] || call="a kernel"
    test_expect_success "an error of $plan comes back" "fails $plan 'cuda:0: $call: '"
done
# Memory comes from a pool, or, on devices without pools, from cudaMalloc().
test_expect_success 'an error of the pool comes back, of another kind than a want of memory' '
    for call in 2 5 9 10; do
        fails cudaMallocFromPoolAsync:$call:700 "cuda:0: cudaMallocFromPoolAsync: an illegal memory access" || return 1
    done'
STANDIN_NO_POOLS=yes
export STANDIN_NO_POOLS
test_expect_success 'an error of cudaMalloc comes back' 'fails cudaMalloc:1:2 "cuda:0: cudaMalloc: out of memory (cudaErrorMemoryAllocation)" &&
    fails cudaMalloc:3:2 "cannot allocate" && fails cudaMalloc:12:2 "cannot allocate"'
test_expect_success 'another error of cudaMalloc is not a want of memory' '
    for call in 3 6 10 11 12; do fails cudaMalloc:$call:700 "cuda:0: cudaMalloc: an illegal memory access" || return 1; done'
unset STANDIN_NO_POOLS
if [ -f "$builddir/src/cuda/accel_device_cuda.so" ]; then
    test_expect_success 'the module knows where the CUDA runtime is' '
        readelf -d "$builddir/src/cuda/accel_device_cuda.so" >needs && grep "RUNPATH.*/lib64" needs'
fi
# warned WORDS NAME=VALUE...: the CPU computes, and a warning has the words
warned () {
    wanted=$1
    shift
    env "$@" timeout $patience "$gpu" device >out 2>err && grep "^cpu: $wanted" out &&
        grep "WARNING.* this program computes on CPUs: $wanted" err
}
test_expect_success 'GPUs that CUDA cannot use: a warning says why' '
    warned "no GPU can be used: unknown error" STANDIN_FAIL=cudaGetDeviceCount:1 &&
    warned "no GPU can be used: CUDA driver version is insufficient" STANDIN_FAIL=cudaGetDeviceCount:1:35'
test_expect_success 'a machine without a driver, or without a GPU: no warning' '
    STANDIN_DRIVER=0 STANDIN_FAIL=cudaGetDeviceCount:1:35 timeout $patience "$gpu" device >out 2>err && grep "^cpu: no GPU" out &&
    test ! -s err && STANDIN_DEVICES=0 timeout $patience "$gpu" device >out 2>err && grep "^cpu: no GPU" out && test ! -s err'
test_expect_success 'GPUs that the module was not compiled for: a warning' '
    for capability in 7.5 11.0; do
        warned "accel_device_cuda.so was not compiled for cuda:0, whose compute capability is $capability: configure .*=${capability%.*}${capability#*.}, or" \
            STANDIN_CAPABILITY=$capability || return 1
    done &&
    for capability in 8.0 8.7 10.3 12.1 13.0; do has cuda:0 STANDIN_CAPABILITY=$capability || return 1; done'
# mixed CAPABILITIES N DEVICES GPUS: what N ranks have, sorted, and of which GPUs warnings tell
mixed () {
    capabilities=$1 count=$2 wanted=$3 warnings=$4
    by_hand "$count" "$(free_port)" \
        env STANDIN_DEVICES="$count" STANDIN_CAPABILITY="$capabilities" "$gpu" choice >out 2>err || return 1
    sed "s/: .*//" out | sort | tr "\n" " " >sorted
    grep -o "computes on CPUs: .* not compiled for cuda:[0-9]*" err | sed "s/.* //" | sort | tr "\n" " " >warned
    cat sorted warned && test "$(cat sorted)" = "$wanted" && test "$(cat warned)" = "$warnings"
}
test_expect_success 'of GPUs that differ, each rank has its own, or the CPU and a warning that names it' '
    mixed 12.0,7.5 2 "cpu cuda:0 " "cuda:1 " && mixed 7.5,12.0 2 "cpu cuda:1 " "cuda:0 " &&
    mixed 7.5,11.0,12.0 3 "cpu cpu cuda:2 " "cuda:0 cuda:1 " && mixed 7.5,11.0 2 "cpu cpu " "cuda:0 "'
test_done
