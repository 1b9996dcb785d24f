#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ranks on several hosts that are processes of MPI, and of this launcher: mpirun starts MPI proxies, ssh the agents.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/hosts/lab"
mpirun --version >version 2>&1 || :
if ! grep -q "Open MPI" version; then
    skip_rest 'there is no mpirun of Open MPI'
fi
begin_lab 3 || exit
meet=$builddir/tests/hosts/rendezvous
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base=/run
PRTE_MCA_prte_tmpdir_base=/run # of Open MPI 5
ACCEL_ENGINE_PATH=$builddir/src/engines/mpi/.libs
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_orte_tmpdir_base PRTE_MCA_prte_tmpdir_base \
    ACCEL_ENGINE_PATH

# launch ARGUMENT...: from host1
launch () {
    on host1 timeout -k 10 $patience "$accelerate" launch --cpu "$@"
}
# begin ARGUMENT...: processes of MPI on all hosts, in the background
begin () {
    rm -f up.* out err
    on host1 "$accelerate" launch --cpu --starter mpirun --hosts host1:2,host2:1,host3:1 "$@" "$meet" up >out 2>err &
    head=$!
    await up.0 up.1 up.2 up.3
}

cat >variables <<'END'
#!/bin/sh
echo "$RANK $OMPI_COMM_WORLD_RANK $PMIX_RANK $OMPI_COMM_WORLD_SIZE $OMPI_COMM_WORLD_LOCAL_RANK $LOCAL_RANK $(hostname)"
END
chmod +x variables
test_expect_success 'each rank has the variables of MPI, with the numbers that the launcher counts' '
    printf "%s\n" "0 0 0 4 0 0 host1" "1 1 1 4 1 1 host1" "2 2 2 4 0 0 host2" "3 3 3 4 0 0 host3" >expected &&
    launch --starter mpirun --hosts host1:2,host2:1,host3:1 ./variables >out && sort out | diff expected - &&
    all_clean host1 host2 host3
'
# What Open MPI reads on each host; host3 has a device of Omni-Path.
write_parameters () {
    printf "%s\n" "# mtl = none" "mtl = psm" " mtl=^ofi,cm  " >one && echo "mtl = ofi,psm2" >two &&
        printf "%s\n" "mtl_base_verbose = 0" "mtl = ^" >three &&
        for i in 1:one 2:two 3:three; do
            on "host${i%:*}" sh -c "mkdir -p /run/home/.openmpi && cp ${i#*:} /run/home/.openmpi/mca-params.conf" || return 1
        done
}
remove_parameters () {
    for i in 1 2 3; do
        on "host$i" rm /run/home/.openmpi/mca-params.conf || return 1
    done
}
add_device () {
    on host3 sh -c "mkdir -p /run/dev/shm && cp -a /dev/null /dev/urandom /run/dev && touch /run/dev/hfi1_0 &&
        mount --bind /run/dev /dev"
}
# transports [NAME=VALUE...]: what each rank must not load
transports () {
    on host1 env HOME=/run/home "$@" timeout -k 10 $patience "$accelerate" launch --cpu --starter mpirun \
        --hosts host1,host2,host3 sh -c "echo \$(hostname) \${OMPI_MCA_mtl-all}" >out && sort out
}
parameters=/etc/openmpi
[ -e $parameters/openmpi-mca-params.conf ] || parameters=/etc/openmpi-x86_64
if [ -e $parameters/openmpi-mca-params.conf ]; then
test_expect_success 'no rank loads a transport for a device that its host lacks' '
    write_parameters && add_device && transports >said &&
    printf "%s\n" "host1 ^ofi,cm,psm,psm2" "host2 all" "host3 ^psm" | diff - said
'
test_expect_success 'nor is anything changed on a host whose file overrides variables' '
    on host3 sh -c "mkdir /run/parameters && cp -a $parameters/. /run/parameters &&
        touch /run/parameters/openmpi-mca-params-override.conf && mount --bind /run/parameters $parameters" &&
    transports >said && on host3 umount $parameters &&
    printf "%s\n" "host1 ^ofi,cm,psm,psm2" "host2 all" "host3 all" | diff - said
'
test_expect_success 'unless the user has chosen transports' '
    transports OMPI_MCA_mtl=^cm >said && printf "%s\n" "host1 ^cm" "host2 ^cm" "host3 ^cm" | diff - said &&
    remove_parameters && on host3 umount /dev && all_clean host1 host2 host3
