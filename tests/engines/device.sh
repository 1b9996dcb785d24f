#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An engine for each kind of memory, and tensor data that only the table of its memory touches; device.c says how.
. "${srcdir:-.}/tests/testlib.sh"
modules="$builddir/tests/engines/.libs/accel_engine_standin.so $builddir/tests/engines/pipes/.libs/accel_engine_pipes.so"
for module in $modules; do
    if [ ! -f "$module" ]; then
        echo '1..0 # SKIP no shared libraries in this build'
        exit 0
    fi
done
umask 022
mkdir engines && cp $modules engines
STANDIN_ENGINE=$scratch/engines/accel_engine_pipes.so ACCEL_ENGINE_PATH=$scratch/engines
export STANDIN_ENGINE ACCEL_ENGINE_PATH
timeout $patience "$builddir/tests/engines/device"
