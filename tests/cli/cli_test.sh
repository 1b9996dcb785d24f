#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate test: it passes a correct library, and names rank, step and peer of a fault.
. "${srcdir:-.}/tests/testlib.sh"

sentence='All tests passed: this machine is ready for distributed training.'
run_test () { timeout $patience "$accelerate" test "$@" >out 2>error; status=$?; cat out error; return $status; }

# As many lines as the tables of steps have rows; those for GPUs are tested by tests/standin/devices.sh.
steps=$(find "$srcdir/src/selftest" -name "steps_*.c" ! -name "steps_device.c" -exec cat {} + | grep -c '^    { "[^"]*", check_[a-z_]* },$')
for ranks in 1 2 5; do
    test_expect_success "$ranks processes" "
        run_test --cpu --num_processes $ranks && grep -Fx '$sentence' out && [ \"\$(grep -c 'ready for' out)\" = 1 ] &&
        grep '^libaccel .* $ranks process' out && grep -x 'broadcast  *ok' out && [ \"\$(grep -c ' ok\$' out)\" = $steps ] &&
        [ $steps -gt 20 ]"
done
test_expect_success 'as the configuration says' '
    printf "distributed_type: MULTI_CPU\nuse_cpu: true\nnum_processes: 3\nmixed_precision: bf16\n" >c.yaml &&
    run_test --config_file c.yaml && grep "3 processes, engine shm" out && grep -Fx "$sentence" out'
test_expect_success 'the default file' '
    mkdir -p "$HOME/.cache/huggingface/accelerate" && cp c.yaml "$HOME/.cache/huggingface/accelerate/default_config.yaml" &&
    run_test && grep "3 processes" out'
# What `accelerate test --hosts` starts, with a rank on each host.
test_expect_success 'each two ranks are measured, once' '
    "$accelerate" launch --cpu --num_processes 4 "$builddir/src/selftest/accel_selftest" --links 60000 >out &&
    grep -cE "^link [0-3] [0-3] [1-9][0-9]* [1-9][0-9]* [1-9][0-9]*$" out | grep -x 6 &&
    sed -n "s/^link \(. .\).*/\1/p" out | sort >pairs && printf "%s\n" "0 1" "0 2" "0 3" "1 2" "1 3" "2 3" | diff pairs - &&
    "$accelerate" launch --cpu --num_processes 3 "$builddir/src/selftest/accel_selftest" --links 60000 >out &&
    test "$(grep -c "^link " out)" -eq 3'
# functions_of FILES...: what they declare, without former names
functions_of () {
    cat "$@" | awk '/^ACCEL_API/ && last !~ /former name/ { text = ""; open = 1 } { last = $0 } open { text = text " " $0 }
        open && /;/ { open = 0; if (match (text, /accel_[a-z0-9_]+ \(/)) print substr (text, RSTART, RLENGTH - 2) }'
}
test_expect_success 'every function of state, control, communication and training is called' '
    { functions_of "$srcdir"/include/accel/state.h "$srcdir"/include/accel/comm.h "$srcdir"/include/accel/train.h &&
        functions_of "$srcdir"/include/accel/*.h | grep "_at\$"; } |
        sed "s/_at\$//; s/_sized\$//" | grep -v "^accel_check\$" | sort -u >declared && [ "$(wc -l <declared)" -gt 50 ] &&
    for name in $(cat declared); do
        grep -qE "(^|[^a-z_])$name \(" "$srcdir"/src/selftest/*.c || echo "$name"
    done >missing && cat missing && [ ! -s missing ]'

# Ranks that do not do what they should.  Sanitizers want to be the first library; here they are not.
fake=$builddir/tests/cli/.libs/fakecomm.so
if [ -f "$fake" ]; then
    printf 'use_cpu: true\ndistributed_type: MULTI_CPU\nnum_processes: 3\ngrace: 1\n' >g.yaml
    faked_test () {
        ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=$fake FAKE_COMM=$1 FAKE_COMM_RANK=${FAKED_RANK:-1} ACCEL_TIMEOUT_MS=${2:-200000} \
            run_test --config_file g.yaml
        status=$?
        ! grep "ready for" out || return 99
        return $status
    }
    # is_named MS: a short timeout is not enough where the machine is busy
    is_named () {
        test_exit 1 faked_test stop "$1" &&
            grep -E "^accel_selftest: rank [02]: broadcast: accel_comm_broadcast: .*rank 1 \(stopped by a signal after accel" error
    }
    test_expect_success 'a wrong number: rank, step, expected and got' '
        test_exit 1 faked_test corrupt && grep -Ex "accel_selftest: rank 1: broadcast: an element from the root: expected [0-9]+, got [0-9]+" error &&
        grep -x "all-gather  *ok" out && ! grep "^broadcast" out'
    test_expect_success 'a wrong floating-point number' '
        test_exit 1 faked_test uniform && grep -E "^accel_selftest: rank 1: .*: accel_generator_uniform: expected 0.[0-9]+, got 0.[0-9]+" error'
    test_expect_success 'a rank that is stopped is waited for until the timeout, and named' '
        { is_named 3000 || is_named 60000; }'
    test_expect_success 'a rank that leaves is named' '
        ! faked_test leave && grep -E "^accel_selftest: rank [02]: broadcast: accel_comm_broadcast: .*rank 1 " error'
    test_expect_success 'a rank that crashes is named' '
        test_exit 139 faked_test crash && grep "rank 1" error'
    test_expect_success 'the alarm names the step' '
        test_exit 1 faked_test alarm && grep -x "accel_selftest: rank 1: broadcast: did not finish within 410 s" error'
    sed -i "s/num_processes: 3/num_processes: 1/" g.yaml
    test_expect_success 'the alarm of a single process is a failure' '
        FAKED_RANK=0 test_exit 1 faked_test alarm && grep -x "accel_selftest: rank 0: broadcast: did not finish within 410 s" error'
    test_expect_success 'nothing is left running' '
        ! grep -l "FAKE_COMM_RANK=" /proc/[0-9]*/environ 2>/dev/null | while read -r file; do
            grep -l "HOME=$HOME" "$file" 2>/dev/null; done | grep .'
else
    test_skip 'ranks that go wrong' 'this build has no shared libraries'
fi

printf '#!/bin/sh\necho "rank $RANK of mine"\n' >mine && chmod +x mine
test_expect_success 'another program' '
    ACCELERATE_SELFTEST=$scratch/mine run_test --cpu --num_processes 2 && grep -x "rank 1 of mine" out'
test_expect_success 'ACCELERATE_SELFTEST set to nothing is not set' '
    ACCELERATE_SELFTEST= run_test --cpu --num_processes 1 && grep -Fx "$sentence" out'
test_expect_success 'another program that is missing' '
    ACCELERATE_SELFTEST=$scratch/none test_exit 127 run_test && grep -F "self-test $scratch/none: No such file" error'
test_expect_success 'an argument' 'test_exit 2 run_test word && grep "unexpected argument" error'
test_expect_success 'an option of launch that test does not have' 'test_exit 2 run_test --dry_run && grep "dry_run" error'
test_expect_success 'a file with an error' '
    echo "num_proceses: 3" >bad.yaml && test_exit 1 run_test --config_file bad.yaml && grep -F "bad.yaml:1: unknown key" error'
test_expect_success 'an invalid timeout' '
    ACCEL_TIMEOUT_MS=soon test_exit 1 run_test --cpu --num_processes 1 && grep -F "ACCEL_TIMEOUT_MS" error'
test_done
