#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One launcher per machine, started by hand: whatever dies, each launcher says where it was, and nothing stays.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/hosts/lab"
patience=${TEST_PATIENCE:-120} # of each command and each of many waits, so that a launcher that hangs costs minutes
begin_lab 3 || exit
meet=$builddir/tests/hosts/rendezvous
key=$HOME/.cache/huggingface/accelerate/job_key

on () {
    timeout -k 5 "$patience" sh "$srcdir/tests/hosts/hosts" exec "$@"
}

# Those of the library count tries, and some commands here take long.
wait_for () {
    latest=$(($(date +%s) + patience))
    until "$@"; do
        [ "$(date +%s)" -lt "$latest" ] || { echo "waited in vain for: $*" && return 1; }
        sleep 0.02
    done
}

# launchers NAME COMMANDS: a test.  What one that failed has left would hold the ports that the next one needs: all
# processes of the hosts are killed then.
launchers () {
    failures_before=$test_failures
    rm -f up.* status.* out.* err.*
    test_expect_success "$@"
    [ "$test_failures" != "$failures_before" ] || return 0
    for host in host1 host2 host3; do
        { on "$host" sh -c 'kill -9 -1' || :; } # "Killed"; a host may be powered off
        { hosts heal "$host" || :; }
    done >/dev/null 2>&1
}

# seldom NAME COMMANDS: the same, where CI runs it
seldom () {
    ! is_long || launchers "$@"
}

# by_hand_on K N ARGUMENT...: the launcher of machine K of N, in the background, with two ranks there; its output is in
# out.K, err.K, its status in status.K
by_hand_on () {
    number=$1 machines=$2
    shift 2
    rm -f "status.$number"
    {
        status=0
        on "host$((number + 1))" "$accelerate" launch --cpu --num_machines "$machines" --machine_rank "$number" \
            --num_processes $((machines * 2)) --main_process_ip host1 --main_process_port 29500 "$@" \
            >"out.$number" 2>"err.$number" || status=$?
        echo "$status" >"status.$number"
    } &
}

# connected N: the launchers of all N machines know each other
connected () {
    for port in 30500 30501; do
        on host1 ss -Htn state established "sport = :$port" >peers || return 1
        [ "$(wc -l <peers)" -lt $(($1 - 1)) ] || return 0
    done
    return 1
}

# begin N ARGUMENT...: launch on N machines and wait until the ranks have met
begin () {
    machines=$1
    shift
    for k in $(seq 0 $((machines - 1))); do
        by_hand_on "$k" "$machines" "$@" "$meet" up || return 1
    done
    await up.0 up.1 up.2 up.3 && wait_for connected "$machines"
}

# finish_all STATUS...: the launchers end with these
finish_all () {
    k=0
    for expected; do
        wait_for test -s "status.$k" || return 1
        [ "$(cat "status.$k")" = "$expected" ] || {
            echo "status of machine $k: $(cat "status.$k"), expected $expected"
            return 1
        }
        k=$((k + 1))
    done
}
supervisor_of () {
    on "$1" pgrep -x accel-job
}
guardian_of () {
    on "$1" pgrep -f -- '[-]-machine_rank'
}

launchers 'a killed rank: both launchers name it and its host, and exit with its status' '
    begin 2 && on host2 kill -9 "$(cat up.3)" && finish_all 137 137 &&
    for k in 0 1; do
        grep "^accelerate: rank 3 (process $(cat up.3) on host2) was killed by signal 9 (SIGKILL)" err.$k &&
        test "$(grep -c ^accelerate: err.$k)" -eq 1 || exit 1
    done && all_clean host1 host2
'
# The kernel closes the connections of a process before its end can be seen; here it has 384 MiB to free in between.
cat >cause.py <<'END'
import os, signal, socket
def large():
    fd = os.memfd_create("large")
    for _ in range(192):
        os.write(fd, bytes(1 << 20))
if os.environ["RANK"] == "0":
    large()
    listener = socket.create_server(("", 29600))
    os.write(os.open("listens", os.O_WRONLY | os.O_CREAT, 0o600), b"yes")
    peer, _ = listener.accept()
    large()
    while not os.path.exists("go"):
        pass
    os.kill(os.getpid(), signal.SIGBUS)
