#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate launch on a machine with GPUs, as far as files of /proc and /sys make one: names of GPUs, CPUs near them.
. "${srcdir:-.}/tests/testlib.sh"

unset CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER
# Two GPUs, each near one of the first two CPUs that this test may use.
cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | tr ',' '\n' | sed 's/^\([0-9]*\)-\([0-9]*\)$/\1 \2/' |
    while read -r first last; do seq "$first" "${last:-$first}"; done | head -n 2 | tr '\n' ' ')
first=${cpus%% *} second=${cpus#* } second=${second% }
for bus in 01 02; do
    mkdir -p driver/nvidia/gpus/0000:$bus:00.0 pci/0000:$bus:00.0
    printf 'Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-%s\nDevice Minor: \t 0\n' $bus >driver/nvidia/gpus/0000:$bus:00.0/information
done
echo "$first" >pci/0000:01:00.0/local_cpulist
echo "$second" >pci/0000:02:00.0/local_cpulist
on_gpus () { unshare -rm sh -c 'mount --bind driver /proc/driver && mount --bind pci /sys/bus/pci/devices && exec "$@"' sh "$@"; }
if ls /dev/nvidia[0-9]* >/dev/null 2>&1 || ! on_gpus true 2>/dev/null; then
    skip_rest 'this user may not mount, or here are some'
fi
test_expect_success 'as many ranks as GPUs, and each is bound to the CPUs near its own' '
    if [ -z "$second" ]; then echo "one CPU"; else
        on_gpus "$accelerate" launch --enable_cpu_affinity sh -c "grep Cpus_allowed_list /proc/self/status >cpus.\$RANK" &&
        grep -x "Cpus_allowed_list:	$first" cpus.0 && grep -x "Cpus_allowed_list:	$second" cpus.1
    fi'
test_expect_success '--bind gpu does that, too, and --report_bindings says so' '
    rm -f cpus.* && on_gpus "$accelerate" launch --bind gpu --report_bindings \
        sh -c "grep Cpus_allowed_list /proc/self/status >cpus.\$RANK" 2>error && cat error &&
    grep -x "Cpus_allowed_list:	$first" cpus.0 && grep "^accelerate: rank 0: on .*, device cuda:0, CPUs $first\(,.*\)\{0,1\}$" error &&
    if [ -n "$second" ]; then
        grep -x "Cpus_allowed_list:	$second" cpus.1 && grep "^accelerate: rank 1: on .*, device cuda:1, CPUs $second\(,.*\)\{0,1\}$" error
    fi'
test_expect_success 'without the option, none is bound' '
    on_gpus "$accelerate" launch sh -c "grep Cpus_allowed_list /proc/self/status >cpus.\$RANK" &&
    grep Cpus_allowed_list /proc/self/status >mine && cmp mine cpus.0 && cmp mine cpus.1'
test_expect_success 'a dry run shows the CPUs' '
    on_gpus "$accelerate" launch --dry_run --enable_cpu_affinity --gpu_ids GPU-02,GPU-01 true >out &&
    grep "^  0 .*device cuda:0, CPUs ${second:-.*}$" out && grep "^  1 .*device cuda:1, CPUs $first$" out &&
    on_gpus "$accelerate" launch --dry_run --json --enable_cpu_affinity true >out && grep -F "\"cpus\": \"$first\"" out'
if [ -n "$second" ] && command -v taskset >/dev/null; then
    test_expect_success 'a rank is not bound to CPUs that the launcher may not use' '
        on_gpus taskset -c "$second" "$accelerate" launch --enable_cpu_affinity sh -c "grep Cpus_allowed_list /proc/self/status >cpus.\$RANK" 2>error &&
        cat error && grep -x "Cpus_allowed_list:	$second" cpus.0 && grep -x "Cpus_allowed_list:	$second" cpus.1 &&
        grep -Fx "accelerate: note: rank 0 is not bound to the CPUs near its GPU: the launcher may not use any of them" error'
fi
test_expect_success 'GPUs that do not exist' '
    test_exit 2 on_gpus "$accelerate" launch --gpu_ids 0,2 true 2>error && cat error &&
    grep "^accelerate: gpu_ids: GPU 2 does not exist: .* has 2 GPUs, numbered from 0$" error &&
    test_exit 2 on_gpus "$accelerate" launch --gpu_ids GPU-03 --num_processes 1 true 2>error && cat error &&
    grep "^accelerate: gpu_ids: no GPU of .* has the UUID GPU-03; .accelerate env. lists them$" error'
test_expect_success 'more processes than GPUs' '
    test_exit 2 on_gpus "$accelerate" launch --multi_gpu --num_processes 3 true 2>error && cat error &&
    grep "^accelerate: 3 processes on .*, but it has 2 GPUs: start one process for each GPU (--num_processes), or give --share_gpus" error &&
    on_gpus "$accelerate" launch --multi_gpu --share_gpus --num_processes 3 true 2>error &&
    grep -x "accelerate: note: 3 processes share 2 GPUs" error &&
    on_gpus "$accelerate" launch --num_processes 3 true 2>error && cat error &&
    grep "^accelerate: note: 3 processes share 2 GPUs, which NCCL refuses: for a program on CPUs, give --cpu$" error'
test_expect_success 'each rank has a part of its own' '
    on_gpus "$accelerate" launch --gpu_ids MIG-1,MIG-2 sh -c "echo \$CUDA_VISIBLE_DEVICES \$LOCAL_RANK >part.\$RANK" &&
    grep -x "MIG-1 0" part.0 && grep -x "MIG-2 1" part.1'

# ---- who holds the memory ----

mkdir lib && cp "$builddir/tests/nvml/.libs/nvml.so" lib/libnvidia-ml.so.1
cat >gpus <<EOT
driver 550.54.14
cuda 12040
gpu 0000:01:00.0 GPU-01 81559 1000 9.0 NVIDIA H200
gpu 0000:02:00.0 GPU-02 81559 80000 9.0 NVIDIA H200
process 0 $$ 70000
EOT
head -n 4 gpus >free
# fails LINE OPTION...: two ranks on GPUs, the second of which prints LINE and fails.
fails () {
    line=$1
    shift
    rm -f calls
    NVML_STANDIN=$PWD/${machine:-gpus} NVML_CALLS=$PWD/calls LD_LIBRARY_PATH=$PWD/lib on_gpus "$accelerate" launch --num_processes 2 "$@" \
        sh -c 'if [ $RANK = 1 ]; then echo "$1" >&2; exit 3; fi; exec sleep 1000' sh "$line"
}
oom='torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.'
user=$(sed -n "s/^\\([^:]*\\):[^:]*:$(id -u):.*/\\1/p" /etc/passwd | head -n 1)
test_expect_success 'out of memory: who uses the GPU' '
    test_exit 3 fails "$oom" --failure_report r.json 2>error && cat error &&
    if [ "$(readlink /proc/self/ns/pid)" = "pid:[4026531836]" ]; then who="process $$ of $user ($(cat /proc/$$/comm))"
    else who="process $$ of the host"; fi &&
    grep -Fx "  GPU 0 (NVIDIA H200) has 0.98 of 79.65 GB free; used by $who, 68.36 GB" error && ! grep "^  GPU 1" error &&
    grep -F "\"gpus\":[\"GPU 0 (NVIDIA H200) has 0.98 of 79.65 GB free; used by $who, 68.36 GB\"]" r.json'
test_expect_success 'out of memory, and no other process uses a GPU' '
    machine=free && test_exit 3 fails "CUDA error: out of memory" 2>error && cat error &&
    if [ "$(readlink /proc/self/ns/pid)" = "pid:[4026531836]" ]; then grep -x "  no other process uses a GPU now" error
    else ! grep "no other process" error; fi'
test_expect_success 'out of memory, and the driver does not say who uses a GPU' '
    { cat free && echo "fail nvmlDeviceGetComputeRunningProcesses_v3 3" && echo "fail nvmlDeviceGetGraphicsRunningProcesses_v3 3"; } >unknown &&
    machine=unknown && test_exit 3 fails "CUDA error: out of memory" 2>error && cat error && test -e calls && ! grep "no other process" error'
if unshare -rpf true 2>/dev/null; then
    test_expect_success 'another pid namespace: processes may be hidden' '
        on_gpus () { unshare -rmpf --mount-proc sh -c "mount --bind driver /proc/driver && mount --bind pci /sys/bus/pci/devices && exec \"\$@\"" sh "$@"; } &&
        machine=free && test_exit 3 fails "CUDA error: out of memory" 2>error && cat error && test -e calls && ! grep "no other process" error'
fi
test_expect_success 'more processes than are listed' '
    for i in $(seq 20); do echo "process 1 $((4000000 + i)) 10"; done >more && cat free more >crowd && machine=crowd &&
    test_exit 3 fails "CUDA_ERROR_OUT_OF_MEMORY" 2>error && cat error &&
    grep "^  GPU 1 .*; used by process 4000001 .*; process 4000016 .* and 4 more processes$" error'
test_expect_success 'other failures, and those on CPUs, do not ask NVML' '
    test_exit 3 fails "out of memory: kernel" 2>error && ! test -e calls && ! grep GPU error &&
    test_exit 3 fails "$oom" --cpu 2>error && ! test -e calls && ! grep "GPU [01]" error'
test_expect_success 'a library that fails is not mentioned' '
    { cat gpus && echo "fail nvmlInit_v2 9"; } >bad && machine=bad && test_exit 3 fails "$oom" 2>error && cat error &&
    test -e calls && ! grep -e nvml -e "GPU [01]" error'
test_done