'
fi
# How Open MPI 5 calls mpirun's process, a daemon, and their folders.
head_of_mpi=mpirun daemon=orted folders='/run/ompi.*'
if grep -q "Open MPI) [5-9]" version; then
    head_of_mpi=prterun daemon=prted folders='/run/prte*'
fi
has_session () {
    on "$1" sh -c "ls -d $folders" >>sessions 2>&1
}
# As soon as the agents have ended.
no_session_left () {
    for host; do
        ! has_session "$host" || return 1
    done
}
test_expect_success 'a killed rank is named, and nothing stays, nor any folder of MPI' '
    begin && has_session host1 && has_session host2 && on host3 kill -9 "$(cat up.3)" && finish 137 &&
    grep "^accelerate: rank 3 (process $(cat up.3) on host3) was killed by signal 9 (SIGKILL)" err &&
    test "$(grep -c "^accelerate: " err)" -eq 1 && all_clean host1 host2 host3 && no_session_left host1 host2 host3
'
if is_long; then
test_expect_success 'a program that needs no MPI gets none' '
    launch --hosts host1,host2 sh -c "env | grep -c -e OMPI_COMM -e PMIX_; true" >out && printf "0\n0\n" | diff - out &&
    launch --dry_run --hosts host1,host2 true >out && ! grep "processes of MPI" out
'
test_expect_success 'so it is where the first host is another one' '
    printf "%s\n" "0 0 0 3 0 0 host3" "1 1 1 3 0 0 host2" "2 2 2 3 1 1 host2" >expected &&
    launch --mpi yes --hosts host3:1,host2:2 ./variables >out && sort out | diff expected -
'
test_expect_success 'the ranks start again as processes of MPI' '
    launch --max_restarts 1 --starter mpirun --hosts host1:2,host2:1 \
        sh -c "echo \$TORCHELASTIC_RESTART_COUNT \$RANK \$PMIX_RANK; test \$RANK.\$TORCHELASTIC_RESTART_COUNT != 2.0" \
        >out 2>err && grep "restarting all ranks (1 of 1)" err &&
    printf "%s\n" "1 0 0" "1 1 1" "1 2 2" >expected && sort out | grep "^1" | diff expected - && all_clean host1 host2
'
test_expect_success 'the ranks do without mpirun once they have started' '
    begin && on host1 pkill -9 -x $head_of_mpi && on host2 kill -TERM "$(cat up.2)" && finish 143 &&
    grep "^accelerate: rank 2 (process $(cat up.2) on host2) was killed by signal 15" err &&
    all_clean host1 host2 host3
'
test_expect_success 'nothing stays when the head is killed' '
    begin && on host1 pkill -9 -f "[-]-hosts host1:2" && finish 137 && all_clean host1 host2 host3
'
test_expect_success 'nothing stays on a host whose link is cut, although its daemon of MPI waits for mpirun' '
    begin --host_timeout 4 && hosts cut host2 && finish 1 &&
    grep "^accelerate: host host2: lost: no sign of life for 4 s$" err && all_clean host1 host2 host3 &&
    hosts heal host2
'
fi
mkdir bin
cat >bin/mpirun <<'END'
#!/bin/sh
[ "$1" != --version ] || exec echo "mpirun (Open MPI) 0"
printf '%s\n' ------------ 'no slots today' ------------ >&2
exit 5
END
chmod +x bin/mpirun
test_expect_success 'what mpirun says is the reason if it does not start the MPI proxies' '
    test_exit 1 on host1 env PATH="$PWD/bin:$PATH" "$accelerate" launch --cpu --starter mpirun \
        --hosts host1,host2 true 2>err &&
    grep "^accelerate: $PWD/bin/mpirun has ended before it started a process for each rank .*: no slots today$" err &&
    says_one_line && all_clean host1 host2
'
test_expect_success '--starter srun outside of Slurm is refused' '
    test_exit 2 launch --starter srun --hosts host1,host2 true 2>err && grep "needs an allocation of Slurm" err
'
test_expect_success 'mpirun does not start processes as root without permission, and one line explains it' '
    test_exit 1 on host1 env -u OMPI_ALLOW_RUN_AS_ROOT "$accelerate" launch --cpu --starter mpirun \
        --hosts host1,host2 true 2>err &&
    grep "^accelerate: [a-z/]*mpirun starts no processes as root: .*set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_" err &&
    says_one_line
'
test_expect_success 'one of several launchers that mpirun has started is not the head of a job' '
    test_exit 2 on host1 timeout -k 10 $patience mpirun -n 2 "$accelerate" launch --cpu --hosts host1,host2 true 2>err &&
    grep "hosts: mpirun has started 2 of this command, and each would start the job" err
