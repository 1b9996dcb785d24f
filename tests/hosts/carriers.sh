#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What carries the connections of a launch on several hosts, and what the head does with them.  "ssh" is a script that
# starts the agent on this machine, so this needs neither root nor a network.
. "${srcdir:-.}/tests/testlib.sh"
OMP_NUM_THREADS=1
export OMP_NUM_THREADS
mkdir bin

# ssh_is COMMAND: what "ssh" does when it has found the command for the other host, "$1".  The head lets SSH ignore
# signals, which the other side would not know of.
ssh_is () {
    # shellcheck disable=SC2016 # expanded by the script
    { echo '#!/bin/sh' && echo 'while [ "$1" != -- ]; do shift; done; shift 2' && echo "$1"; } >bin/ssh &&
        chmod +x bin/ssh
}

# launch ARGUMENT...: on the hosts a and b
launch () {
    PATH=$scratch/bin:$PATH timeout $patience "$accelerate" launch --cpu --hosts a,b \
        --main_process_ip 127.0.0.1 "$@"
}

test_expect_success 'a failure ends the ranks of the other hosts at once, not after the limit' '
    ssh_is "exec env --default-signal \$1" &&
    test_exit 7 launch --grace 1 sh -c "test \$RANK = 0 || exit 7; exec sleep 1000" >out 2>err &&
    grep "^accelerate: rank 1 .* exited with status 7$" err && ! grep "in time" err
'
test_expect_success '--max_restarts 1 restarts once' '
    ssh_is "exec env --default-signal \$1" &&
    test_exit 7 launch --max_restarts 1 sh -c "echo attempt >>attempts.\$RANK; exit 7" >out 2>err &&
    test "$(grep -c "restarting all ranks" err)" -eq 1 && test "$(wc -l <attempts.0)" -le 2
'
test_expect_success 'a connection that stays when its agent has ended does not keep the launch' '
    ssh_is "env --default-signal \$1; exec sleep 1000 </dev/null >/dev/null 2>&1" &&
    launch sh -c "echo rank \$RANK" >out 2>err &&
    printf "rank 0\nrank 1\n" >expected && sort out | diff expected -
'
test_expect_success 'what start-up files write before the agent greets is not output' '
    ssh_is "echo welcome; exec env --default-signal \$1" && launch sh -c "echo rank \$RANK" >out 2>err &&
    sort out | diff expected -
'
# Its path is given to a shell there.
test_expect_success 'a program at an odd place is looked for in PATH on the other hosts' '
    mkdir "odd; place" && cp "$accelerate" "odd; place/accelerate" &&
    "./odd; place/accelerate" launch --cpu --dry_run --hosts a,b true >out && grep "accelerate --agent" out &&
    ! grep odd out
'
test_expect_success 'the option that needs mpirun is named if there is none' '
    mkdir empty && for option in "--mpi yes" "--starter mpirun"; do
        test_exit 2 env PATH="$PWD/empty" "$accelerate" launch --cpu --dry_run --hosts a,b $option true 2>err &&
            grep -e "$option needs mpirun or mpiexec, but neither is in PATH" err || return 1
    done
'
# Signs of life come from agents; before that, SSH logs in.
if is_long; then
test_expect_success 'connections of a check may take longer than hosts may be silent, as those of a launch' '
    ssh_is "sleep 5; exec env --default-signal \$1" && launch --host_timeout 3 true &&
    PATH=$scratch/bin:$PATH timeout $patience "$accelerate" test --hosts a,b --main_process_ip 127.0.0.1 \
        --host_timeout 3 >out && ! grep "no connection" out
'
fi
is_stopped () {
    grep -q "^[0-9]* ([^)]*) T" "/proc/$1/stat"
}
# ^Z and fg: the hosts know that the head is silent on purpose, and it knows that it did not listen.
test_expect_success 'a launch that is stopped for longer than hosts may be silent continues' '
    ssh_is "exec env --default-signal \$1" && mkdir marks &&
    { PATH=$scratch/bin:$PATH "$accelerate" launch --cpu --hosts a,b --main_process_ip 127.0.0.1 --host_timeout 3 \
        sh -c "echo up >marks/up.\$RANK; while [ ! -e marks/go ]; do sleep 0.1; done; echo rank \$RANK" >out 2>err & } &&
    head=$! && await marks/up.0 marks/up.1 && kill -TSTP $head && wait_for is_stopped $head && sleep 4 &&
    kill -CONT $head && : >marks/go && wait $head && sort out | diff expected -
'
test_done
