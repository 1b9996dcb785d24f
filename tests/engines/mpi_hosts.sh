#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Engine mpi on "several hosts": large calls, and groups, go through the memory of each host.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/engines/under_mpirun.sh"

hier_reduce=$builddir/tests/engines/hier_reduce
# in_hier_reduce RANKS LAYOUT SHARERS CALLS WHAT
in_hier_reduce () {
    case $2 in
    *[a-z]*) by=./placed ;;
    *) by=./layout ;;
    esac
    under_mpirun "$1" $by "$2" "$hier_reduce" "$5" >out && grep "^mpi, $1 ranks, $3 of which share memory: $4\$" out
}
test_expect_success 'large all-reduces on 2 hosts of 2 ranks have the bits of a reduction in the order of ranks' '
    in_hier_reduce 4 "2 2" 4 "70 calls" calls'
is_long && test_expect_success 'and so have those in flight, on hosts of 2, 1 and 1 ranks' 'in_hier_reduce 4 "2 1 1" 2 "33 calls" several'
test_expect_success 'reduce-scatters, too, on hosts of 2, 1 and 2 ranks' 'in_hier_reduce 5 "2 1 2" 4 "68 calls" scatter'
is_long && test_expect_success 'large broadcasts and all-gathers, on hosts of 1, 2 and 1 ranks' 'in_hier_reduce 4 "1 2 1" 2 "66 calls" copies'
test_expect_success 'the same where ranks of other hosts are between those of a host' '
    in_hier_reduce 4 "a b a b" 4 "66 calls" copies && in_hier_reduce 5 "a b b a b" 5 "68 calls" scatter'
test_expect_success 'groups share memory as well, and give it back' 'in_hier_reduce 4 "2 2" 4 "105 calls, groups do so, too" groups'
test_expect_success 'small sums of ranks that are many calls apart' '
    in_hier_reduce 3 "2 1" 2 "16 calls" ahead && in_hier_reduce 3 "a b a" 2 "16 calls" ahead'
if is_long; then
    while read -r ranks sharers layout; do
        test_expect_success "large calls on hosts of $layout ranks" '
            in_hier_reduce $ranks "$layout" $sharers "70 calls" calls && in_hier_reduce $ranks "$layout" $sharers "33 calls" several &&
                in_hier_reduce $ranks "$layout" $sharers "66 calls" copies && in_hier_reduce $ranks "$layout" $sharers "68 calls" scatter &&
                in_hier_reduce $ranks "$layout" $sharers "105 calls.*" groups'
    done <<'EOT'
3 2 1 2
4 3 1 3
4 3 3 1
4 2 1 2 1
6 4 1 1 2 2
7 7 4 3
4 4 a b a b
5 4 a b c b a
6 6 3 3
EOT
    test_expect_success 'the job is opened again' 'in_hier_reduce 4 "2 2" 4 "99 calls" opens'
    test_expect_success 'without shared memory, MPI does it all' '
        under_mpirun 4 ./layout "2 2" sh -c "ulimit -f 20000 && exec $hier_reduce several" >out &&
        grep "^mpi, 4 ranks, 0 of which share memory: 33 calls\$" out'
fi
test_done
