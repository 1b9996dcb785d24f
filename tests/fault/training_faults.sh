#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Training in which a rank dies in a phase of a step, has gradients that are not finite, or makes a step fewer.
. "${srcdir:-.}/tests/testlib.sh"
drive=$builddir/tests/fault/drive
faults=$builddir/tests/fault/training_faults

# train STATUS TOLD ARGUMENT...: that status of the launcher; TOLD ranks got the right error, none another
train () {
    status=$1 told=$2
    shift 2
    test_exit "$status" "$drive" -- "$accelerate" launch --cpu --num_processes 3 "$faults" "$@" >out 2>err &&
        ! grep WRONG out && test "$(grep -c "^rank [0-2]: as expected" out)" = "$told" && nothing_left
}

# dies PHASE: in each way, each time another rank; the launcher says which
dies () {
    victim=0
    for how in exit abort kill; do
        case $how in
        exit) status=7 words="exited with status 7" ;;
        abort) status=134 words="SIGABRT" ;;
        kill) status=137 words="SIGKILL" ;;
        esac
        test_expect_success "rank $victim dies ($how): $1" '
            train $status 2 '"$1"' $victim $how && grep "rank $victim.*$words" err
        '
        victim=$((victim + 1))
    done
}
for phase in forward backward collective clip optimizer scheduler; do
    dies $phase
done

for victim in 0 2; do
    for number in nan inf; do
        test_expect_success "rank $victim has a gradient that is $number" 'train 0 3 $number $victim'
    done
    test_expect_success "rank $victim leaves a step early" 'train 0 2 fewer-leaves $victim'
    test_expect_success "rank $victim waits for all a step early" 'train 0 3 fewer-waits $victim'
done
test_done