while not os.path.exists("listens"):
    pass
socket.create_connection(("host1", 29600)).recv(1)
os._exit(4)
END
seldom 'a killed rank of the main machine, whose end shows after that of its victim' '
    ulimit -c 0 && for k in 0 1; do by_hand_on $k 2 --num_processes 2 python3 cause.py || exit 1; done &&
    wait_for connected 2 && echo >go && finish_all 135 135 &&
    for k in 0 1; do grep "^accelerate: rank 0 .*SIGBUS" err.$k || exit 1; done
'
# As on a busy machine.
may_hold () {
    sleep 60 &
    "$builddir/tests/hosts/hold" $! 0
}
if may_hold 2>/dev/null; then
    launchers 'a killed rank whose end is seen after those of its victims on both machines' '
        begin 2 && on host1 "$builddir/tests/hosts/hold" "$(cat up.0)" 800 && finish_all 137 137 &&
        for k in 0 1; do
            grep "^accelerate: rank 0 (process $(cat up.0) on host1) was killed by signal 9 (SIGKILL)" err.$k || exit 1
        done
    '
    cat >victim.py <<-'END'
	import os, signal, socket
	rank = os.environ["RANK"]
	if rank == "0":
	    listener = socket.create_server(("", 29600))
	    open("listens", "w").write("yes")
	    peer, _ = listener.accept()
	    open("up.0", "w").write(str(os.getpid()))
	elif rank == "1":
	    while not os.path.exists("listens"): pass
	    socket.create_connection(("host1", 29600)).recv(1)
	    os._exit(4)
	signal.pause()
	END
    # How long the cause is waited for has a limit.
    seldom 'a killed rank whose end is seen after the verdict: all launchers say the same' '
        rm -f listens && for k in 0 1; do by_hand_on $k 2 python3 victim.py || exit 1; done && await up.0 && wait_for connected 2 &&
        on host1 "$builddir/tests/hosts/hold" "$(cat up.0)" 6000 && finish_all 4 4 &&
        for k in 0 1; do grep "^accelerate: rank 1 (process [0-9]* on host1) exited with status 4$" err.$k || exit 1; done &&
        all_clean host1 host2
    '
else
    test_skip 'an end that is seen late' 'not permitted to trace processes'
fi
# Rank 2, on machine 1, is killed; rank 0 notices it, and its launcher does before that of rank 2.
cat >late.py <<'END'
import os, socket
if os.environ["RANK"] == "2":
    listener = socket.create_server(("", 29600))
    open("up.2", "w").write(str(os.getpid()))
    listener.accept()[0].recv(1)
while os.environ["RANK"] == "0":
    try:
        peer = socket.create_connection(("host2", 29600))
        break
    except OSError:
        pass
else:
    while True:
        os.read(0, 1) or __import__("signal").pause()
open("up.0", "w").write("met")
peer.recv(1)
os._exit(4)
END
seldom 'a killed rank whose launcher is busy for more than a second' '
    for k in 0 1; do by_hand_on $k 2 python3 late.py || exit 1; done && await up.0 up.2 && wait_for connected 2 &&
    pid=$(supervisor_of host2) && on host2 kill -STOP "$pid" && on host2 kill -9 "$(cat up.2)" && sleep 1.5 &&
    on host2 kill -CONT "$pid" && finish_all 137 137 &&
    for k in 0 1; do grep "^accelerate: rank 2 .*SIGKILL" err.$k || exit 1; done && all_clean host1 host2
'
launchers 'the first launch has made a key that only the user can read' '
    test "$(stat -c %a "$key")" = 600 && test "$(wc -c <"$key")" -eq 65
