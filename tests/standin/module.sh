# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of programs on GPUs, after testlib.sh: the module for the stand-in, where programs find it.
# $subject is what is skipped without it.
standin=$builddir/tests/standin
module=$standin/.libs/accel_device_cuda.so
if [ ! -f "$module" ]; then
    skip_rest 'needs a C++ compiler and shared libraries'
fi
# fewer SANITIZED OTHERWISE: counts of ranks.  With a sanitizer, these take more than twice as long, and use memory in
# the same way, however many they are.
fewer () { if is_sanitized; then echo "$1"; else echo "$2"; fi; }
umask 022
mkdir engines && cp "$module" engines
ACCEL_ENGINE_PATH=$scratch/engines
LD_LIBRARY_PATH=$(cd "$standin/.libs" && pwd)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export ACCEL_ENGINE_PATH LD_LIBRARY_PATH

# With $gpus: so many, and the engine for what `ranks` starts.
if [ -n "${gpus-}" ]; then
    cp "$standin/.libs/accel_engine_nccl.so" engines
    STANDIN_DEVICES=$gpus port=$(free_port)
    export STANDIN_DEVICES
fi
# ranks COUNT PROGRAM ARGUMENT...: that many ranks with a GPU each
ranks () {
    count=$1 program=$2
    shift 2
    by_hand "$count" "$port" timeout $patience "$standin/$program" "$@"
}
# ranks_pass COUNT LINES PROGRAM ARGUMENT...: so many `ok` lines from each of so many ranks, and no other; in out
ranks_pass () {
    count=$1 lines=$2
    shift 2
    ranks "$count" "$@" >out 2>error && ! grep "^not ok" out && test "$(grep -c ^ok out)" = $((lines * count)) ||
        { cat out error; return 1; }
}
