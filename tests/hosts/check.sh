#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate test on several hosts: what it finds, what it says, and that it ends.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/hosts/lab"
begin_lab 3 || exit

# check ARGUMENT...: from host1
check () {
    on host1 "$accelerate" test "$@"
}

# replaced HOST FILE COMMAND...: while FILE is installed there instead of our program
replaced () {
    host=$1
    on "$host" mount --bind "$2" "$accelerate" || return 1
    shift 2
    status=0
    "$@" || status=$?
    on "$host" umount "$accelerate" || return 1
    return $status
}
last_line_has () {
    tail -n 1 out | grep -e "$1"
}

version=$(sed -n "s/^PACKAGE_VERSION = //p" "$builddir/Makefile")
test_expect_success 'three hosts that are ready: versions, a matrix of links, the port' '
    check --hosts host1,host2:2,host3 >out 2>err && test ! -s err &&
    grep "^host2  host2  $version .*  2  [a-z]* *ok$" out &&
    test "$(grep -c "^host[123]  .* ok$" out)" -eq 3 && test "$(grep -c "^host[123] .* \. *" out)" -ge 3 &&
    grep "^port: all hosts reach host1 at 10.91.0.1, port " out && ! grep -e none -e problem out &&
    grep "^MPI: not tried, because no host has libaccel" out && last_line_has "^Ready: " && all_clean host1 host2 host3
'
# What mpirun needs as root, and where the engine is.
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base=/run
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_orte_tmpdir_base
engines=$builddir/src/engines/mpi/.libs
mpirun --version >mpirun.version 2>&1 || :
allow_leaks_of_mpi || exit
if [ -e "$engines/accel_engine_mpi.so" ] && grep -q "Open MPI" mpirun.version; then
test_expect_success 'MPI between the hosts, measured by a launch' '
    ACCEL_ENGINE_PATH=$engines check --json --mpi yes --hosts host1,host2 >out && tr -d " \n" <out >flat &&
    grep "\"mpi_measured\":true" flat && test "$(grep -c "mpi_mb_per_s\": [0-9]" out)" -eq 2 &&
    grep "\"mpi_round_trip_ms\":[0-9]" flat && all_clean host1 host2
'
else
    test_skip 'MPI between the hosts' 'needs the engine mpi and mpirun of Open MPI'
fi
# With the stand-ins for CUDA and NCCL.  The driver's folder says that there is a GPU; each host has another one.
standin=$builddir/tests/standin/.libs
if [ -e "$engines/accel_engine_mpi.so" ] && [ -e "$standin/accel_engine_nccl.so" ] &&
    grep -q "Open MPI" mpirun.version; then
umask 022
mkdir gpu_engines meeting
cp "$engines/accel_engine_mpi.so" "$standin/accel_engine_nccl.so" "$standin/accel_device_cuda.so" gpu_engines
printf '#!/bin/sh\nexport CUDA_VISIBLE_DEVICES=$RANK\nexec "%s" "$@"\n' "$builddir/src/selftest/accel_selftest" >selftest
chmod +x selftest
# shellcheck disable=SC2016 # the shell on the host expands it
have_gpu () {
    on "$1" sh -c 'mount -t tmpfs none /proc/driver && mkdir -p /proc/driver/nvidia/gpus/$0' "$2"
}
check_gpus () {
    ACCEL_ENGINE_PATH=$PWD/gpu_engines STANDIN_DEVICES=2 STANDIN_NCCL_FOLDER=$PWD/meeting \
        LD_LIBRARY_PATH=$standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ACCELERATE_SELFTEST=$PWD/selftest check "$@"
}
test_expect_success 'NCCL between the GPUs of two hosts, on its stand-in' '
    have_gpu host1 0000:01:00.0 && have_gpu host2 0000:02:00.0 && check_gpus --hosts host1,host2 >out 2>err &&
    grep "^MB/s through NCCL$" out && grep -A 3 "^ms there and back through NCCL$" out >trips &&
    grep "^host1  *\.  *[0-9]" trips && last_line_has "^Ready: " && all_clean host1 host2