'

# ---- libaccel ----

if [ ! -f "$ACCEL_ENGINE_PATH/accel_engine_mpi.so" ]; then
    skip_rest 'engine mpi is not built'
fi
allow_leaks_of_mpi || exit
# digits ARGUMENT...: the losses, which one rank of each host prints
digits () {
    launch "$@" "$builddir/examples/digits" --epochs 2 --seed 1 --batch_size 60 >said && grep "^epoch" said | sort -u
}
test_expect_success 'examples/digits trains alike on 1 host and 2' '
    digits --num_processes 4 >one && test "$(wc -l <one)" -eq 2 &&
    digits --hosts host1:2,host2:2 >two && diff one two && all_clean host1 host2
'
# mpirun itself may hang then; the head does not.
test_expect_success 'ranks of another host that never come are not waited for beyond the timeout' '
    test_exit 3 launch --starter mpirun --hosts host1,host2 "$builddir/tests/engines/mpi_program" absent >out 2>err &&
    grep "^timeout: .* 0 timed out after 1500 ms .* ranks of other hosts (1) to call accel_open()" out &&
    grep "^again: .*start the program again" out && ! grep WRONG out && grep "rank 0 .* exited with status 3" err &&
    all_clean host1 host2
'
cat >train <<END
#!/bin/sh
echo \$\$ >up.\$RANK
exec "$builddir/examples/digits" --epochs 100000 --patience 0 --batch_size 60 --seed 1
END
chmod +x train
has_epoch () {
    grep -q "^epoch" out 2>/dev/null || has_exited "$head"
}
# begin_training [HOSTS]
begin_training () {
    rm -f up.* out err
    on host1 "$accelerate" launch --cpu --mpi yes --hosts "${1:-host1:1,host2:2}" ./train >out 2>err &
    head=$!
    wait_for has_epoch
}
# The launchers know; a stopped rank is continued, so that it can end.
test_expect_success 'after SIGTERM, the report says what the ranks of all hosts were doing, and which was stopped' '
    begin_training && on host2 kill -STOP "$(cat up.2)" && on host1 pkill -TERM -f "[-]-hosts host1:1" && finish 143 &&
    grep -x "accelerate: ended by SIGTERM" err && test "$(grep -c -x "  the ranks at that moment:" err)" -eq 1 &&
    grep -E "^    rank 2: stopped by a signal (in|after) " err && grep -E "^    ranks? 0(, 1|-1)?: (computing|in) " err &&
    grep -E "^    ranks? (0-|0, )?1: (computing|in) " err && all_clean host1 host2
'
is_long && test_expect_success 'a rank of another host for which ranks waited in vain is named, and that it was stopped' '
    ACCEL_TIMEOUT_MS=20000 && export ACCEL_TIMEOUT_MS && begin_training host1:2,host2:1 && on host2 kill -STOP "$(cat up.2)" &&
    finish 1 && grep "^accelerate: rank [01] (process [0-9]* on host1) exited with status 1$" err &&
    grep "^accelerate: note: rank 2 (process [0-9]* on host2) was stopped by signal 19 (SIGSTOP), .* at .*; .kill -CONT " err &&
    grep -x "  the ranks of other hosts, when these were told to end:" err && grep -E "^    rank 2: stopped by a signal (in|after) " err &&
    test "$(grep -c "^accelerate: rank" err)" -eq 1 && all_clean host1 host2
