#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Averaging gradients: buckets, orders, memory, 16 bits, hooks, unused ones, accumulation, uneven inputs.
. "${srcdir:-.}/tests/testlib.sh"
reducer=$builddir/tests/conformance/reducer

# ranks COUNT CHECK...: that many ranks, all of which must succeed
ranks () {
    count=$1
    shift
    timeout $patience "$accelerate" launch --cpu --num_processes "$count" "$reducer" "$@"
}

counts='1 2 3'
is_long && counts='1 2 3 4'
is_thread_sanitized && counts='2 3'
for check in mean buckets buffers several unused accumulate unwrap not-finite join free; do
    for count in $counts; do
        test_expect_success "$check: $count ranks" 'ranks $count $check'
    done
done
is_long && test_expect_success 'mean: 5 ranks' 'ranks 5 mean'
test_expect_success 'different models, one rank without data: 3 ranks' 'ranks 3 models'
for case in 1 2 3; do
    test_expect_success "misuse $case: 1 rank" 'ranks 1 misuse $case'
    test_expect_success "misuse $case: 3 ranks" 'ranks 3 misuse $case'
done
power=$builddir/tests/conformance/power_sgd
for check in exact whole feedback zero allocations; do
    for count in $counts; do
        test_expect_success "PowerSGD, $check: $count ranks" '
            timeout $patience "$accelerate" launch --cpu --num_processes $count "$power" $check
        '
    done
done
for count in 2 3; do
    test_expect_success "PowerSGD, numbers of torch: $count ranks" '
        timeout $patience "$accelerate" launch --cpu --num_processes $count "$power" golden
    '
done
test_done