'
is_long && test_expect_success 'the same as JSON, and where the other host has no GPU' '
    check_gpus --json --hosts host1,host2 >out && tr -d " \n" <out >flat && grep "\"nccl_measured\":true" flat &&
    test "$(grep -c "nccl_mb_per_s\": [0-9]" out)" -eq 2 && grep "\"gpus\":1" flat &&
    on host2 umount /proc/driver && check_gpus --hosts host1,host2 >out &&
    grep "^NCCL: not tried, because host host2 has no GPU$" out && last_line_has "^Ready: " && have_gpu host2 0000:02:00.0
'
is_long && test_expect_success 'NCCL fails: a note says why' '
    STANDIN_FAIL=ncclCommInitRankConfig:1:2 check_gpus --hosts host1,host2 >out &&
    grep "^note: NCCL failed between the GPUs of these hosts; .*unhandled system error" out &&
    grep "^MB/s through MPI$" out && last_line_has "^Ready: " && all_clean host1 host2
'
{ on host1 umount /proc/driver && on host2 umount /proc/driver; } 2>/dev/null || :
else
    test_skip 'NCCL between the hosts' 'needs engine mpi, mpirun of Open MPI, and the stand-ins of GPUs'
fi
test_expect_success 'the same as JSON, from a host that is not among them' '
    check --json --hosts "host[2-3]" >out && tr -d " \n" <out >flat && grep "^{\"ready\":true," flat &&
    grep "\"address\":\"10.91.0.2\"" flat && grep "\"from\":\"host3\",\"to\":\"host2\",\"mb_per_s\":[0-9]" flat &&
    grep "\"problems\":\[\]" flat
'
test_expect_success 'a host that does not exist; the others are checked all the same' '
    test_exit 1 check --hosts host1,host2,host9 >out 2>err && grep "^problem: host host9: cannot connect: .*host9" out &&
    grep "^host9 .* not ready$" out && grep "^host2 .* ok$" out && grep "^port: all hosts reach host1" out &&
    last_line_has "^Not ready: make \"ssh host9 .*--version\" work" && all_clean host1 host2
'
test_expect_success 'an interface that the hosts do not have' '
    test_exit 1 check --interface eth7 --hosts host1,host2 >out && grep "^problem: .*eth7" out
'
test_expect_success 'usage' '
    test_exit 2 "$accelerate" test --json 2>err && grep "needs several hosts" err &&
    test_exit 2 "$accelerate" test --hosts a --hostfile b 2>err && grep "cannot be combined" err &&
    test_exit 2 "$accelerate" test --hosts a, 2>err && grep -e --hosts err
'
if is_long; then
printf '#!/bin/sh\n[ "$1" = --version ] && echo "Open MPI" && exit\necho "broken here" >&2\nexit 3\n' >mpirun && chmod +x mpirun
test_expect_success 'MPI does not work: a note, or a problem where it is needed' '
    ACCEL_ENGINE_PATH=$engines && PATH=$PWD:$PATH && export ACCEL_ENGINE_PATH PATH &&
    check --hosts host1,host2 >out && grep "^note: MPI failed .* has ended .*broken here" out && last_line_has "^Ready" &&
    test_exit 1 check --mpi yes --hosts host1,host2 >out && grep "^problem: MPI failed .*broken here" out &&
    last_line_has "^Not ready: make MPI work" && check --mpi no --hosts host1,host2 >out && ! grep MPI: out &&
    last_line_has "^Ready: a job can run$"
