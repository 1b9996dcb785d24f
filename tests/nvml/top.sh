#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate top shows how busy and how hot GPUs are, and which one a rank uses; without NVML, or if it fails, nothing.
. "${srcdir:-.}/tests/testlib.sh"

if [ ! -f "$builddir/tests/nvml/.libs/nvml.so" ]; then
    skip_rest 'this build has no shared libraries'
fi
mkdir new
cp "$builddir/tests/nvml/.libs/nvml.so" new/libnvidia-ml.so.1
NVML_STANDIN=$PWD/gpus
export NVML_STANDIN
# top ARGUMENTS...: with the stand-in, in out
top () { LD_LIBRARY_PATH=$scratch/new timeout $patience "$accelerate" top "$@" "$(cat launcher)" >out; }

test_expect_success 'a rank that uses the second GPU' '
    { "$accelerate" launch --quiet --cpu --num_processes 1 sh -c "echo \$\$ >pid; exec sleep 1000" & echo $! >launcher; } && await pid &&
    cat >gpus <<-EOT &&
	driver 550.54.14
	cuda 12040
	gpu 0000:01:00.0 GPU-aa 81559 80000 9.0 NVIDIA H100 80GB HBM3
	gpu 0000:02:00.0 GPU-bb 81559 1000 9.0 NVIDIA H100 80GB HBM3
	process 1 $(cat pid) 70000
	load 1 97 64
	EOT
    top && cat out && grep "^GPU 0 1.6 GB  GPU 1 97% 64 C 84.5 GB$" out && grep "^    0 *$(cat pid) .*B   1  not in accel_open" out'
test_expect_success 'as JSON' '
    top --json && cat out && sed -n "/\"rank\": 0/,/\"values\"/p" out >rank && grep "\"gpu\": 1," rank && grep "\"use_percent\": 97" out && grep "\"temperature\": 64" out && grep "\"use_percent\": null" out'
test_expect_success 'NVML that fails' '
    echo "fail nvmlInit_v2 999" >>gpus && top && cat out && grep DOING out && ! grep GPU out &&
    sed -i "s/fail .*/fail nvmlDeviceGetCount_v2 15/" gpus && top && ! grep GPU out &&
    sed -i "s/fail .*/fail nvmlDeviceGetMemoryInfo 15/" gpus && top && cat out && grep "^GPU 0  GPU 1 97% 64 C$" out'
test_expect_success 'no NVML' '"$accelerate" top "$(cat launcher)" >out && grep DOING out && ! grep GPU out && "$accelerate" kill "$(cat launcher)"'
test_done
