#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How jobs end: which process gets which signal, the messages, and the report file, whichever process is killed.
. "${srcdir:-.}/tests/testlib.sh"
two="--cpu --num_processes 2"

is_reaped () { ! kill -0 "$1" 2>/dev/null; }
# Whether a process waits for something, as it does in front of a pipe that takes nothing.
is_asleep () { grep -q "^[0-9]* ([^)]*) S" "/proc/$1/stat"; }
# program NAME: from stdin, with functions for all
program () {
    { echo '#!/bin/sh'
      echo 'await () { i=0; while ! [ -s "$1" ] && [ $i -lt '$((patience * 20))' ]; do sleep 0.05; i=$((i + 1)); done; }'
      cat
    } >"$1"
    chmod +x "$1"
}

program stopped <<'EOF'
[ $RANK = 1 ] && await stopped0 && exit 5
trap 'echo >ended; exit' TERM
echo $$ >stopped0
kill -STOP $$
sleep 300
EOF
test_expect_success 'a stopped rank is continued, so that it can end in peace' '
    test_exit 5 "$accelerate" launch --grace 60 $two ./stopped && [ -e ended ]'

program sleeps <<'EOF'
echo $$ >asleep.$RANK
exec sleep 300
EOF
program unwilling <<'EOF'
trap 'echo 1 >told.$RANK; await may_end; exit' TERM
echo $$ >asleep.$RANK
while :; do sleep 0.05; done
EOF
# start PROGRAM OPTION...: the numbers of its launcher's processes are in $launcher and $supervisor
start () {
    ranks=$1 && shift
    rm -f asleep.*
    "$accelerate" launch "$@" $two "$ranks" 2>err &
    launcher=$!
    await asleep.0 asleep.1 && supervisor=$(pgrep -P $launcher)
}
start_and_stop () { start ./sleeps "$@" && kill -STOP "$supervisor"; }
if command -v pgrep >/dev/null; then
    test_expect_success 'a supervisor that is stopped does not hold the launcher for ever' '
        start_and_stop --host_timeout 1 && gone $launcher && { wait $launcher; test $? = 1; } &&
        grep "^accelerate: the process that supervises the ranks was stopped for 1 s, as by SIGSTOP, and was killed$" err &&
        gone "$(cat asleep.0)" "$(cat asleep.1)" "$supervisor"'
    test_expect_success 'nor a signal that ends the job' '
        start_and_stop --host_timeout 3600 && kill -TERM $launcher && gone $launcher && { wait $launcher; test $? = 143; } &&
        gone "$(cat asleep.0)" "$(cat asleep.1)" "$supervisor"'
    test_expect_success 'nor a stop that comes after the signal' '
        start ./unwilling --grace 3600 --host_timeout 3600 && kill -TERM $launcher && await told.0 told.1 &&
        kill -STOP "$supervisor" && sleep 0.5 && echo 1 >may_end && gone $launcher && { wait $launcher; test $? = 143; } &&
        gone "$supervisor"'
    test_expect_success 'if it is continued in time, nothing happens' '
        start_and_stop --host_timeout 3600 && kill -CONT "$supervisor" && kill -9 "$(cat asleep.1)" &&
        gone $launcher && { wait $launcher; test $? = 137; } && grep "rank 1 (process $(cat asleep.1) on" err'
    test_expect_success 'however many signals come meanwhile' '
        start_and_stop --host_timeout 30 && n=0 &&
        while [ $((n += 1)) -le 150 ]; do kill -WINCH $launcher && sleep 0.01 || return 1; done &&
        kill -CONT "$supervisor" && kill -9 "$(cat asleep.1)" && gone $launcher && { wait $launcher; test $? = 137; } &&
        ! grep "was stopped for" err'
else
    test_skip 'a supervisor that is stopped' 'needs pgrep'
fi

# The kernel closes what a process has open before its end can be seen; here it has 384 MiB to free in between.
cat >cause.py <<'EOF'
import os, signal, sys
def large ():
    fd = os.memfd_create("large")
    for _ in range(192):
        os.write(fd, bytes(1 << 20))