'
# Where the key is, memory has the flag dd, "do not dump".
launchers 'the key is in no argument, variable, line of output or core dump' '
    begin 2 && secret=$(cat "$key") && supervisor=$(supervisor_of host1) && rank=$(cat up.0) &&
    on host1 cat "/proc/$supervisor/cmdline" "/proc/$supervisor/environ" "/proc/$rank/cmdline" "/proc/$rank/environ" \
        >shown && test -s shown && ! cat shown out.* err.* | grep -aF "$secret" &&
    { is_sanitized || { on host1 cat "/proc/$supervisor/smaps" >maps &&
        awk "/^[0-9a-f]+-/ { is_ours = NF == 5 } /^VmFlags:.* dd/ && is_ours { found = 1 } END { exit !found }" \
            maps; }; } &&
    on host1 kill -9 "$rank" && finish_all 137 137 && ! cat out.* err.* | grep -aF "$secret"
'
seldom 'a killed rank on the main machine, with three machines' '
    begin 3 --failure_report report.json && on host1 kill -9 "$(cat up.0)" && finish_all 137 137 137 &&
    for k in 0 1 2; do grep "^accelerate: rank 0 (process $(cat up.0) on host1) was killed" err.$k || exit 1; done &&
    grep "\"host\":\"host1\"" report.json && all_clean host1 host2 host3
'
seldom 'a killed launcher' '
    begin 2 && pid=$(guardian_of host2) && on host2 kill -9 "$pid" && finish_all 137 137 &&
    grep "^accelerate: the launcher on host2 (machine 1, ranks 2-3) was killed$" err.0 && all_clean host1 host2
'
seldom 'a killed supervisor' '
    begin 2 && pid=$(supervisor_of host2) && on host2 kill -9 "$pid" && finish_all 1 137 &&
    grep "^accelerate: host host2 (machine 1, ranks 2-3): lost: its launcher was killed" err.0 && all_clean host1 host2
'
seldom 'the killed launcher of the main machine' '
    begin 2 && pid=$(guardian_of host1) && on host1 kill -9 "$pid" && finish_all 137 137 &&
    grep "^accelerate: the launcher on host1 (machine 0, ranks 0-1) was killed$" err.1 && all_clean host1 host2
'
launchers 'the killed supervisor of the main machine' '
    begin 2 && pid=$(supervisor_of host1) && on host1 kill -9 "$pid" && finish_all 137 1 &&
    grep "^accelerate: host host1 (machine 0): lost: its launcher was killed" err.1 && all_clean host1 host2
'
seldom 'SIGTERM to one launcher ends the job everywhere' '
    begin 2 && pid=$(guardian_of host2) && on host2 kill "$pid" && finish_all 75 143 &&
    grep "^accelerate: ended by SIGTERM on host2$" err.0 &&
    grep "^accelerate: ended by SIGTERM$" err.1 && all_clean host1 host2
'
# done_except RANK: only the launcher of that rank has ranks left
done_except () {
    pid=$(supervisor_of host1) && ! on host1 pgrep -x sh -P "$pid" >/dev/null && test ! -e status.0
}
launchers 'all launchers end together, and a failure after one has done its part reaches it' '
    touch all last && for k in 0 1; do
        by_hand_on $k 2 sh -c "while test -e all; do sleep 0.02; done
            test \$RANK != 3 || { while test -e last; do sleep 0.02; done; exit 7; }" || exit 1
    done && wait_for connected 2 && rm all && wait_for done_except 3 && rm last && finish_all 7 7 &&
    grep "^accelerate: rank 3 (process [0-9]* on host2) exited with status 7$" err.0 && all_clean host1 host2
'
launchers 'all ranks succeed' '
    for k in 0 1; do by_hand_on $k 2 "$meet" || exit 1; done && finish_all 0 0 && test ! -s err.0 && test ! -s err.1
'
seldom '--max_restarts: all machines start again' '
    for k in 0 1; do
        by_hand_on $k 2 --max_restarts 1 sh -c "echo \$RANK.\$TORCHELASTIC_RESTART_COUNT; sleep 1
            test \$RANK.\$TORCHELASTIC_RESTART_COUNT != 3.0 || exit 9; test \$TORCHELASTIC_RESTART_COUNT = 1 ||
            exec sleep 1000" || exit 1
    done && finish_all 0 0 && grep -x 0.1 out.0 && grep -x 3.1 out.1 && grep "restarting all ranks (1 of 1)" err.0 &&
    grep "restarting all ranks (1 of 1)" err.1
