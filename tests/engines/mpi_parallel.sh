#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tensor parallelism with engine mpi: the losses and norms of one process, to 1e-6, and its files.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/engines/under_mpirun.sh"
program=$builddir/tests/conformance/parallel

test_expect_success 'one process' '"$program" train 1 5 f32 - one >one.log && cat one.log'
# trains TP SHARDING RANKS COMMAND...
trains () {
    tp=$1 sharding=$2 ranks=$3
    shift 3
    under_mpirun "$ranks" "$@" "$program" train "$tp" 5 f32 - "grid$ranks.$tp" "$sharding" >log && cat log &&
        [ "$(grep -c "^[0-9]" log)" -ge 5 ] && grep "^[0-9]" log | sort -u | paste -d " " one.log - | awk '
            $1 != $4 || ($2 / $5 - 1) ^ 2 > 1e-12 || ($3 / $6 - 1) ^ 2 > 1e-12 { print "differ:", $0; bad = 1 }
            END { exit bad || NR != 5 }' &&
        under_mpirun "$ranks" "$@" "$program" train "$tp" 5 f32 one "again$ranks.$tp" "$sharding" >log &&
        cmp one/model.safetensors "again$ranks.$tp/model.safetensors" &&
        cmp one/optimizer.safetensors "again$ranks.$tp/optimizer.safetensors"
}
test_expect_success '2 processes divide tensors' 'trains 2 0 2'
test_expect_success '4 processes on 2 hosts, 2 of which divide tensors' 'trains 2 0 4 ./hosts 2'
for sharding in 2 2s 3 4; do
    test_expect_success "they divide what training keeps with those of the other host: sharding $sharding" '
        trains 2 $sharding 4 ./hosts 2'
done
test_expect_success 'hosts without whole rows have a sentence' '
    test_exit 1 under_mpirun 4 ./layout "1 3" "$program" train 2 1 f32 - - 6 >out 2>&1 && cat out &&
    grep "hosts do not have whole rows of the grid: set group_size" out'
is_long && test_expect_success '4 processes on 4 hosts divide tensors' 'trains 4 0 4 ./hosts 1'
test_expect_success 'parts that are joined and cut, and losses of logits in parts' 'under_mpirun 4 "$program" pairs 4'
for ranks in 2 4; do
    test_expect_success "layers that $ranks processes divide have the bits of whole ones" '
        under_mpirun $ranks "$builddir/tests/conformance/parallel_layers"'
done
test_done
