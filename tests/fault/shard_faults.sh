#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sharded training in which a rank is killed: the others have an error that names it, and nothing is left.  From sharded
# checkpoints, other numbers of ranks continue, with other strategies, and have the same bits at the end.
. "${srcdir:-.}/tests/testlib.sh"
drive=$builddir/tests/fault/drive
faults=$builddir/tests/fault/shard_faults

# dies RANKS STRATEGY PHASE VICTIM
dies () {
    test_exit 137 "$drive" -- "$accelerate" launch --cpu --num_processes "$1" "$faults" "$2" "$3" "$4" >out 2>err &&
        ! grep WRONG out && test "$(grep -c "^rank [0-9]: as expected" out)" = $(($1 - 1)) &&
        grep "rank $4.*SIGKILL" err && nothing_left
}
victim=0
for phase in layer backward soon; do
    for strategy in 2 3; do
        test_expect_success "stage $strategy: rank $victim is killed: $phase" 'dies 3 $strategy $phase $victim'
    done
    victim=$((victim + 1))
    is_long || [ $phase = backward ] || continue
    test_expect_success "in groups: rank 3 is killed: $phase" 'dies 4 hybrid $phase 3'
done

# continues FOLDER RANKS STRATEGY PHASE STEP AFTER: rank 0 is killed in STEP, unless it is 0
continues () {
    status=137
    [ "$5" != 0 ] || status=0
    test_exit $status "$accelerate" launch --cpu --num_processes "$2" "$faults" "$3" "$4" 0 "$1" "$5" >out 2>err &&
        ! grep WRONG out && grep "^after step $6$" out
}
test_expect_success 'without sharding, one process trains' 'continues plain 1 none none 0 0 && grep "^sum" out >expected'
test_expect_success 'stage 3, 4 ranks: killed in a layer' 'continues killed 4 3 layer 2 0'
test_expect_success 'stage 2, 2 ranks continue: killed in a backward pass' 'continues killed 2 2 backward 4 1'
test_expect_success 'in groups, 4 ranks continue: killed before a save' 'continues killed 4 hybrid save 6 3'
test_expect_success 'stage 1, 2 ranks continue to the end, and have the same bits' '
    continues killed 2 1 none 0 5 && grep "^sum" out >actual && diff expected actual'
test_done