if os.environ["RANK"] == "0":
    large()
    fd = os.open("gone", os.O_WRONLY)
    large()
    os.kill(os.getpid(), signal.SIGBUS)
with open("gone", "rb") as file:
    file.read()
os._exit(4)
EOF
mkfifo gone || exit 1
if command -v python3 >/dev/null; then
    test_expect_success 'a rank that is killed is blamed, not the one that notices it first' '
        (ulimit -c 0 && test_exit 135 "$accelerate" launch $two cause.py) 2>err && grep "rank 0 .*SIGBUS" err'
else
    test_skip 'a rank that is killed is blamed, not the one that notices it first' 'needs python3'
fi

cat >joins.py <<'EOF'
import os, signal, time
if os.environ["RANK"] == "0":
    while not os.path.exists("joined"):
        time.sleep(0.05)
    os._exit(5)
os.setpgid(0, os.getppid())
signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
open("joined", "w").close()
time.sleep(300)
EOF
if command -v python3 >/dev/null; then
    test_expect_success 'a rank that has joined another process group gets the signal' '
        test_exit 5 timeout $patience "$accelerate" launch --grace 60 $two joins.py 2>err && ! grep "had to be killed" err'
else
    test_skip 'a rank that has joined another process group gets the signal' 'needs python3'
fi

program group <<'EOF'
[ $RANK = 1 ] && await child && exit 5
(trap 'echo >told; exit' TERM; echo 1 >child; while :; do sleep 0.05; done) &
trap 'wait; exit 0' TERM
wait
EOF
test_expect_success 'children of a rank get the signal too' '
    test_exit 5 "$accelerate" launch --grace 60 $two ./group 2>err && [ -e told ] && ! grep "had to be killed" err'

program leaves <<'EOF'
cat >daemon <<END
#!/bin/sh
trap 'echo >asked.\$1; exit' TERM
[ \$1 = 2 ] || setsid ./daemon 2 &
echo 1 >up.\$1
while :; do sleep 0.05; done
END
chmod +x daemon
setsid ./daemon 1 &
await up.1
await up.2
EOF
test_expect_success 'what a rank leaves behind is asked to end, with its own children' '
    test_exit 0 "$accelerate" launch ./leaves && [ -e asked.1 ] && [ -e asked.2 ]'

# The daemon has the guardian killed when it is asked to end; it would have two seconds.
program deaf <<'EOF'
setsid sh -c 'trap "kill -9 $(cut -d\  -f4 /proc/$PPID/stat); sleep 1.7; echo >lived" TERM
    echo 1 >up; while :; do sleep 0.05; done' daemon &
sed -i s/PPID/$PPID/ /dev/null
await up
exit 6
EOF
sed -i "s|setsid sh -c|guardian=\$(cut -d' ' -f4 /proc/\$PPID/stat)\nsetsid sh -c|; s|kill -9 \$(cut[^)]*)|kill -9 '\$guardian'|; /^sed/d" deaf
test_expect_success 'while it is asked the launcher is killed: it ends at once, and no attempt follows' '
    rm -f up && test_exit 137 "$builddir/tests/fault/drive" -- "$accelerate" launch --max_restarts 3 --tee 1 --log_dir logs ./deaf &&
    ls -d logs/*/attempt_0 && ! ls -d logs/*/attempt_1 && sleep 0.5 && ! [ -e lived ]'

# The two processes of the launcher can do nothing more, because they are stopped first.
program both <<'EOF'
echo $$ >pid$RANK
[ $RANK = 0 ] || exec sleep 300
await pid1
guardian=$(cut -d' ' -f4 /proc/$PPID/stat)
kill -STOP $guardian $PPID
kill -KILL $guardian $PPID
exec sleep 300
EOF
test_expect_success 'both processes of the launcher are killed at once: no rank lives on' '
    test_exit 137 "$accelerate" launch $two ./both 2>err && gone $(cat pid0 pid1)'

