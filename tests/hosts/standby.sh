#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The mpirun that waits for a restart: it is used, replaced if it cannot be, and ended with the job.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/hosts/lab"
mpirun --version >version 2>&1 || :
if ! grep -q "Open MPI" version; then
    skip_rest 'there is no mpirun of Open MPI'
fi
begin_lab 3 || exit
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base=/run
PRTE_MCA_prte_tmpdir_base=/run # of Open MPI 5
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_orte_tmpdir_base PRTE_MCA_prte_tmpdir_base
daemon=orted
! grep -q "Open MPI) [5-9]" version || daemon=prted

mkdir bin
cat >bin/mpirun <<END
#!/bin/sh
[ "\$1" != --version ] || exec $(command -v mpirun) "\$@"
echo \$\$ >>"$PWD/starts"
[ ! -e "$PWD/late" ] || [ "\$(wc -l <"$PWD/starts")" != 2 ] || exec sleep 1000
exec $(command -v mpirun) "\$@"
END
cat >rank <<'END'
#!/bin/sh
echo $$ >up.$TORCHELASTIC_RESTART_COUNT.$RANK
while [ ! -e "go.$TORCHELASTIC_RESTART_COUNT" ]; do
    [ "$TORCHELASTIC_RESTART_COUNT.$RANK" != 0.2 ] || [ ! -e lost ] || exit 195 # as if MPI had ended it
    sleep 0.1
done
echo "$TORCHELASTIC_RESTART_COUNT $RANK $PMIX_RANK"
END
chmod +x bin/mpirun rank

late=
# begin ARGUMENT...: three ranks, in the background; with $late, the second mpirun starts nothing
begin () {
    rm -f up.* go.* starts out err late lost
    [ -z "$late" ] || echo >late
    on host1 env PATH="$PWD/bin:$PATH" "$accelerate" launch --cpu --starter mpirun --hosts host1:2,host2:1,host3:1 \
        --num_processes 3 "$@" ./rank >out 2>err &
    head=$!
    await up.0.0 up.0.1 up.0.2
}
waiting='^[^ ]*accelerate --mpi-proxy .* 2$' # an MPI proxy of the second mpirun
# proxies HOST COUNT: as many of them are there
proxies () {
    on "$1" ps -e -o args= >processes.$1 && [ "$(grep -c "$waiting" processes.$1)" = "$2" ]
}
stands_by () {
    wait_for proxies host1 2 && wait_for proxies host2 1
}
started () {
    [ "$(wc -l <starts)" = "$1" ]
}
# go_on: attempt 1 runs and ends, with the ranks of MPI
go_on () {
    await up.1.0 up.1.1 up.1.2 && echo >go.1 && finish 0 && printf "1 %s\n" "0 0" "1 1" "2 2" >expected &&
        sort out | diff expected - && grep "restarting all ranks (1 of 1)" err && all_clean host1 host2 host3
}
kill_rank () {
    on host2 kill -9 "$(cat up.0.2)"
}

test_expect_success 'a restart uses the mpirun that waits for it, and no other waits without a restart left' '
    begin --max_restarts 1 && stands_by && kill_rank && go_on && started 2
'
# kill_of_standby HOST WORD: its MPI proxy there, or what has started that
kill_of_standby () {
    first=$(on "$1" pgrep -o -f "$waiting") || return 1
    [ "$2" = mpi-proxy ] || first=$(on "$1" ps -o ppid= -p "$first") || return 1
    # shellcheck disable=SC2086 # ps has put blanks before it
    on "$1" kill -9 $first
}
for victim in mpirun:host1 $daemon:host2 mpi-proxy:host2; do
    test_expect_success "${victim%:*} of it is killed on ${victim#*:}: the ranks go on, and a restart starts another" '
        begin --max_restarts 1 && stands_by && kill_of_standby "${victim#*:}" "${victim%:*}" &&
        wait_for proxies host1 0 && echo >lost && go_on && started 3 &&
        grep "^accelerate: rank 2 (process $(cat up.0.2) on host2) exited with status 195$" err
    '
done
test_expect_success 'one that does not come is not waited for: a restart starts another' '
    late=yes && begin --max_restarts 1 && wait_for started 2 && kill_rank && go_on && started 3
'
test_expect_success 'it ends with a job that ends by itself' '
    late= && begin --max_restarts 1 && stands_by && echo >go.0 && finish 0 && all_clean host1 host2 host3 &&
    ! on host1 sh -c "ls -d /run/ompi.* /run/prte*" && ! on host2 sh -c "ls -d /run/ompi.* /run/prte*"
'
for way in TERM:143 KILL:137; do
    test_expect_success "and with one whose launcher gets SIG${way%:*}" '
        begin --max_restarts 1 && stands_by && on host1 pkill -"${way%:*}" -o -f "[-]-hosts host1:2" && finish "${way#*:}" &&
        all_clean host1 host2 host3
    '
done
test_expect_success 'the host of a rank is lost: it is dropped, and the ranks start on another host' '
    begin --max_restarts 1 --host_timeout 4 && stands_by && hosts off host2 && await up.1.0 up.1.1 up.1.2 &&
    echo >go.1 && finish 0 && started 3 && grep "without host2, with host3" err && all_clean host1 host3
'
test_done
