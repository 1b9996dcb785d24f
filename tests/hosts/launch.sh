#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One launch starts ranks on several hosts, and their output comes to one place.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/hosts/lab"
begin_lab 3 || exit
meet=$builddir/tests/hosts/rendezvous

# launch ARGUMENT...: from host1
launch () {
    on host1 timeout -k 10 $patience "$accelerate" launch --cpu "$@"
}

cat >expected <<'END'
rank 0 of 4, local 0 of 2, on host1, machine 0 of 3: sum 6
rank 1 of 4, local 1 of 2, on host1, machine 0 of 3: sum 6
rank 2 of 4, local 0 of 1, on host2, machine 1 of 3: sum 6
rank 3 of 4, local 0 of 1, on host3, machine 2 of 3: sum 6
END
test_expect_success 'ranks on three hosts meet at MASTER_ADDR' '
    launch --hosts host1:2,host2:1,host3:1 "$meet" >out 2>err && sort out | diff expected - &&
    all_clean host1 host2 host3
'
cat >hostfile <<'END'
# a comment
host2 slots=2   # Open MPI
host3:1
END
cat >expected <<'END'
rank 0 of 3, local 0 of 2, on host2, machine 0 of 2: sum 3
rank 1 of 3, local 1 of 2, on host2, machine 0 of 2: sum 3
rank 2 of 3, local 0 of 1, on host3, machine 1 of 2: sum 3
END
test_expect_success 'a host file, from a host that is not in it' '
    launch --hostfile hostfile "$meet" >out 2>err && sort out | diff expected -
'
test_expect_success 'a host whose SSH listens at another port' '
    on host2 "$(PATH=$PATH:/usr/sbin:/sbin command -v sshd)" -f "$HOSTS_DIR/sshd_config" -h "$HOSTS_DIR/host2/key" -p 2222 &&
    echo "[host2]:2222 $(cat "$HOSTS_DIR/host2/key.pub")" >>"$HOSTS_DIR/known_hosts" &&
    launch --hosts host1,ssh://root@host2:2222:2 sh -c "echo \$RANK \$(hostname)" >out && sort out >got &&
    printf "0 host1\n1 host2\n2 host2\n" | diff - got && printf "ssh://host2:2222 slots=2\n" >ports &&
    launch --hostfile ports sh -c "hostname" >out && printf "host2\nhost2\n" | diff - out &&
    test_exit 1 launch --hosts host1,ssh://host2:2223 true 2>err &&
    grep "^accelerate: host ssh://host2:2223: cannot connect: .*port 2223" err &&
    test_exit 2 launch --mpi yes --hosts host1,ssh://host2:2222 true 2>err &&
    grep -E "^accelerate: (host ssh://host2:2222: .* cannot be given a port|--mpi yes needs mpirun)" err
'
test_expect_success '--num_processes without slots is divided evenly; the first hosts get one more' '
    launch --hosts "host[2-3]" --num_processes 3 "$meet" >out 2>err && sort out | diff expected -
'
test_expect_success 'standard output and standard error stay apart, lines stay whole' '
    launch --hosts host1,host2 sh -c "echo out \$RANK; echo err \$RANK >&2" >out 2>err &&
    printf "out 0\nout 1\n" >expected && sort out | diff expected - &&
    printf "err 0\nerr 1\n" >expected && sort err | diff expected -
'
test_expect_success 'a large output comes through whole' '
    launch --hosts host1,host2 sh -c "seq 200000" >out 2>err && test "$(wc -l <out)" -eq 400000 &&
    test "$(sort -n out | uniq | wc -l)" -eq 200000
'
# The first rank that writes ends, and the job with it.
unread () {
    { on host1 timeout $patience "$accelerate" launch --cpu "$@" 2>err; echo $? >status; } | head -n 1 >out
}
test_expect_success 'ranks notice that their output has no reader, as on one host' '
    unread --hosts host1,host2 sh -c "[ \$RANK = 0 ] && exec sleep 1000; exec yes" && [ "$(cat out)" = y ] &&
    [ "$(cat status)" = 141 ] && grep "^accelerate: rank 1 .* on host2) was killed by signal 13 (SIGPIPE)$" err &&
    unread --max_restarts 1 --hosts host2,host1 yes && [ "$(cat status)" = 141 ] && grep "restarting all ranks (1 of 1)" err &&
    all_clean host1 host2
