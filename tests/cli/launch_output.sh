#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The launcher neither loses nor hoards the output of ranks: slow readers, stopped readers, long lines.
. "${srcdir:-.}/tests/testlib.sh"
two="--cpu --num_processes 2"

is_reaped () { ! kill -0 "$1" 2>/dev/null; }
# Whether the supervisor is in a system call, epoll_wait() or epoll_pwait(), that has no time limit.
waits_without_limit () {
    read -r call a b c limit rest <"/proc/$(cat supervisor)/syscall" || return 1
    case $limit in 0xffffffff | 0xffffffffffffffff) ;; *) false ;; esac
}
# A stalled reader: a test opens the pipe as 9 and does not read.
mkfifo still

cat >much <<'EOF'
#!/bin/sh
[ $RANK = 1 ] || echo $PPID >supervisor
yes "$RANK 12345678901234567890123456789012345678901234567" | head -n 10000
echo $$ >"done$RANK"
EOF
cat >slow.py <<'EOF'
import sys
lines = bytes = 0
for line in sys.stdin:
    lines += 1
    bytes += len (line)
    for i in range (20): pass
print (lines, bytes)
EOF
cat >flood <<'EOF'
#!/bin/sh
yes 123456789012345678901234567890123456789012345678901234567890123456789012345 | head -n 260000 >&2
[ $RANK = 1 ] || sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' /proc/$PPID/status >peak
EOF
chmod +x much flood
if is_sanitized; then
    test_skip 'memory stays small where the reader is slow' 'sanitizers need memory themselves'
else
    test_expect_success 'memory stays small where the reader is slow' '
        { "$accelerate" launch --quiet $two ./flood 2>&1; echo $? >status; } | python3 slow.py >got &&
        [ "$(cat status)" = 0 ] && [ "$(cat got)" = "520000 39520000" ] && [ "$(cat peak)" -lt 16384 ]'
    test_expect_success 'nothing is lost where there is little memory' '
        { (ulimit -v 20000 && exec "$accelerate" launch --quiet $two ./flood 2>&1); echo $? >status; } |
        python3 slow.py >got && [ "$(cat got)" = "520000 39520000" ] && [ "$(cat status)" = 0 ]'
fi

cat >longer.py <<'EOF'
import os, sys, time
half = int (sys.argv[1]) // 2
def wait (name):
    for i in range (600):
        if os.path.exists (name): return
        time.sleep (0.05)
if os.environ["RANK"] == "0":
    print ("a" * half, end = "", flush = True)
    open ("half", "w")
    wait ("said")
    print ("b" * half)
else:
    wait ("half")
    print ("word", flush = True)
    time.sleep (0.2)
    open ("said", "w")
