# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of an engine that is a module, after testlib.sh and with $engine: it alone is used from here on.
conformance=$builddir/tests/conformance/conformance
module=$builddir/tests/engines/$engine/.libs/accel_engine_$engine.so
all="types sizes mixture tensors control arguments memory random objects trees messages groups work rounds"
if [ ! -f "$module" ]; then
    skip_rest 'no shared libraries in this build'
fi
umask 022
mkdir engines && cp "$module" engines
ACCEL_ENGINE=$engine ACCEL_ENGINE_PATH=$scratch/engines
export ACCEL_ENGINE ACCEL_ENGINE_PATH

# One of five sizes and types, but in long tests.
is_long || export CONFORMANCE_EVERY=5

# launched N COMMAND...
launched () {
    processes=$1
    shift
    timeout $patience "$accelerate" launch --quiet --cpu --num_processes "$processes" "$@"
}

# conforms N SUITE...: the suites pass on N ranks, with this engine
conforms () {
    ranks=$1
    shift
    launched "$ranks" "$conformance" "$@" >conformed && grep "^$engine, $ranks ranks: " conformed && nothing_left
}

# told N VICTIM STATUS SCENARIO: of tests/fault/comm_faults.sh; N ranks get the right error, and none gets another
told () {
    test_exit "$3" "$builddir/tests/fault/drive" -- "$accelerate" launch --cpu --num_processes 3 \
        "$builddir/tests/fault/comm_faults" "$4" "$2" >out 2>err &&
    ! grep WRONG out && test "$(grep -c "^rank [0-9]*: as expected" out)" = "$1" && nothing_left
}

# in_vain SCENARIO: a rank is waited for until time is out
in_vain () {
    told 2 1 0 "$1"
}

# unfriendly SCRIPT LEAST WORDS: with this engine, all tests of that script pass, but for those whose names have the words
unfriendly () {
    { TEST_ENGINE=$engine TEST_ENGINE_PATH=$scratch/engines sh "$srcdir/tests/$1" >said || :; } &&
        test "$(grep -c "^ok" said)" -ge "$2" && ! grep "^not ok" said | grep -vE -e "$3"
}
