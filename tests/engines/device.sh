#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An engine for each kind of memory, and tensor data that only the table of its memory touches; device.c says how.
. "${srcdir:-.}/tests/testlib.sh"
device=$builddir/tests/engines/device
for module in "$builddir/tests/engines/.libs/accel_engine_standin.so" \
    "$builddir/tests/engines/pipes/.libs/accel_engine_pipes.so"; do
    if [ ! -f "$module" ]; then
        skip_rest 'no shared libraries in this build'
    fi
    umask 022
    mkdir -p engines && cp "$module" engines
done
STANDIN_ENGINE=$scratch/engines/accel_engine_pipes.so ACCEL_ENGINE_PATH=$scratch/engines
export STANDIN_ENGINE ACCEL_ENGINE_PATH

works () { timeout $patience "$device" >out || { grep -v "^ok" out; return 1; }; }
test_expect_success 'collectives, groups and training on a device give the bits of the host' works
opened () { timeout $patience "$accelerate" launch --quiet --cpu --num_processes 2 "$@" "$device" open 2>error; }
test_expect_success 'without a name, an engine is found for each kind of memory' 'opened && test ! -s error'
test_expect_success 'a rank without the engine of the others is named, on all ranks' '
    ! STANDIN_REFUSES=1 opened &&
    grep "accel_open: engines differ: rank 0 has cpu:shm,ext:standin, but rank 1 has cpu:shm$" error'
test_expect_success 'an engine that was named must be there' '
    ! STANDIN_REFUSES=1 ACCEL_ENGINE=ext:standin opened &&
    grep "no engine can connect this job: standin does not want to" error'
test_done