'
PATH=${PATH#"$PWD:"}
unset ACCEL_ENGINE_PATH
test_expect_success 'one host has no links' '
    check --hosts host2 >out && last_line_has "^Ready: " && ! grep MB/s out
'
test_expect_success 'hosts of a file, of an allocation, and of the configuration file' '
    printf "host2\nhost3 slots=2\n" >hostfile && check --hostfile hostfile >out && last_line_has "^Ready" &&
    on host1 env SLURM_JOB_NODELIST="host[1-2]" "$accelerate" test >out && grep "^host2 .* ok" out &&
    printf "distributed_type: MULTI_CPU\nnum_processes: 3\nmpirun_config:\n  hosts: host2,host3\n" >file.yaml &&
    check --config_file file.yaml >out && grep "^host3 .* ok" out
'
test_expect_success 'without the first host, there is no port to check' '
    test_exit 1 check --hosts host9,host2,host3 >out && ! grep "^port" out && grep -A 3 "^MB/s" out >matrix &&
    grep "^host2" matrix && ! grep host9 matrix &&
    test_exit 1 check --json --hosts host9,host2,host3 >out && grep "\"from\": \"host2\"" out &&
    ! grep -e "\"from\": \"host9\"" -e "\"to\": \"host9\"" out
'
# The version may be the end of a longer text, which the linker keeps once.
LC_ALL=C sed "s/$(echo "$version" | sed 's/\./\\./g')\\x00/9${version#?}\\x00/g" "$accelerate" >other && chmod +x other
test_expect_success 'a host with another version' '
    ./other --agent </dev/null >greeting && grep -a "9${version#?}" greeting &&
    test_exit 1 replaced host3 "$PWD/other" check --hosts host1,host2,host3 >out &&
    grep "^host3 .* 9${version#?} .* not ready" out &&
    grep "^problem: host host3: accelerate 9${version#?} is installed there" out &&
    last_line_has "^Not ready: install accelerate $version on host host3"
'
# An agent that greets and then says nothing more.
printf '#!/bin/sh\n%s/silent --agent </dev/null\nexec sleep 1000\n' "$PWD" >hanging && chmod +x hanging
cp "$accelerate" silent
hang_shows () {
    test_exit 1 replaced host3 "$PWD/hanging" check --host_timeout "$1" --hosts host2,host3 >out &&
        grep "^problem: host host3: no answer within $1 s" out
}
test_expect_success 'a host that hangs' '
    { hang_shows 3 || hang_shows 60; }
'
on host3 pkill -x sleep 2>/dev/null || :
cut_shows () {
    test_exit 1 check --host_timeout "$1" --hosts host1,host2,host3 >out &&
        grep "^problem: from host2 to host3: cannot connect to port [0-9]* at 10.91.0.3" out
}
test_expect_success 'two hosts that cannot reach each other, though we reach both' '
    on host2 ip neigh replace 10.91.0.3 lladdr 02:00:00:00:00:99 dev eth0 && { cut_shows 5 || cut_shows 60; } &&
    on host2 ip neigh del 10.91.0.3 dev eth0 &&
    grep "^host2 .*none" out && ! grep "^host1 .*none" out &&
    last_line_has "^Not ready: allow TCP connections between hosts host2 and host3"
'
listens () {
    on host1 grep -q ':5BA0 .* 0A ' /proc/net/tcp
}
test_expect_success 'the port is in use' '
    { exec sh "$srcdir/tests/hosts/hosts" exec host1 env RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 \
        MASTER_ADDR=host1 MASTER_PORT=23456 "$builddir/tests/hosts/rendezvous" >/dev/null 2>&1 & } && wait_for listens &&
    test_exit 1 check --main_process_port 23456 --hosts host1,host2 >out &&
    on host1 pkill -x rendezvous && grep "^problem: .*port 23456.*--main_process_port" out &&
    grep "^host1 .* ok$" out && last_line_has "^Not ready: change the option"
'
test_expect_success 'a host whose network is slow' '
    hosts slow host3 20ms 0% &&
    check --hosts host1,host2,host3 >out && hosts heal host3 &&
    grep "^note: all links of host host3 are slow: .* ms there and back" out &&
    last_line_has "^Ready: a job can run, but host host3 would slow it down"
'
test_expect_success 'a slow link that loses packets is a slow link, not a firewall' '
    hosts slow host3 200ms 5% && check --hosts host1,host2,host3 >out && hosts heal host3 && ! grep "^problem:" out &&
    grep "^note: .*host3.* slow: [1-9][0-9.]* ms there and back" out && last_line_has "^Ready: a job can run, but .*host3"
'
off_shows () {
    test_exit 1 check --host_timeout "$1" --hosts host1,host2,host3 >out &&
        grep -E "^problem: host host3: (no connection within [0-9]* s|cannot connect: .*route)" out &&
        grep "^host2 .* ok$" out
}
test_expect_success 'a host that is switched off' '
    hosts off host3 && { off_shows 4 || off_shows 60; } && all_clean host1 host2
'
fi
test_done
