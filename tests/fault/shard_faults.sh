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

# Lives of one training run: each has ranks and a strategy drawn by lot, goes on from what the one before has saved, and
# has one rank killed at a moment drawn by lot.  Where a run has ended, another one begins.
seed=${SHARD_KILLS_SEED:-33} kills=6
is_long && kills=30
kills=${KILLS:-$kills}
# live MILLISECONDS: one life, killed after so many; 0: it ends by itself
live () {
    draw 8
    case $drawn in
    0 | 1) set -- "$1" 2 1 ;;
    2 | 3) set -- "$1" 2 2 ;;
    4) set -- "$1" 2 3 ;;
    5 | 6) set -- "$1" 4 3 ;;
    7) set -- "$1" 4 hybrid ;;
    esac
    "$accelerate" launch --cpu --num_processes "$2" "$faults" "$3" none 0 random 0 >out 2>err &
    launcher=$!
    [ "$1" = 0 ] || kill_one "$1" "$2"
    wait "$launcher"
    case $?:$victim in
    0:*) grep "^sum" out >actual && diff expected actual && rm -rf random && runs=$((runs + 1)) ;;
    137:?) struck=$((struck + 1)) && grep "^accelerate: rank $victim .*SIGKILL" err ;;
    *) false ;;
    esac >said || { cat said out err && return 1; }
}
# kill_one MILLISECONDS RANKS: the rank in $victim, if there was one
kill_one () {
    sleep "$(printf 0.%03d "$1")"
    draw "$2"
    for pid in $(pgrep -P "$(pgrep -d, -P "$launcher")" -x shard_faults); do
        [ "$(tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | sed -n 's/^RANK=//p')" != "$drawn" ] || break
        pid=
    done
    victim=
    [ -z "$pid" ] || { victim=$drawn && kill -9 "$pid"; } 2>/dev/null || :
}
random_kills () {
    struck=0 runs=0 victim=
    while [ $struck -lt "$kills" ]; do
        draw 600
        live $((drawn + 1)) || return 1
    done
    victim=
    live 0 && echo "$struck kills in $runs runs" && nothing_left
}
test_expect_success "$kills kills at random moments, other ranks and stages each time: the same bits" random_kills
test_done