'
# has_begun_again: ranks of a second start
has_begun_again () { test -e again.0 || test -e again.1 || test -e again.2 || test -e again.3; }
# called_off HOST RANK: that rank fails, and while the others still end, the launcher on HOST gets SIGTERM
called_off () {
    rm -f told.* again.* up.*
    for k in 0 1; do
        by_hand_on $k 2 --max_restarts 1 sh -c "
            test \$TORCHELASTIC_RESTART_COUNT = 0 || { echo >again.\$RANK; exit 0; }
            trap \"test -e told.\$RANK || echo >told.\$RANK\" TERM; echo >up.\$RANK
            while ! test -e go.$1.$2 || { test \$RANK != $2 && ! test -e over.$1.$2; }; do sleep 0.02; done; exit 9" || return 1
    done
    await up.0 up.1 up.2 up.3 && wait_for connected 2 && echo >go.$1.$2 &&
        for rank in 0 1 2 3; do test $rank = "$2" || await told.$rank || return 1; done &&
        pid=$(guardian_of "$1") && on "$1" kill "$pid" && sleep 0.5 && echo >over.$1.$2 && finish_all 9 9 &&
        ! has_begun_again && ! grep restarting err.0 err.1 && grep "^accelerate: rank $2 .*exited with status 9" err.0
}
launchers 'SIGTERM to a launcher while the ranks end after a failure of others: no restart' 'called_off host2 0'
seldom 'and after a failure of its own, on each machine' 'called_off host2 3 && called_off host1 0 && called_off host1 2'
seldom 'a restart that one machine cannot begin' '
    for k in 0 1; do
        by_hand_on $k 2 --max_restarts 1 --log_dir logs$k sh -c "
            test \$RANK = 0 || exec sleep 1000; sleep 1; for run in logs0/*; do : >\$run/attempt_1; done; exit 9" || exit 1
    done && finish_all 1 1 && grep -c restarting err.0 >count && grep -x 1 count && grep "^accelerate: host host1: .*attempt_1" err.1 &&
    ! grep killed err.1
'
seldom 'a launcher that is alone restarts its own ranks' '
    by_hand_on 0 2 --max_restarts 1 sh -c "test \$TORCHELASTIC_RESTART_COUNT.\$RANK != 0.0 || exit 9" && finish_all 0 &&
    grep "restarting all ranks (1 of 1)" err.0
'
seldom 'ranks of one machine end long before a restart' '
    for k in 0 1; do
        by_hand_on $k 2 --max_restarts 1 --grace 1 sh -c "
            sleep 1; case \$TORCHELASTIC_RESTART_COUNT.\$RANK in
            0.0) sleep 18; exit 9 ;;
            0.1) trap \"\" TERM; exec sleep 1000 ;; # so that the restart comes after the verdict
            esac" || exit 1
    done && finish_all 0 0 && grep "restarting all ranks (1 of 1)" err.0 && grep "restarting all ranks (1 of 1)" err.1
'
seldom 'a program that cannot be started on one machine' '
    mkdir only && cp "$meet" only/meet && on host2 mount -t tmpfs none only && on host2 sh -c "
        printf \"#!/nothing\n\" >only/meet && chmod +x only/meet" &&
    for k in 0 1; do by_hand_on $k 2 "$PWD/only/meet" up || exit 1; done && finish_all 126 126 &&
    grep "^accelerate: host host2: .*only/meet" err.0 && on host2 umount only && all_clean host1 host2
'
launchers 'a host that is cut off: both sides have a verdict' '
    begin 2 --host_timeout 2 && hosts cut host2 && finish_all 1 1 &&
    grep "^accelerate: host host2 (machine 1, ranks 2-3): lost: no sign of life for 2 s$" err.0 &&
    grep "^accelerate: host host1 (machine 0): lost: no sign of life for 2 s$" err.1 && hosts heal host2 &&
    all_clean host1 host2 && on host1 ip neigh flush dev eth0 && on host2 ip neigh flush dev eth0
'

# ---- strangers, other keys, launchers that are not ours ----

finish_one () {
    wait_for test -s "status.$1" && test "$(cat "status.$1")" = "$2"
}
listens () {
    on host1 ss -Htln "sport = :$1" >listeners && test -s listeners
}
# joined: the launcher of machine 1 has a connection, and something has come through it from there
joined () {
    on host2 ss -Htn state established "dport >= :30500" >joins && test -s joins
}
# lonely K WORDS: the launcher of machine K runs without the others, and says why
lonely () {
    grep "^accelerate: note: this launcher has no connection .*$2" "err.$1"
}
# Which of the two notices the other's key depends on who is quicker; machine 1 has tried before machine 0 listens.
launchers 'another key: the job runs, and a note says why, also if that shows after the first note' '
    echo 0123456789abcdef >one && echo 0123456789abcdeg >two && chmod 600 one two &&
    by_hand_on 1 2 --host_timeout 1 --job_key_file two "$meet" up && wait_for lonely 1 "Connection refused" &&
    by_hand_on 0 2 --host_timeout 1 --job_key_file one "$meet" up && await up.0 up.1 up.2 up.3 &&
    wait_for lonely 0 "10.91.0.2.* another job key" && wait_for lonely 1 "10.91.0.1 has another job key" &&
    test "$(grep -c "^accelerate: note: this launcher" err.1)" -eq 2 &&
    on host2 kill -9 "$(cat up.3)" && on host1 kill -9 "$(cat up.0)" && finish_all 137 137 && all_clean host1 host2
'
launchers 'a named key that others may read, is too short or is missing is refused' '
    chmod 644 one && echo short >three && chmod 600 three &&
    for file in one three four; do
        by_hand_on 0 2 --job_key_file $file true && finish_all 1 && grep "^accelerate: --job_key_file: .*$file" err.0 || exit 1
    done
'
seldom 'no key here: the job runs, and the note names the file' '
    mv "$key" kept && by_hand_on 1 2 --host_timeout 1 sh -c "exec sleep 1000" && wait_for lonely 1 "there is no job key" &&
    mv kept "$key" && pid=$(guardian_of host2) && on host2 kill "$pid" && finish_one 1 143
'
seldom 'a launcher that does not listen on the other side: as without us' '
    by_hand_on 1 2 --host_timeout 1 sh -c "exec sleep 1000" && wait_for lonely 1 "Connection refused" &&
    pid=$(guardian_of host2) && on host2 kill "$pid" && finish_one 1 143 && all_clean host2
'
seldom 'a launcher that fails alone does not wait for others' '
    by_hand_on 1 2 sh -c "exit 3" && finish_one 1 3 && grep "exited with status 3" err.1
'
cat >stranger.py <<'END'
import os, socket, sys, time
held = []
for i in range(200):
    s = socket.create_connection(("host1", 30500))
    s.sendall([b"", b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), b"accelerate-peer\x01" + os.urandom(4096)][i % 4])
    held.append(s)
print("done", flush=True)
time.sleep(1000)
END
begin_strangers () {
    on host3 python3 stranger.py >strangers 2>&1 &
    stranger=$!
    await strangers
}
seldom 'strangers at the port neither disturb a job nor keep a launcher out' '
    by_hand_on 0 2 "$meet" up && wait_for listens 30500 && begin_strangers && grep done strangers &&
    by_hand_on 1 2 "$meet" up && await up.0 up.1 up.2 up.3 && wait_for joined && on host2 kill -9 "$(cat up.3)" &&
    finish_all 137 137 && grep "^accelerate: rank 3 .* on host2) was killed" err.0 && on host3 pkill python3 && gone "$stranger" &&
    all_clean host1 host2 host3
'
seldom 'a host that is powered off' '
    begin 2 --host_timeout 3 && hosts off host2 && wait_for test -s status.0 && test "$(cat status.0)" = 1 &&
    grep "^accelerate: host host2 (machine 1, ranks 2-3): lost: no sign of life for 3 s$" err.0 && all_clean host1
'
test_done