program twice <<'EOF'
trap '' TERM
trap 'sleep 0.6; echo >ended$RANK; exit 0' HUP
echo 1 >up$RANK
while :; do sleep 0.05; done
EOF
test_expect_success 'two signals at the same time are one' '
    rm -f up* && { "$accelerate" launch $two ./twice 2>err & } && launcher=$! &&
    await up0 up1 && kill -HUP $launcher && kill -TERM $launcher && test_exit 129 wait $launcher &&
    [ -e ended0 ] && [ -e ended1 ] && ! grep killed err'

program interrupted <<'EOF'
guardian=$(cut -d' ' -f4 /proc/$PPID/stat)
setsid python3 -c "
import ctypes, os, signal, time
signal.signal (signal.SIGTERM, signal.SIG_IGN)
rank, supervisor = $$, $PPID
open ('up', 'w').write ('1')
while os.getppid () == rank: time.sleep (0.001)
time.sleep (0.05)
ctypes.CDLL (None).sigqueue (supervisor, signal.SIGINT, ctypes.c_void_p (1))
" &
await up
kill -INT $$
EOF
test_expect_success 'what the terminal sends may be seen after the rank has died of it' '
    for try in $(seq 30); do
        rm -f up && test_exit 130 "$accelerate" launch ./interrupted 2>err || return 1
        if grep "ended by SIGINT" err; then break; fi
    done && grep "ended by SIGINT" err'

test_expect_success 'SIGABRT is passed on like others, and told' '
    rm -f up* ended* && sed s/HUP/ABRT/ twice >abort && chmod +x abort &&
    { "$accelerate" launch $two ./abort 2>err & } && launcher=$! &&
    await up0 up1 && kill -ABRT $launcher && test_exit 134 wait $launcher && grep "ended by SIGABRT" err &&
    [ -e ended0 ] && [ -e ended1 ]'
test_expect_success 'the signal that has killed the launcher is reported, or nothing is' '
    printf "#!/bin/sh\necho \$PPID >supervisor\nsleep 300\n" >rank && chmod +x rank && rm -f supervisor &&
    { (ulimit -c 0 && ASAN_OPTIONS=handle_segv=0 TSAN_OPTIONS=handle_segv=0 exec "$accelerate" launch ./rank) 2>err & } && launcher=$! &&
    await supervisor && kill -SEGV $launcher && test_exit 139 wait $launcher && gone $(cat supervisor) &&
    grep -e "ended by SIGSEGV" -e "the launcher was killed" err'