EOF
# A busy machine may pause the rank for longer than an unfinished line is waited for, so there are many tries.
stays_whole () {
    for try in $(seq 60); do
        rm -f half said && "$accelerate" launch --quiet $two --tee 1 --log_dir /dev/null longer.py 1000000 >got &&
        sed "s/aaa*/A/; s/bbb*/B/" got | tr "\n" , >short && cat short && [ "$(wc -c <got)" = 1000028 ] || return 1
        [ "$(cat short)" != "[default1]:word,[default0]:AB," ] || return 0
    done
    return 1
}
test_expect_success 'a line of a million bytes stays whole, though another rank writes in the middle of it' 'stays_whole'
test_expect_success 'a longer one is cut at a marked place there, and nothing is missing' '
    rm -f half said && "$accelerate" launch --quiet $two --tee 1 --log_dir /dev/null longer.py 3000000 >got &&
    [ "$(sed "s/aaa*/A/; s/bbb*/B/" got | tr "\n" ,)" = \
      "[default0]:A [accelerate: long line, continued below],[default1]:word,[default0]:B," ] &&
    [ "$(sed "s/^.default[01].://; s/ .accelerate.*//; s/word//" got | tr -cd ab | wc -c)" = 3000000 ]'

# Buffers of 4096 bytes end in the middle of lines, and ranks write them in turns.
cat >torn.py <<'EOF'
import os, sys, time
rank = os.environ["RANK"]
line = f"rank {rank} ".encode () + b"x" * 80 + b"\n"
left = line * 2000
open ("up" + rank, "w")
while not (os.path.exists ("up0") and os.path.exists ("up1")): time.sleep (0.01)
for i in range (0, len (left), 4096):
    os.write (1, left[i:i + 4096])
    if i % 5 == 0: time.sleep (0.001)
EOF
# all_whole FILE PATTERN: 4000 lines of two ranks
all_whole () {
    [ "$(grep -cE "$2" "$1")" = 4000 ] && [ "$(wc -l <"$1")" = 4000 ]
}
test_expect_success 'lines stay whole in a file, a pipe, and one for both streams' '
    rm -f up? && "$accelerate" launch --quiet $two torn.py >got && all_whole got "^rank [01] x{80}\$" && rm up? &&
    { "$accelerate" launch --quiet $two torn.py; echo $? >status; } | cat >got && [ "$(cat status)" = 0 ] &&
    all_whole got "^rank [01] x{80}\$" && rm up? &&
    "$accelerate" launch --quiet $two torn.py >got 2>&1 && all_whole got "^rank [01] x{80}\$"'
test_expect_success '--label yes: each line bears its rank, without a terminal too, and for one rank' '
    rm -f up? && "$accelerate" launch --quiet --label yes $two torn.py >got && all_whole got "^\[[01]\] rank [01] x{80}\$" &&
    ! grep -E "^\[0\] rank 1|^\[1\] rank 0" got &&
    "$accelerate" launch --quiet --label yes --cpu --num_processes 1 sh -c "echo out; echo err >&2" >got 2>err &&
    [ "$(cat got err)" = "[0] out
[0] err" ]'
test_expect_success 'bytes of one rank pass unchanged, and those of two, whatever they are' '
    head -c 300000 /dev/urandom >random && "$accelerate" launch --quiet --cpu --num_processes 1 cat random >got && cmp random got &&
    "$accelerate" launch --quiet $two sh -c "[ \$RANK = 1 ] || cat random" >got && cmp random got'
test_expect_success 'a rank notices that its output has no reader' '
    { timeout $patience "$accelerate" launch $two sh -c "[ \$RANK = 1 ] && exec sleep 1000; exec yes" 2>err; echo $? >status; } |
        head -n 1 >got && [ "$(cat got)" = y ] && [ "$(cat status)" = 141 ] && grep "rank 0 .* was killed by signal 13" err'
test_expect_success 'rank 0 reads standard input, or none does' '
    seq 50000 >numbers && "$accelerate" launch --quiet --label yes $two sh -c "cat; echo end" <numbers >got &&
    [ "$(grep -c "^\[0\] [0-9]*\$" got)" = 50000 ] && [ "$(grep "^\[1\]" got)" = "[1] end" ] &&
    "$accelerate" launch --quiet --stdin none $two sh -c "cat; echo \$RANK" <numbers >got && [ "$(sort got)" = "0
1" ]'
test_expect_success 'closed streams of the launcher are not those of a reader that has gone' '
    "$accelerate" launch --quiet $two sh -c "echo word; echo word >&2; echo >ran\$RANK" >&- 2>&- && [ -e ran0 ] && [ -e ran1 ]'

# stand_still OPTION...: all ranks are gone, their lines are in files and on their way, and the launcher waits
stand_still () {
    exec 9<>still
    rm -rf done? supervisor logs err
    "$accelerate" launch $two --tee 1 --log_dir logs "$@" ./much >still 2>err 9>&- &
    launcher=$!
    await supervisor done0 done1 && wait_for is_reaped "$(cat done0)" && wait_for is_reaped "$(cat done1)" &&
        wait_for waits_without_limit
}
# drain FILE: what is in the pipe, and what still comes
drain () {
    exec 8<still 9>&-
    timeout $patience cat <&8 >"$1" || return 1
    exec 8<&-
}
all=$((2 * 10000 * 61))
test_expect_success 'a reader that stands still is waited for without a limit, and gets everything' '
    stand_still && drain got && wc got && [ "$(wc -c <got)" = $all ] && wait $launcher'
test_expect_success 'a signal ends the wait, and the number of missing bytes is reported' '
    stand_still && kill -TERM $launcher && test_exit 143 wait $launcher && cat err && drain got &&
    left=$(sed -n "s/^accelerate: \([0-9]*\) bytes of the ranks. output were not passed on.*/\1/p" err) &&
    grep "ended by SIGTERM" err && echo "$left" && wc -c got && [ "$left" -gt 0 ] && [ -s got ] &&
    [ $((left + $(wc -c <got))) -ge $((2 * 10000 * 50)) ] && [ $((left + $(wc -c <got))) -le $all ]'
# What it leaves behind survives SIGTERM, so the launcher is asking it to end while the test sends the signal.
cat >leaves <<'EOF'
#!/bin/sh
[ $RANK = 1 ] || setsid sh -c 'trap "echo >asked" TERM; echo >up; while :; do sleep 0.05; done' >/dev/null 2>&1 &
until [ -e up ]; do sleep 0.05; done # or it may be asked before it listens
exec ./much
EOF
chmod +x leaves
test_expect_success 'the same where the signal comes while leftovers are ended' '
    rm -rf done? asked up logs && exec 9<>still &&
    { "$accelerate" launch $two --tee 1 --log_dir logs ./leaves >still 2>err 9>&- & } && launcher=$! &&
    await done0 done1 asked && kill -TERM $launcher && test_exit 143 wait $launcher && cat err && drain got &&
    grep "bytes of the ranks. output were not passed on" err'
test_expect_success '--quiet does not hide it' '
    stand_still --quiet && kill -TERM $launcher && test_exit 143 wait $launcher && cat err && drain got &&
    [ "$(wc -l <err)" = 1 ] && grep "bytes of the ranks. output were not passed on" err'
test_expect_success 'a launcher that is killed leaves no process that waits for the reader' '
    stand_still && kill -KILL $launcher && gone "$(cat supervisor)" && drain got'
test_expect_success 'nor one whose report cannot be written' '
    printf "#!/bin/sh\n[ \$RANK = 0 ] || exit 0\nyes | head -c 60000 >&2\necho \$PPID >supervisor\nyes | head -c 9000 >&2\nexit 3\n" >fails &&
    exec 9<>still && chmod +x fails && rm -f supervisor && { "$accelerate" launch $two ./fails >still 2>&1 9>&- & } && launcher=$! &&
    await supervisor && sleep 0.5 && kill -KILL $launcher && gone "$(cat supervisor)" && drain got'
if [ -c /dev/full ]; then
    test_expect_success 'output that cannot be written is reported, and the launch fails' '
        test_exit 1 "$accelerate" launch --quiet $two --tee 1 --log_dir /dev/null echo some words >/dev/full 2>err && cat err &&
        grep -x "accelerate: standard output: No space left on device: 44 bytes of the ranks. output were lost" err'
    test_expect_success 'nor is what an attempt has lost that was followed by a good one' '
        test_exit 1 "$accelerate" launch --quiet $two --max_restarts 1 --tee 1 --log_dir /dev/null \
            sh -c "[ \$TORCHELASTIC_RESTART_COUNT = 1 ] || { echo words; exit 3; }" >/dev/full 2>err && cat err &&
        grep "bytes of the ranks. output were lost" err && [ "$(wc -l <err)" = 1 ]'
fi
test_expect_success '--only_rank: the others are silent, but not in files and in the failure report' '
    rm -rf logs && printf "#!/bin/sh\necho out \$RANK; echo err \$RANK >&2\n[ \$RANK = 1 ] || { echo >spoke; exec sleep 300; }\nuntil [ -e spoke ]; do sleep 0.05; done\nexit 3\n" >speaks &&
    chmod +x speaks && test_exit 3 "$accelerate" launch $two --only_rank 0 --tee 3 --log_dir logs ./speaks >out 2>err && cat out err &&
    printf "[default0]:out 0\n" >want && cmp out want && ! grep "default1" err && grep "err 1" err &&
    grep -x "out 1" logs/*/attempt_0/1/stdout.log && grep -x "err 1" logs/*/attempt_0/1/stderr.log &&
    rm spoke && test_exit 3 "$accelerate" launch $two --only_rank 0 ./speaks >out 2>err && cat out err && printf "out 0\n" >want &&
    cmp out want && [ "$(grep -cx "err 1" err)" = 0 ] && grep "err 1" err'
test_expect_success '--only_rank with much output, and for one rank alone' '
    "$accelerate" launch $two --only_rank 1 sh -c "head -c 3000000 /dev/zero && echo >written\$RANK; echo done >&2" >out 2>err &&
    [ "$(wc -c <out)" = 3000000 ] && [ -e written0 ] && grep -x done err && [ "$(wc -l <err)" = 1 ] &&
    "$accelerate" launch --quiet --cpu --num_processes 1 --only_rank 0 echo alone >out && grep -x alone out'
test_expect_success 'lines of a file that another process has truncated are missed' '
    rm -rf done? logs && printf "#!/bin/sh\n./much\n[ \$RANK = 1 ] || for f in logs/*/*/0/stdout.log; do : >\$f; done\necho 1 >cut\$RANK\n" >cuts &&
    exec 9<>still && chmod +x cuts && { "$accelerate" launch $two --tee 0:1 --log_dir logs ./cuts >still 2>err 9>&- & } && launcher=$! &&
    await cut0 && drain got && test_exit 1 wait $launcher && cat err &&
    grep "^accelerate: [0-9]* bytes of the ranks. output were not passed on" err'
test_done
