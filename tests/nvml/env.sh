#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate env names GPUs, their parts, links and processes as NVML reports them, whatever NVML lacks or refuses.
. "${srcdir:-.}/tests/testlib.sh"

if [ ! -f "$builddir/tests/nvml/.libs/nvml.so" ]; then
    skip_rest 'this build has no shared libraries'
fi
mkdir new old
cp "$builddir/tests/nvml/.libs/nvml.so" new/libnvidia-ml.so.1
cp "$builddir/tests/nvml/.libs/nvml_old.so" old/libnvidia-ml.so.1
NVML_STANDIN=$PWD/gpus
export NVML_STANDIN
# env_of LIBRARY OPTION...: the report, in out
env_of () { library=$1; shift; LD_LIBRARY_PATH=$scratch/$library timeout $patience "$accelerate" env "$@" >out 2>error && cat error && ! grep . error; }
# fact NAME: its list, in fact
fact () { sed -n "/^- $1:/,/^- /p" out | sed "1d;/^- /d;s/^	- //" >fact; }

# The processes are this shell and one that has ended.
sh -c 'echo $$' >ended || exit 99
cat >gpus <<EOT
driver 550.54.14
cuda 12040
gpu 0000:01:00.0 GPU-aa 81559 80000 9.0 NVIDIA H100 80GB HBM3
gpu 0000:02:00.0 GPU-bb 81559 1000 9.0 NVIDIA H100 80GB HBM3
gpu 0000:C1:00.0 GPU-cc 40960 40960 8.0 NVIDIA A100-SXM4-40GB
gpu 0000:C2:00.0 GPU-dd 24576 24576 8.9 NVIDIA L4
mig 2 MIG-11 4864 NVIDIA A100-SXM4-40GB MIG 1g.5gb
mig 2 MIG-22 9856 NVIDIA A100-SXM4-40GB MIG 2g.10gb
process 1 $$ 70000
draws 1 $$ 10
draws 1 $(cat ended) unknown
level 0 1 20
level 2 3 40
level 1 3 0
level 1 2 30
level 0 3 10
nvlink 0 1 12
switch 0 6
switch 1 4
peer 0 3 1
peer 1 3 2
peer 2 3 4
peer 1 2 6
EOT
test_expect_success 'capability, free memory, bus and parts of each GPU' '
    env_of new && fact GPUs && grep -Fx -- "- GPU driver: 550.54.14, CUDA up to 12.4" out && cat >wanted <<-EOT && cmp wanted fact
	0: NVIDIA H100 80GB HBM3, 79.65 GB, GPU-aa, 78.12 GB free, compute capability 9.0, bus 0000:01:00.0
	1: NVIDIA H100 80GB HBM3, 79.65 GB, GPU-bb, 0.98 GB free, compute capability 9.0, bus 0000:02:00.0
	2: NVIDIA A100-SXM4-40GB, 40.00 GB, GPU-cc, 40.00 GB free, compute capability 8.0, bus 0000:c1:00.0
	2, part 0: NVIDIA A100-SXM4-40GB MIG 1g.5gb, 4.75 GB, MIG-11
	2, part 1: NVIDIA A100-SXM4-40GB MIG 2g.10gb, 9.62 GB, MIG-22
	3: NVIDIA L4, 24.00 GB, GPU-dd, 24.00 GB free, compute capability 8.9, bus 0000:c2:00.0
	EOT'
test_expect_success 'links as nvidia-smi topo shows them, and pairs without access to each other' '
    fact "GPU links" && sed "s/ *\$//" fact >got && cat >wanted <<-EOT && cmp wanted got
	      GPU0  GPU1  GPU2  GPU3
	GPU0  X     NV16  SYS   PIX
	GPU1  NV16  X     PHB   BRD
	GPU2  SYS   PHB   X     NODE
	GPU3  PIX   BRD   NODE  X
	GPU 0 and GPU 3 cannot access each other'\''s memory: the chipset does not support it
	GPU 1 and GPU 3 cannot access each other'\''s memory: the GPU does not support it
	GPU 2 and GPU 3 cannot access each other'\''s memory: disabled in the driver
	EOT'
name=$(cat /proc/$$/comm)
if [ "$(readlink /proc/self/ns/pid)" = 'pid:[4026531836]' ]; then
    test_expect_success 'processes that use a GPU, each once, without their users' '
        fact "GPU processes" && cat >wanted <<-EOT && cmp wanted fact
	GPU 1: process $$ ($name), 68.36 GB
	GPU 1: process $(cat ended) (ended, or hidden from this user)
	EOT'
