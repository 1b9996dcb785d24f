#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every call of torch.distributed on 2 ranks, in the long form also on 1, 3 and 4: results are those of gloo.
. "${srcdir:-.}/tests/testlib.sh"
torch_wanted=2.4
. "$srcdir/tests/torch/launched.inc"

program=$srcdir/tests/torch/collectives.py
launch () {
    timeout $patience "$accelerate" launch --cpu --num_processes "$1" --main_process_port "$(free_port)" "$program"
}
alone () {
    by_hand 1 "$(free_port)" python3 "$program"
}
# all_calls COMMAND...
all_calls () {
    "$@" >out 2>err && test "$(grep -c "^same: " out)" = "$(grep -c "^@check$" "$program")"
}
counts=2
! is_long || counts='2 3 4'
for ranks in $counts; do
    test_expect_success "every call on $ranks ranks" 'all_calls launch "$ranks"'
done
! is_long || test_expect_success 'every call in a group of one rank, without a launcher' 'all_calls alone'
test_done
