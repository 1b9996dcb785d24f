#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# GPUs through NVML, from libraries that work, fail, hang, crash, leave and talk.
. "${srcdir:-.}/tests/testlib.sh"

list=$builddir/tests/unit/command/test_probe
fake=$builddir/tests/unit/command/.libs/fakelib.so
if [ ! -f "$fake" ]; then
    skip_rest 'this build has no shared libraries'
fi
mkdir lib empty && cp "$fake" lib/libnvidia-ml.so.1
# What a sanitizer says of the child's death is not asked here.
ask () { LD_LIBRARY_PATH=$scratch/lib timeout $patience "$list" "$@" >out 2>error && cat out error && ! grep . error; }

test_expect_success 'GPUs, one of them lost' '
    ask && cat >wanted <<-EOT && cmp wanted out
	3 GPUs
	0: NVIDIA GeForce RTX 4090, 24576 MiB, GPU-8e1f0a2c-0000-1111-2222-333344445555, driver 535.104.05, CUDA 12020
	1: NVIDIA GeForce RTX 4090, 24576 MiB, GPU-8e1f0a2c-0000-1111-2222-333344445555, driver 535.104.05, CUDA 12020
	2: lost (it has fallen off the bus: see dmesg), 0 MiB, , driver 535.104.05, CUDA 12020
	EOT'
test_expect_success 'no more than asked for' 'ask 1 && [ "$(wc -l <out)" = 2 ] && grep -x "3 GPUs" out'
test_expect_success 'none asked for: the number' 'ask 0 && [ "$(cat out)" = "3 GPUs" ]'
test_expect_success 'an answer that is larger than a pipe' 'ask 2000 && [ "$(wc -l <out)" = 4 ] && grep -x "3 GPUs" out'
test_expect_success 'more GPUs than there is room for' '
    FAKE_LIBRARY=many ask 2 && [ "$(wc -l <out)" = 3 ] && grep -x "1000000 GPUs" out'
test_expect_success 'a crash is one where the signal is ignored' '
    (trap "" SEGV && FAKE_LIBRARY=crash ask) && grep "crashed with signal 11" out'
test_expect_success 'a crash leaves no core file' '
    (hard=$(ulimit -H -c) && ulimit -S -c "$hard" && FAKE_LIBRARY=limits ask 1) && grep "^0: core files of 0 bytes" out'
# how, what is said
while IFS='|' read -r how said; do
    test_expect_success "a library that does this: $how" "
        FAKE_LIBRARY=$how ask && cat out && [ \"\$(cat out)\" = '$said' ]"
done <<'EOT'
fail|1: libnvidia-ml.so.1: nvmlInit: Driver Not Loaded: load the kernel module (modprobe nvidia), or see dmesg
hang|1: libnvidia-ml.so.1 did not answer in 2 s
load-hang|1: libnvidia-ml.so.1 did not answer in 2 s
crash|1: libnvidia-ml.so.1 crashed with signal 11 (Segmentation fault)
abort|1: libnvidia-ml.so.1 crashed with signal 6 (Aborted)
exit|1: libnvidia-ml.so.1 ended the process that called it
EOT
test_expect_success 'a library that talks is not heard' 'FAKE_LIBRARY=noise ask && grep -x "3 GPUs" out && ! grep NOISE out'
test_expect_success 'nothing is left running' '
    ! grep -l "LD_LIBRARY_PATH=$scratch/lib" /proc/[0-9]*/environ 2>/dev/null | grep .'
LD_LIBRARY_PATH='' "$list" >out || :
if grep -q '^127: ' out; then
    test_expect_success 'no library' '"$list" >out && grep "^127: libnvidia-ml.so.1: cannot open" out'
else
    test_skip 'no library' 'this machine has one'
fi
test_expect_success 'a file that is not a library' '
    echo text >lib/libnvidia-ml.so.1 && ask && grep "^1: .*libnvidia-ml.so.1: " out'
test_done