else
    test_expect_success 'processes that use a GPU, each once, by number' '
        fact "GPU processes" && cat >wanted <<-EOT && cmp wanted fact
	GPU 1: process $$ of the host, 68.36 GB
	GPU 1: process $(cat ended) of the host
	EOT'
fi
if unshare -rpf true 2>/dev/null; then
    test_expect_success 'another pid namespace: a number says nothing of who it is' '
        LD_LIBRARY_PATH=$scratch/new unshare -rpf --mount-proc "$accelerate" env >out && fact "GPU processes" &&
        grep -Fx "GPU 1: process $$ of the host, 68.36 GB" fact'
else
    test_skip 'another pid namespace' 'this user may not create one'
fi
# A machine whose /sys knows the bus of GPU 0, and nothing of the NUMA node of GPU 1; GPU 3 is on the first node
for bus in 01 02 c2; do
    mkdir -p pci/0000:$bus:00.0 && echo 0-3,8-11 >pci/0000:$bus:00.0/local_cpulist
done
echo 1 >pci/0000:01:00.0/numa_node
echo -1 >pci/0000:02:00.0/numa_node
echo 0 >pci/0000:c2:00.0/numa_node
on_numa () { LD_LIBRARY_PATH=$scratch/new unshare -rm sh -c 'mount --bind pci /sys/bus/pci/devices && exec "$@"' sh "$@"; }
if on_numa true 2>/dev/null; then
    test_expect_success 'NUMA node and CPUs of a GPU' '
        on_numa "$accelerate" env >out && fact GPUs &&
        grep "^0: .*, bus 0000:01:00.0, NUMA node 1, CPUs 0-3,8-11$" fact &&
        grep "^1: .*, bus 0000:02:00.0, CPUs 0-3,8-11$" fact && grep "^3: .*, bus 0000:c2:00.0, NUMA node 0, CPUs 0-3,8-11$" fact'
else
    test_skip 'NUMA node and CPUs of a GPU' 'this user may not mount'
fi
test_expect_success 'the same as JSON' '
    env_of new --json && python3 - out $$ <<-\EOT
	import json, sys
	machine = json.load(open(sys.argv[1]))
	assert machine["gpu_links"][1].split() == ["GPU0", "X", "NV16", "SYS", "PIX"], machine["gpu_links"]
	gpus = machine["gpu_devices"]
	assert [gpu["uuid"] for gpu in gpus] == ["GPU-aa", "GPU-bb", "GPU-cc", "GPU-dd"]
	one = gpus[1]
	assert one["memory"] == 81559 << 20 and one["memory_free"] == 1000 << 20 and one["bus"] == "0000:02:00.0"
	assert one["compute_capability"] == "9.0" and one["numa_node"] is None and one["cpus"] is None and not one["mig"]
	assert [process["memory"] for process in one["processes"]] == [70000 << 20, None]
	assert one["processes"][0]["pid"] == int(sys.argv[2])
	assert one["links"][0] == {"gpu": 0, "path": "PXB", "nvlinks": 16, "peer_access": True}, one["links"]
	assert one["links"][1]["peer_access"] is None and one["links"][2]["peer_access"] is False
	assert gpus[0]["processes"] == [] and gpus[2]["mig"]
	assert gpus[2]["mig_devices"][1] == {"name": "NVIDIA A100-SXM4-40GB MIG 2g.10gb", "uuid": "MIG-22", "memory": 9856 << 20}
	EOT'
test_expect_success 'an old driver: what its library lacks is left out' '
    { sed "s/9\.0 NV/5.2 NV/" gpus && echo "process 1 $(cat ended) 20"; } >maxwell && NVML_STANDIN=$PWD/maxwell env_of old && fact GPUs &&
    grep -F "0: NVIDIA H100 80GB HBM3, 79.65 GB, GPU-aa, 78.12 GB free, compute capability 5.2, bus" fact && ! grep part fact &&
    fact "GPU links" && sed -n 2p fact | grep -x "GPU0  X     PXB   SYS   PIX" &&
    fact "GPU processes" && [ "$(wc -l <fact)" = 2 ] && grep "^GPU 1: process $$ .*, 68.36 GB" fact &&
    grep "^GPU 1: process $(cat ended) .*, 0.02 GB" fact'
