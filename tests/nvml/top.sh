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
terminal_test 'the screen of one rank has the GPUs, too' '
    LD_LIBRARY_PATH=$scratch/new TERM=xterm python3 "$srcdir/tests/cli/on_screen.py" --type "\\r" "GPU 1 97%" \
        --type q "GPU 1 97%(.|\\n)*rank 0, process" "$accelerate" top "$(cat launcher)" >left'
test_expect_success 'a script around the program that uses the GPU' '
    cp gpus before && { "$accelerate" launch --quiet --cpu --num_processes 1 sh -c "sh -c \"echo \\\$\\\$ >inner; sleep 1000\"; :" &
        echo $! >other; } && await inner &&
    sed "s/^process 1 .*/process 1 $(cat inner) 70000/" before >gpus && kept=$(cat launcher) && cp other launcher && top && cat out &&
    grep "^    0 .*B   1  not in accel_open" out && "$accelerate" kill "$(cat other)" && cp before gpus && echo "$kept" >launcher'
test_expect_success 'NVML that fails' '
    echo "fail nvmlInit_v2 999" >>gpus && top && cat out && grep DOING out && ! grep GPU out &&
    sed -i "s/fail .*/fail nvmlDeviceGetCount_v2 15/" gpus && top && ! grep GPU out &&
    sed -i "s/fail .*/fail nvmlDeviceGetMemoryInfo 15/" gpus && top && cat out && grep "^GPU 0  GPU 1 97% 64 C$" out'
test_expect_success 'no NVML' '"$accelerate" top "$(cat launcher)" >out && grep DOING out && ! grep GPU out && "$accelerate" kill "$(cat launcher)"'
test_done
