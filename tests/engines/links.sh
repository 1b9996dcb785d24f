#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two kinds of memory beside the host's, each with an engine of its own; links.c says how.
. "${srcdir:-.}/tests/testlib.sh"
links=$builddir/tests/engines/links
for name in threaded polled; do
    module=$builddir/tests/engines/threaded/.libs/accel_engine_$name.so
    if [ ! -f "$module" ]; then
        skip_rest 'no shared libraries in this build'
    fi
    umask 022
    mkdir -p engines && cp "$module" engines
done
ACCEL_ENGINE_PATH=$scratch/engines
export ACCEL_ENGINE_PATH

works () { timeout $patience "$links" >out || { grep -v "^ok" out; return 1; }; }
test_expect_success 'the device of a tensor chooses the engine, of calls that block and of works' works
test_expect_success 'all engines are closed' '
    ASYNC_TRACE=yes ACCEL_ENGINE=cpu:shm,ext:polled,vpi:threaded timeout $patience \
        "$accelerate" launch --quiet --cpu --num_processes 2 "$links" open 2>trace && cat trace &&
    test "$(grep -c "^async: 0 of 2: .* 0 left$" trace)" = 2 && test "$(grep -c "^async: 1 of 2: .* 0 left$" trace)" = 2'
test_done