test_expect_success 'a GPU that has fallen off the bus keeps its number' '
    { cat gpus && echo lost 0; } >lost && NVML_STANDIN=$PWD/lost env_of new && fact GPUs &&
    grep -Fx "0: lost (it has fallen off the bus: see dmesg), 0.00 GB, no UUID" fact && grep "^1: NVIDIA H100" fact &&
    fact "GPU links" && sed -n 2p fact | grep -x "GPU0  X     ?     ?     ?"'
test_expect_success 'where no link is known there is no table' '
    { cat gpus && printf "lost %d\n" 0 1 2 3; } >lost && NVML_STANDIN=$PWD/lost env_of new && fact GPUs && grep -c ": lost" fact &&
    grep -x -e "- GPU links: none" out && ! grep GPU0 out'
test_expect_success 'MIG mode without parts' '
    sed "/^mig/d" gpus >none && echo "mig 3 MIG-33 1 x" >>none && echo "fail nvmlDeviceGetMigDeviceHandleByIndex 6" >>none &&
    NVML_STANDIN=$PWD/none env_of new && fact GPUs &&
    grep "^3: NVIDIA L4, .*, in MIG mode without a MIG device: no program can use it" fact && ! grep "^2: .*MIG" fact'
test_expect_success 'more processes than are listed' '
    for i in $(seq 20); do echo "process 0 $((4000000 + i)) 10"; done >many && cat gpus many >crowd &&
    NVML_STANDIN=$PWD/crowd env_of new && fact "GPU processes" && grep -c "^GPU 0: process 40000" fact >count &&
    grep -x 16 count && grep -x "GPU 0: 4 more processes" fact &&
    for i in $(seq 150); do echo "process 0 $((4000000 + i)) 10"; done >many && cat gpus many >crowd &&
    NVML_STANDIN=$PWD/crowd env_of new && fact "GPU processes" && grep -x "GPU 0: 150 processes" fact &&
    NVML_STANDIN=$PWD/crowd env_of new --json && python3 -c "
import json
gpus = json.load(open(\"out\"))[\"gpu_devices\"]
assert gpus[0][\"processes\"] is None and gpus[2][\"processes\"] == [], gpus"'
# call, result, what is said
while IFS='|' read -r call result said; do
    test_expect_success "$call returns $result" "
        { cat gpus && echo 'fail $call $result'; } >bad && NVML_STANDIN=\$PWD/bad env_of new && fact GPUs && grep -F '$said' fact"
done <<'EOT'
nvmlInit_v2|9|libnvidia-ml.so.1: nvmlInit: Driver Not Loaded: load the kernel module (modprobe nvidia), or see dmesg
nvmlInit_v2|4|libnvidia-ml.so.1: nvmlInit: Insufficient Permissions: this user may not open /dev/nvidiactl
nvmlInit_v2|18|libnvidia-ml.so.1 is from driver 550.54.14, but the loaded kernel module is from
nvmlDeviceGetCount_v2|999|libnvidia-ml.so.1: nvmlDeviceGetCount: Unknown Error
nvmlDeviceGetHandleByIndex_v2|999|0: unknown, 0.00 GB, no UUID
nvmlDeviceGetName|15|0: unknown, 79.65 GB, GPU-aa
nvmlDeviceGetUUID|3|0: NVIDIA H100 80GB HBM3, 79.65 GB, no UUID, 78.12 GB free
nvmlDeviceGetMemoryInfo|3|0: NVIDIA H100 80GB HBM3, 0.00 GB, GPU-aa, compute capability 9.0
EOT
test_expect_success 'a mismatch ends with what to do' '
    { cat gpus && echo "fail nvmlInit_v2 18"; } >bad && NVML_STANDIN=$PWD/bad env_of new && fact GPUs && [ "$(wc -l <fact)" = 1 ] &&
    grep "restart the machine, or end all programs that use GPUs and load the module nvidia again$" fact'
test_expect_success 'a failure of any call leaves a report' '
    NVML_CALLS=$PWD/calls env_of new && calls=$(wc -l <calls) && [ "$calls" -gt 50 ] &&
    if is_long; then step=1; else step=$((calls / 12)); fi &&
    for call in $(seq 1 $step "$calls"); do
        NVML_FAIL="$call 999" env_of new || return 1
        grep "^- GPU driver: " out >/dev/null && grep "^- .Accelerate. default" out >/dev/null || return 1
        if [ "$call" -gt 2 ]; then grep "^	- 3: " out >/dev/null || return 1; fi
    done'
test_done