'
test_expect_success 'a closed stream of the head is not that of a reader that has gone' '
    rm -f up.* && launch --quiet --hosts host1,host2 sh -c "echo word; sleep 1; echo word && echo >up.\$RANK" >&- &&
    await up.0 up.1
'
cat >torn.py <<'EOF'
import os, time
rank = os.environ["RANK"]
long = b"rank " + rank.encode () + b" " + b"y" * 50000 + b"\n"
text = (b"rank " + rank.encode () + b" " + b"x" * 80 + b"\n") * 1000 + long
for i in range (0, len (text), 4096):
    os.write (1, text[i:i + 4096])
    if i % 5 == 0: time.sleep (0.001)
time.sleep (1.5 * int (rank == "0"))
os.write (1, b"end " + rank.encode ())
EOF
test_expect_success 'lines stay whole, whatever their length and the buffers of the ranks' '
    launch --hosts host1:2,host2:2,host3:1 torn.py >out 2>err && [ "$(wc -l <out)" = 5009 ] &&
    [ "$(grep -cE "^rank [0-4] x{80}\$" out)" = 5000 ] && [ "$(sed "s/yyy*/Y/" out | grep -c "^rank [0-4] Y\$")" = 5 ] &&
    [ "$(grep -c "^end [0-4]\$" out)" = 5 ] &&
    launch --quiet --label yes --hosts host1,host2 echo word >out && [ "$(sort out)" = "[0] word
[1] word" ]
'
test_expect_success 'the environment and the folder go along; nothing of it is in an argument' '
    SECRET_OF_TEST=hidden && export SECRET_OF_TEST &&
    launch --hosts host1,host2 sh -c "echo \$SECRET_OF_TEST; pwd; ps -e -o args >args.\$RANK" >out 2>err &&
    printf "hidden\nhidden\n%s\n%s\n" "$PWD" "$PWD" | sort >expected && sort out | diff expected - &&
    grep -q -- --agent args.1 && ! grep -l hidden args.0 args.1
'
test_expect_success 'arguments and options arrive as they are' '
    launch --hosts host2 --mixed_precision bf16 sh -c "printf \"<%s>\" \"\$@\" \$ACCELERATE_MIXED_PRECISION" \
        x "a b" "" "\$HOME; \"quoted\"" >out 2>err &&
    printf "<a b><><\$HOME; \"quoted\"><bf16>" | diff - out
'
test_expect_success 'the status and the report are those of the rank that failed' '
    test_exit 7 launch --failure_report report.json --hosts host1,host2,host3 \
        sh -c "test \$RANK = 1 && { echo the reason >&2; exit 7; }; exec sleep 1000" >out 2>err &&
    grep "^accelerate: rank 1 (process [0-9]* on host2) exited with status 7$" err && grep "^    the reason$" err &&
    test "$(grep -c "^accelerate: " err)" -eq 1 &&
    grep "\"host\":\"host2\"" report.json && grep "\"rank\":1" report.json && all_clean host1 host2 host3
'
test_expect_success 'the report is written where a link leads to, and not where our own output goes' '
    ln -s target.json link.json && : >target.json && launch --failure_report link.json --hosts host1,host2 true &&
    test -h link.json && grep "\"world_size\":2" target.json && rm link.json && : >own.out && ln -s own.out link.json &&
    test_exit 1 launch --failure_report link.json --hosts host1,host2 true >>own.out 2>err &&
    grep "standard output goes there" err && test -h link.json
'
test_expect_success 'a program that does not exist is reported once, with the host' '
    test_exit 127 launch --hosts host1,host2 ./nothing >out 2>err && grep "^accelerate: host host[12]: .*nothing" err &&
    test "$(wc -l <err)" -eq 1
'
test_expect_success 'all hosts start again after a failure' '
    test_exit 0 launch --failure_report again.json --max_restarts 1 --hosts host1,host2 \
        sh -c "echo \$RANK.\$TORCHELASTIC_RESTART_COUNT; test \$RANK.\$TORCHELASTIC_RESTART_COUNT != 1.0" >out 2>err &&
    grep "restarting all ranks (1 of 1)" err && grep "\"restart_count\":1,\"restarts\":\[{\"attempt\":0,\"host\":\"host2\"" again.json &&
    grep "\"configuration\":{.*\"max_restarts\":{\"value\":1,\"origin\":\"flag\"" again.json && grep -x 0.1 out && grep -x 1.1 out
'
cat >takes_signal <<'END'
#!/bin/sh
trap 'echo "rank $RANK"; exit 0' USR1
echo >ready.$RANK
while :; do sleep 0.1; done
END
chmod +x takes_signal
cat >reads <<'END'
#!/bin/sh
echo "rank $RANK: $(cat | cksum)"
END
chmod +x reads
nothing="4294967295 0"
test_expect_success 'rank 0 reads the standard input of the head, whatever its host, to its end' '
    seq 300000 >numbers && cksum <numbers >sum && sums="rank 0: $(cat sum)
rank 1: $nothing" && { cat numbers; sleep 0.3; } | launch --hosts host2,host1 ./reads >out &&
    [ "$(sort out)" = "$sums" ] && launch --hosts host2,host1 ./reads <numbers >out && [ "$(sort out)" = "$sums" ] &&
    launch --hosts host1,host2 ./reads </dev/null >out && [ "$(grep -c ": $nothing" out)" = 2 ] &&
    launch --hosts host1,host2 --stdin none ./reads <numbers >out && [ "$(grep -c ": $nothing" out)" = 2 ]
'
cat >reads_one <<'END'
#!/bin/sh
[ $RANK.$TORCHELASTIC_RESTART_COUNT = 1.0 ] && exec sleep 1000
[ $RANK = 1 ] && exit 0
[ $TORCHELASTIC_RESTART_COUNT = 0 ] || echo >again
read word
echo $word
[ $word = two ]
END
chmod +x reads_one
test_expect_success 'input that no rank reads holds nothing up, and ranks that start again get the rest' '
    seq 300000 >numbers && launch --hosts host2,host1 true <numbers &&
    { echo one && await again && echo two; echo $? >status; } | launch --max_restarts 1 --hosts host2,host1 ./reads_one >out 2>err &&
    [ "$(cat status)" = 0 ] && [ "$(cat out)" = "one
two" ]
'
cat >background.py <<'END'
import os, pty, signal, sys, time
# A job in the background of a terminal, whose user has typed something: it must not be stopped, nor take that, until it
# comes to the foreground.
pid, screen = pty.fork ()
if pid == 0:
    signal.signal (signal.SIGTTOU, signal.SIG_IGN)
    job = os.fork ()
    if job == 0:
        os.setpgid (0, 0)
        signal.signal (signal.SIGTTOU, signal.SIG_DFL)
        os.execvp (sys.argv[1], sys.argv[1:])
    try: os.setpgid (job, job)
    except PermissionError: pass # it has done so, and is the other program already
    while not os.path.exists ("waits") or os.waitpid (job, os.WUNTRACED | os.WNOHANG)[0]: time.sleep (0.05)
    time.sleep (0.3)
    os.tcsetpgrp (0, job)
    os.kill (job, signal.SIGCONT)
    status = os.waitpid (job, os.WUNTRACED)[1]
    os._exit (98 if os.WIFSTOPPED (status) else os.WEXITSTATUS (status))
os.write (screen, b"typed\n")
try:
    while os.read (screen, 4096): pass
except OSError: pass
sys.exit (os.waitstatus_to_exitcode (os.waitpid (pid, 0)[1]))
END
test_expect_success 'a job in the background does not read from the terminal, and does in the foreground' '
    test_exit 5 on host1 timeout $patience python3 background.py "$accelerate" launch --cpu --hosts host1,host2 \
        sh -c "[ \$RANK = 0 ] || exec sleep 1000; echo >waits; read word; [ \$word = typed ] && exit 5"
'
test_expect_success 'a signal reaches the ranks of all hosts, also where the head is' '
    { on host1 "$accelerate" launch --cpu --hosts host1,host2 ./takes_signal >out & } && head=$! &&
    await ready.0 ready.1 && on host1 pkill -USR1 -f "^$accelerate launch" && finish 0 &&
    printf "rank 0\nrank 1\n" >wanted && sort out | diff wanted - && all_clean host1 host2
'
# As in a batch script that would outlive the SIGTERM of its scheduler.
printf '#!/bin/sh\ntrap "" TERM\nexec "$@"\n' >ignoring && chmod +x ignoring
test_expect_success 'where SIGTERM is ignored, the ranks next to the head end with those of other hosts, too' '
    test_exit 3 on host1 timeout -s KILL 50 ./ignoring "$accelerate" launch --cpu --grace 100 --hosts host1,host2 \
        sh -c "test \$RANK = 0 || exit 3; exec sleep 1000" >out 2>err &&
    grep "^accelerate: rank 1 (process [0-9]* on host2) exited with status 3$" err && all_clean host1 host2
'
# The end of a host and the signal that is to end it then pass each other.
test_expect_success 'all hosts start again after failures at the same time' '
    test_exit 0 launch --max_restarts 3 --hosts host1,host2,host3 \
        sh -c "test \$TORCHELASTIC_RESTART_COUNT = 3" >out 2>err &&
    grep "restarting all ranks (3 of 3)" err && all_clean host1 host2 host3
'
test_expect_success 'a host that does not exist' '
    test_exit 1 launch --failure_report unreached.json --hosts host1,host9 true 2>err &&
    grep "^accelerate: host host9: cannot connect: .*host9" err && grep "host9: cannot connect" unreached.json &&
    grep "\"host\":\"host9\"" unreached.json &&
    all_clean host1
'
# The thread sanitizer does not know the threads of getaddrinfo_a(), and crashes in them.
is_thread_sanitized || test_expect_success 'a name server that does not answer is not waited for' '
    echo "nameserver 10.91.0.99" >resolv.conf && test -e /etc/resolv.conf &&
    on host2 mount --bind "$PWD/resolv.conf" /etc/resolv.conf &&
    test_exit 1 launch --host_timeout 4 --main_process_ip no.such.name --hosts host1,host2 true 2>err &&
    grep "^accelerate: host host2 cannot reach host host1 on port .* at no.such.name; " err &&
    on host2 umount /etc/resolv.conf
'
test_expect_success 'a host with another key is refused' '
    sed "s/^/host2 /" "$HOSTS_DIR/key.pub" >other_keys && mkdir bin &&
    printf "#!/bin/sh\nexec %s -o UserKnownHostsFile=%s \"\$@\"\n" "$(command -v ssh)" "$PWD/other_keys" >bin/ssh &&
    chmod +x bin/ssh &&
    test_exit 1 on host1 env PATH="$PWD/bin:$PATH" setsid -w "$accelerate" launch --cpu --hosts host2 true 2>err &&
    grep "host host2: cannot connect: .*verification failed" err
'
test_expect_success '--dry_run says what would start where, and starts nothing' '
    launch --dry_run --hosts "host1:2,host[2-3]:1" true >out && grep "ranks 0-1" out && grep "rank 3" out &&
    grep "started by ssh .*-- host3 " out && launch --dry_run --json --hosts host1:2,host2:1 true >out.json &&
    grep "\"world_size\": 3" out.json
'
test_expect_success 'inside an allocation its hosts are used' '
    on host1 env SLURM_JOB_NODELIST="host[1-2]" SLURM_TASKS_PER_NODE="2,1" \
        "$accelerate" launch --cpu "$meet" >out 2>err &&
    test "$(wc -l <out)" -eq 3 && grep "on host2, machine 1 of 2" out
'
cat >wide <<'END'
#!/bin/sh
exec 3>&1
trap 'size=$(stty size 0<&3); [ "$size" = "24 76" ] || { echo "rank $RANK: now $size"; exit 0; }' WINCH
echo "rank $RANK waits"
while :; do sleep 0.05; done
END
chmod +x wide
test_expect_success 'a new size of the terminal reaches the ranks of all hosts' '
    on host1 timeout $patience python3 "$srcdir/tests/cli/on_terminal.py" --resize 50 "waits(.|\n)*waits" \
        "$accelerate" launch --cpu --hosts host1,host2 ./wide >out && [ "$(grep -c "now 24 46" out)" = 2 ]
'
test_expect_success 'ranks are named on a terminal' '
    on host1 script -qec "$accelerate launch --cpu --hosts host1,host2 $meet" /dev/null >out &&
    grep "^.*\[1\].*rank 1 of 2" out
'
test_done