for pair in "64 24" "48 12"; do
    test_expect_success "ranks get the limit of descriptors that was given: ${pair% *}" '
        (ulimit -Sn ${pair% *} && "$accelerate" launch --cpu --num_processes ${pair#* } --tee 1 --log_dir /dev/null sh -c "ulimit -Sn") >got &&
        [ "$(grep -c ":${pair% *}$" got)" = ${pair#* } ]'
done
test_expect_success 'ranks start where the hard limit of descriptors is below what they might need' '
    (ulimit -Sn 48 && ulimit -Hn 100 && "$accelerate" launch --cpu --num_processes 24 sh -c "ulimit -Sn") >got &&
    [ "$(grep -cx 48 got)" = 24 ]'
test_expect_success 'descriptors do not gather over restarts' '
    test_exit 1 "$accelerate" launch $two --tee 3 --log_dir kept --max_restarts 5 sh -c "
        [ \$RANK = 0 ] && sleep 300; ls /proc/\$PPID/fd | wc -l >>counts; exit 1" 2>err &&
    [ "$(wc -l <counts)" = 6 ] && sort -n counts | sed -n "1p; \$p" >range && { read -r least && read -r most; } <range &&
    [ $((most - least)) -lt 4 ]'

if env --ignore-signal=HUP true 2>/dev/null; then
    test_expect_success 'what the caller ignores stays ignored, but for the ends of children' '
        rm -f up0 go && printf "#!/bin/sh\\necho >up0\\nuntil [ -e go ]; do sleep 0.05; done\\nexit 7\\n" >ignores && chmod +x ignores &&
        { env --ignore-signal=HUP --ignore-signal=CHLD "$accelerate" launch ./ignores 2>err & } && launcher=$! &&
        await up0 && kill -HUP $launcher && sleep 0.3 && : >go && test_exit 7 wait $launcher'
else
    test_skip 'what the caller ignores stays ignored, but for the ends of children' 'env does not know --ignore-signal'
fi

# valid EXPRESSION: the report r.json is one, and the expression is true of it
valid () {
    python3 -c "
import json
r = json.load (open ('r.json'))
assert $1"
}
test_expect_success 'a report of a program that cannot be started' '
    head -c 64 /bin/true >cannot && chmod +x cannot && echo old >r.json &&
    test_exit 126 "$accelerate" launch --quiet --failure_report r.json $two ./cannot 2>err && [ "$(wc -l <err)" = 1 ] &&
    valid "r[\"exit_status\"] == 126 and \"cannot start rank 0\" in r[\"error\"] and r[\"failure\"] is None"'
test_expect_success 'the report of a refused launch has the reason, and replaces an earlier one' '
    rm -f r.json && test_exit 127 "$accelerate" launch --failure_report r.json $two --no_python ./nothing 2>err &&
    valid "r[\"exit_status\"] == 127 and \"nothing\" in r[\"error\"] and r[\"program\"] == \"./nothing\"" &&
    for words in "--failure_report r.json --num_processes x true" "--num_processes x --failure_report=r.json true" \
        "--no_such --failure_report r.json true" "--failure_report r.json" "--hosts a, --failure_report r.json true"; do
        "$accelerate" launch --failure_report r.json true && grep "\"exit_status\":0,.*\"error\":null" r.json &&
            test_exit 2 "$accelerate" launch $words 2>err && echo "$words" && cat r.json &&
            valid "r[\"exit_status\"] == 2 and r[\"error\"] in open (\"err\").read ()" || return 1
    done'
test_expect_success 'one that is named by mistake, or for a dry run, is not touched' '
    echo "print ()" >r.json && test_exit 2 "$accelerate" launch --failure_report r.json 2>err && grep -x "print ()" r.json &&
    test_exit 127 "$accelerate" launch --failure_report r.json ./nothing 2>err && grep -x "print ()" r.json &&
    test_exit 2 "$accelerate" launch --no_such program --failure_report r.json 2>err && grep -x "print ()" r.json &&
    "$accelerate" launch --failure_report r.json true && cp r.json before &&
    "$accelerate" launch --dry_run --failure_report r.json true >plan && cmp r.json before &&
    test_exit 2 "$accelerate" launch --no_such --failure_report r.json --dry_run true 2>err && cmp r.json before'
test_expect_success 'restarts are counted, and each has its cause' '
    test_exit 0 "$accelerate" launch --quiet --max_restarts 3 --failure_report r.json $two \
        sh -c "[ \$TORCHELASTIC_RESTART_COUNT = 2 ] || { [ \$RANK = 0 ] && exec sleep 300; echo why \$TORCHELASTIC_RESTART_COUNT >&2; exit 7; }" 2>err &&
    valid "r[\"exit_status\"] == 0 and r[\"failure\"] is None and r[\"restart_count\"] == 2 and [
        (a[\"attempt\"], a[\"exit_status\"], a[\"failure\"][\"rank\"], a[\"failure\"][\"stderr\"], a[\"error\"]) for a in r[\"restarts\"]
    ] == [(0, 7, 1, [\"why 0\"], None), (1, 7, 1, [\"why 1\"], None)]" &&
    test_exit 7 "$accelerate" launch --quiet --max_restarts 1 --failure_report r.json $two sh -c "exit 7" &&
    valid "r[\"restart_count\"] == 1 and len (r[\"restarts\"]) == 1 and r[\"failure\"][\"exit_code\"] == 7"'
test_expect_success 'a report where the supervisor was killed; before that there is none, not even an old one' '
    echo old >r.json &&
    test_exit 137 "$accelerate" launch --failure_report r.json $two sh -c "[ -e r.json ] && echo >was; [ \$RANK = 0 ] && kill -9 \$PPID; sleep 300" 2>err &&
    ! [ -e was ] && valid "r[\"exit_status\"] == 137 and \"supervises the ranks was killed\" in r[\"error\"]"'
# A pipe, open as 9, that takes nothing more.
stuff () {
    rm -f stuffed && mkfifo stuffed && exec 9<>stuffed && python3 -c "
import os
os.set_blocking (9, False)
for size in 4096, 1:
    try:
        while os.write (9, b'x' * size): pass
    except BlockingIOError: pass
os.set_blocking (9, True)"
}
test_expect_success 'the message about a killed supervisor blocks no process for ever if it has no reader' '
    stuff && printf "#!/bin/sh\necho \$PPID >supervisor\nsleep 300\n" >rank && chmod +x rank && rm -f supervisor r.json &&
    { "$accelerate" launch --failure_report r.json ./rank 2>stuffed 9>&- & } && launcher=$! &&
    await supervisor && kill -KILL $(cat supervisor) && await r.json && wait_for is_asleep $launcher &&
    kill -TERM $launcher && gone $launcher && test_exit 137 wait $launcher'
test_expect_success 'nor the good news of a self-test' '
    stuff && printf "#!/bin/sh\necho \$PPID >tested\n" >selftest && chmod +x selftest && rm -f tested &&
    { ACCELERATE_SELFTEST=$PWD/selftest "$accelerate" test --cpu >stuffed 9>&- & } && tester=$! && await tested &&
    wait_for is_reaped $(cat tested) && wait_for is_asleep $tester &&
    kill -TERM $tester && gone $tester && test_exit 143 wait $tester'
test_expect_success 'what the supervisor has reported before it was killed stays' '
    test_exit 137 "$accelerate" launch --failure_report r.json sh -c "echo its report >r.json; kill -9 \$PPID; sleep 300" 2>err &&
    grep -x "its report" r.json'
test_expect_success 'a report where the guardian was killed' '
    test_exit 137 "$accelerate" launch --failure_report r.json sh -c "echo \$PPID >sup; kill -9 \$(cut -d\  -f4 /proc/\$PPID/stat); sleep 300" 2>err &&
    gone $(cat sup) && valid "r[\"signal\"] in (9, None) and r[\"failure\"] is None"'
for status in 0 7; do
    test_expect_success "a report that cannot be written at the end, status $status" '
        mkdir -p dir && test_exit $((status ? status : 1)) "$accelerate" launch --quiet --failure_report dir/r.json sh -c "rmdir dir; exit $status" 2>err &&
        [ "$(wc -l <err)" = 1 ] && grep "^accelerate: .*dir/r.json: cannot create a temporary file in its directory" err'
done
test_expect_success 'a report that is a directory, or in one without write permission, is refused before the start' '
    mkdir -p dir shut && chmod 555 shut && cp "$accelerate" acc && chmod 755 acc . &&
    test_exit 1 "$accelerate" launch --failure_report dir touch started 2>err && grep "failure_report: .*dir: is a directory" err &&
    test_exit 1 as_nobody ./acc launch --failure_report shut/r touch started 2>err && grep "failure_report: shut/r: cannot create" err &&
    ! [ -e started ] && ! ls dir/* shut/* 2>/dev/null'
test_expect_success 'an error file that is a link is not followed' '
    echo "{\"message\": \"a secret of others\"}" >secret &&
    test_exit 3 "$accelerate" launch $two --log_dir logs sh -c "ln -s $PWD/secret \$TORCHELASTIC_ERROR_FILE; exit 3" 2>err &&
    ! grep secret err'

# Without /proc: no list of processes.
program bare <<'EOF'
setsid sh -c "setsid sleep 9991$1 & trap '' TERM; sleep 9992$1; sleep 9993$1" &
sleep 0.3
EOF
if ! is_sanitized && unshare -m sh -c 'mount -t tmpfs none /proc' 2>/dev/null; then
    test_expect_success 'what ranks leave behind is found without /proc too' '
        unshare -m sh -c "mount -t tmpfs none /proc && exec \"\$@\"" sh "$accelerate" launch $two ./bare $$ &&
        ! grep -a -l "sleep.999[123]$$" /proc/[0-9]*/cmdline 2>/dev/null'
else
    test_skip 'what ranks leave behind is found without /proc too' 'no mount namespaces, or a sanitizer, which needs /proc'
fi
test_done