'
# first_of HOST WORD: the first MPI proxy there, or the daemon that has started it
first_of () {
    on "$1" ps -e -o pid=,ppid=,comm=,args= >processes && awk -v word="$2" '
        $3 == "accelerate" && / --mpi-proxy / { print word == "mpi-proxy" ? $1 : $2; exit }' processes
}
# How it was ended is known on newer kernels only.
wait_head () {
    status=0
    wait "$head" || status=$?
    [ "$status" = 137 ] || [ "$status" = 1 ]
}
# Its ranks, and then those of the other host, end with 195 (with Open MPI 5, perhaps in an abort) or give up because of these.
for victim in $daemon:host2:$daemon mpi-proxy:host2:'the MPI proxy of rank [12]' mpi-proxy:host1:'the MPI proxy of rank 0'; do
    pattern=${victim%%:*} where=${victim#*:} && where=${where%%:*}
    test_expect_success "a process of MPI that is killed is named, not the ranks that need it: ${victim##*:} on $where" '
        begin_training && pid=$(first_of "$where" "$pattern") && on "$where" kill -9 "$pid" && wait_head &&
        grep "^accelerate: ${victim##*:} (process $pid on $where) \(was killed by signal 9 (SIGKILL)\|ended\), and ranks" err &&
        grep "^  the first of them: rank . .* exited with status [1-9][0-9]*$" err &&
        test "$(grep -c "^accelerate: " err)" -eq 1 && all_clean host1 host2 && no_session_left host1 host2
    '
done
if is_long; then
test_expect_success 'and on 3, with the numbers of processes that they have' '
    digits --starter mpirun --hosts host1:2,host2:1,host3:1 >three && diff one three && all_clean host1 host2 host3
'
test_expect_success 'the conformance tests, 2 hosts of 2 ranks' '
    launch --starter mpirun --hosts host1:2,host2:2 "$builddir/tests/conformance/conformance" mixture control groups >out &&
    grep ", 4 ranks: " out
'
for layout in host1:2,host2:2 host1:2,host2:1,host3:1; do
    sharers=4 && [ $layout = host1:2,host2:2 ] || sharers=2
    test_expect_success "large all-reduces through the memory of each host: $layout" '
        launch --mpi yes --hosts $layout "$builddir/tests/engines/hier_reduce" several >out &&
        grep "^mpi, 4 ranks, $sharers of which share memory: 33 calls$" out && all_clean host1 host2 host3
    '
done
# What its launcher has not seen to end is a zombie.
trains_no_more () {
    for host in host1 host2; do
        on "$host" ps -e -o stat=,comm= >processes && ! grep "^[^Z].*digits$" processes || return 1
    done
}
# An abort may be the consequence of a lost connection, and clocks say that it was: its launcher is late.  But rank 0
# says whose end it has seen, unless Open MPI 5 lets it abort before.
names_abort () {
    words="rank 1 (process $(cat up.1) on host2) was killed by signal 6 (SIGABRT)"
    gone "$head" || return 1
    if [ $daemon = prted ] && grep "^  at nearly the same time, $words" err; then
        finish 14
    else
        finish 134 && grep "^accelerate: $words" err && grep "^    rank 2: gave up: rank 1 ended" err && ! grep "nearly the same" err
    fi
}
may_hold 2>/dev/null ||
    test_skip 'a rank that aborts, and whose launcher sees it late' 'not permitted to trace processes'
! may_hold 2>/dev/null ||
test_expect_success 'a rank that aborts, and whose launcher sees it long after its victims on other hosts have ended' '
    begin_training && freeze host2 && on host2 kill -ABRT "$(cat up.1)" &&
    wait_for trains_no_more && thaw host2 && names_abort &&
    test "$(grep -c "^accelerate: " err)" -eq 1 && all_clean host1 host2
'
for way in KILL:137:'was killed by signal 9 (SIGKILL)' TERM:1:'exited with status 1, as it does after SIGTERM'; do
    test_expect_success "an mpirun that a user ends by SIG${way%%:*} is named, not the ranks that need it" '
        begin_training && on host1 pkill -${way%%:*} -x $head_of_mpi && status=${way#*:} && finish "${status%%:*}" &&
        grep "^accelerate: mpirun on host1 ${way##*:}, and ranks that use MPI ended with it$" err &&
        grep "^  the first of them: rank . .* exited with status 195" err && all_clean host1 host2 &&
        no_session_left host1 host2 && ! on host1 sh -c "ls -d /dev/shm/*_segment.*"
    '
done
printf '#!/bin/sh\n[ "$1" = --version ] || echo "a word of MPI"\nexec %s "$@"\n' "$(command -v mpirun)" >bin/mpirun
test_expect_success 'what mpirun says is shown' '
    on host1 env PATH="$PWD/bin:$PATH" "$accelerate" launch --cpu --starter mpirun --hosts host1,host2 true 2>err &&
    grep -x "mpirun: a word of MPI" err
'
# Open MPI 5 lets ranks abort that lose a connection, before libaccel has a word.
hear_of_rank_3 () {
    ! grep WRONG out && { [ $daemon = prted ] || test "$(grep -c "^rank [012]: as expected .*: rank 3 ended (process" out)" -eq 3; }
}
test_expect_success 'all hosts hear of a rank that is killed, and the report names it' '
    test_exit 137 launch --mpi yes --hosts host1:2,host2:2 "$builddir/tests/fault/comm_faults" killed 3 >out 2>err && hear_of_rank_3 &&
    grep "^accelerate: rank 3 (process [0-9]* on host2) was killed by signal 9 (SIGKILL)" err && all_clean host1 host2
'
fi
test_done
