#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A launch inside an allocation of Slurm: srun starts the agents, and connects ranks that are processes of MPI.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/hosts/lab"
. "$srcdir/tests/hosts/slurm"
begin_lab 3 || exit
begin_slurm 3 || exit
meet=$builddir/tests/hosts/rendezvous
ACCEL_ENGINE_PATH=$builddir/src/engines/mpi/.libs
export ACCEL_ENGINE_PATH

# launch ARGUMENT...: in an allocation of three hosts, with two tasks on the first, from host1
launch () {
    on host1 timeout -k 10 $patience salloc -Q -N3 -n4 "$accelerate" launch --cpu "$@"
}
begin () {
    rm -f up.*
    launch "$@" "$meet" up >out 2>err &
    head=$!
    await up.0 up.1 up.2 up.3
}

cat >expected <<'END'
rank 0 of 4, local 0 of 2, on host1, machine 0 of 3: sum 6
rank 1 of 4, local 1 of 2, on host1, machine 0 of 3: sum 6
rank 2 of 4, local 0 of 1, on host2, machine 1 of 3: sum 6
rank 3 of 4, local 0 of 1, on host3, machine 2 of 3: sum 6
END
test_expect_success 'in an allocation, with nothing said: its hosts, with its tasks, by srun' '
    launch "$meet" >out 2>err && sort out | diff expected - && ! test -s err &&
    launch --dry_run true >out && grep "started by srun .*--nodelist=host2 " out && all_clean host1 host2 host3
'
test_expect_success 'a failing rank: one report, its status' '
    test_exit 7 launch sh -c "test \$RANK = 2 && exit 7; exec sleep 1000" 2>err &&
    grep "^accelerate: rank 2 (process [0-9]* on host2) exited with status 7$" err &&
    test "$(wc -l <err)" -eq 1 && all_clean host1 host2 host3
'
test_expect_success 'one of several launchers that srun has started is not the head of a job' '
    echo host1,host2 >hosts && test_exit 2 on host1 timeout -k 10 $patience srun -Q -N2 -n2 -K0 "$accelerate" launch \
        --cpu --hostfile hosts true 2>err && test "$(grep -c "hostfile: srun has started 2 of this command" err)" -eq 2
'
if is_long; then
test_expect_success 'variables for tasks of the user are not those of the agents' '
    SLURM_LABELIO=1 SLURM_NTASKS_PER_NODE=2 && export SLURM_LABELIO SLURM_NTASKS_PER_NODE &&
    launch --starter srun "$meet" >out 2>err && sort out | diff expected - && ! test -s err
'
cat >speak <<'END'
#!/bin/sh
seq 20000
printf '\000\001\004\r\n'
END
chmod +x speak
test_expect_success 'a large output and every byte come through' '
    launch ./speak >out 2>err && test "$(grep -ac "^[0-9]*$" out)" -eq 80000 &&
    test "$(tr -dc "\000\001\004\r" <out | wc -c)" -eq 16
'
test_expect_success 'hosts outside of the allocation are reached by ssh' '
    on host1 salloc -Q -N2 -n2 -w host1,host2 "$accelerate" launch --cpu --hosts host1,host3 sh -c hostname >out 2>err &&
    printf "host1\nhost3\n" >wanted && sort out | diff wanted -
'
test_expect_success 'a killed agent: its host is blamed' '
    begin && on host2 pkill -9 -f "[-]-agent" && finish 1 && grep "^accelerate: host host2: lost: " err &&
    all_clean host1 host2 host3
'
test_expect_success 'nothing stays when the head is killed' '
    begin && on host1 pkill -9 -f "^$accelerate launch" && all_clean host1 host2 host3
'
test_expect_success 'a cut link: the host is blamed, and ends its own ranks' '
    begin --host_timeout 4 && hosts cut host3 && finish 1 &&
    grep "^accelerate: host host3: lost: no sign of life for 4 s$" err && hosts heal host3 &&
    all_clean host1 host2 host3 && wait_for slurm_is_idle 3
'
fi

# ---- processes of MPI ----

srun --mpi=list >kinds 2>&1 || :
if ! grep -q pmix kinds; then
    skip_rest 'Slurm has no pmix here'
fi
test_expect_success 'each rank has the variables of PMIx and Slurm, with the numbers that the launcher counts' '
    printf "%s\n" "0 0 0" "1 1 1" "2 2 2" "3 3 3" >wanted &&
    launch --mpi yes sh -c "echo \$RANK \$PMIX_RANK \$SLURM_PROCID" >out 2>err && sort out | diff wanted - &&
    all_clean host1 host2 host3
'
if [ ! -f "$ACCEL_ENGINE_PATH/accel_engine_mpi.so" ]; then
    skip_rest 'engine mpi is not built'
fi
allow_leaks_of_mpi || exit
digits () {
    "$@" "$builddir/examples/digits" --epochs 2 --seed 1 --batch_size 60 >said && grep "^epoch" said | sort -u
}
test_expect_success 'examples/digits trains alike on 1 host and 3' '
    digits "$accelerate" launch --cpu --num_processes 4 >one && test "$(wc -l <one)" -eq 2 &&
    digits launch >three && diff one three
'
if is_long; then
test_expect_success 'and on 2' 'digits launch --hosts host1:2,host2:2 >two && diff one two'
test_expect_success 'so it does where srun starts the ranks itself' '
    digits on host1 timeout -k 10 $patience srun -Q -N2 -n4 --ntasks-per-node=2 --mpi=pmix >two && diff one two
'
fi
test_done
