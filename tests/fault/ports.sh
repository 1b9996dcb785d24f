#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Jobs that are started on one host at the same moment, by one user or several, never share a MASTER_PORT, however late
# rank 0 listens there.  ROUNDS=50 tries longer.
. "${srcdir:-.}/tests/testlib.sh"
late=$builddir/tests/fault/late_bind
hold=$builddir/tests/fault/hold_name
rounds=${ROUNDS:-1} jobs=20

# Helpers that wait for an end of input get it from here, also when the test is cut off.
mkfifo hang && exec 9<>hang

# If no other user may read this tree, all jobs belong to one user.
user=
if [ "$(id -u)" = 0 ] && as_nobody test -x "$accelerate" && as_nobody test -x "$late"; then
    user=nobody
fi

# at_once FOLDER: all jobs, none of which listens before all have a port; every third one of another user, every fourth
# with the wish for any port
cat >at_once <<END
#!/bin/sh
mkdir -m 777 \$1 && number=0
while [ \$number -lt $jobs ]; do
    number=\$((number + 1)) as= port=
    [ \$((number % 3)) != 0 ] || as="${user:+setpriv --reuid=65534 --clear-groups}"
    [ \$((number % 4)) != 0 ] || port='--main_process_port 0'
    {
        \$as "$accelerate" launch --quiet --cpu --num_processes 3 \$port "$late" \$1 >\$1.\$number.log 2>&1
        echo \$? >\$1.\$number.status
    } &
done
until [ \$(ls \$1 | grep -c port) = $jobs ]; do sleep 0.02; done
sleep 0.1
: >\$1/go
wait
END
apart () {
    test "$(cat "$1"/port.* | sort -u | wc -l)" = $jobs && test "$(cat "$1".*.status | sort -u)" = 0
}
# In a network of its own no other job is about, and no connection that has just ended: all try the usual port first.
network=
! unshare -rn "$late" -u true 2>/dev/null || network="unshare -rn $late -u"
[ -z "$user" ] || network="unshare -n $late -u"
round=0
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    [ "$network" ] && test_expect_success \
        "$jobs launches at once, alone, round $round of $rounds: $jobs ports, and no rank meets a stranger" \
        "timeout $patience $network sh at_once \$PWD/own$round && apart own$round"
    test_expect_success "$jobs launches at once, round $round of $rounds" \
        "timeout $patience sh at_once \$PWD/host$round && apart host$round"
done

if [ "$network" ]; then
    test_expect_success 'two jobs of which neither listens: the usual port, and another one' '
        cat >two <<-END &&
	"$accelerate" launch --quiet --cpu --num_processes 2 sh -c "echo \\\$MASTER_PORT; read x <hang" >one 2>&1 &
	until test -s one; do sleep 0.02; done
	"$accelerate" launch --cpu --num_processes 2 sh -c "echo \\\$MASTER_PORT" >other 2>&1
	for i in 1 2; do echo >hang; done
	wait
	END
        $network sh two &&
        test "$(sort -u one)" = 29500 && test "$(wc -l <other)" = 2 && ! grep -x 29500 other'
    test_expect_success 'any port: the only one that no job has locked' '
        cat >last <<-END &&
	"$hold" accelerate-port- stream bind 20000 29500 23456 <hang >ready0 &
	until test -s ready0 || ! kill -0 \$!; do sleep 0.02; done
	"$accelerate" launch --cpu --num_processes 2 sh -c "echo \\\$MASTER_PORT" >only
	"$accelerate" launch --cpu --num_processes 2 --main_process_port 0 sh -c "echo \\\$MASTER_PORT" >>only
	kill \$!
	END
        $network sh last && test "$(uniq -c <only | sed "s/^ *//")" = "4 23456"'
    test_expect_success 'no port at all: an error' '
        cat >none <<-END &&
	"$hold" accelerate-port- stream bind 20000 29500 1 <hang >ready1 &
	until test -s ready1 || ! kill -0 \$!; do sleep 0.02; done
	"$accelerate" launch --cpu --num_processes 2 true
	echo \$?
	kill \$!
	END
        $network sh none >got 2>&1 && grep "no free port" got && grep -x 1 got'
else
    test_skip 'two jobs of which neither listens' 'no network namespaces'
fi

test_expect_success 'the usual port works again at once, although its connections have only just ended' '
    mkdir again && : >again/go &&
    for i in 1 2 3; do "$accelerate" launch --quiet --cpu --num_processes 3 "$late" again || return 1; done'
test_expect_success 'one process that will listen has a port of its own too' '
    mkdir alone &&
    { "$accelerate" launch --quiet --use_fsdp --num_processes 1 sh -c "echo \$MASTER_PORT >alone/1; read x <hang" & } &&
    first=$! &&
    { "$accelerate" launch --quiet --use_fsdp --num_processes 1 sh -c "echo \$MASTER_PORT >alone/2; read x <hang" & } &&
    second=$! && wait_for test -s alone/1 && wait_for test -s alone/2 && echo >hang && echo >hang &&
    wait $first && wait $second && test "$(sort -u alone/1 alone/2 | wc -l)" = 2'

# A job that holds a port until it is told to end: hold_port FOLDER LAUNCH...
hold_port () {
    folder=$PWD/$1 && shift && mkdir -m 777 "$folder"
    cat >"$folder/rank" <<-END
	#!/bin/sh
	read -r stat </proc/\$PPID/stat && stat=\${stat#*) ? }
	[ \$RANK != 0 ] || { echo \${stat%% *} \$PPID >$folder/pids; echo \$MASTER_PORT >$folder/port; }
	exec sleep 60
	END
    chmod 755 "$folder/rank"
    "$@" "$folder/rank" 'two
lines' "$(printf '\033[31mred')" >"$folder/log" 2>&1 &
    job=$!
    wait_for test -s "$folder/port" && held=$(cat "$folder/port") && read -r launcher supervisor <"$folder/pids"
}
let_go () {
    kill "$launcher" && test_exit 143 wait $job
}
any="$accelerate launch --quiet --cpu --num_processes 2 --main_process_port 0"
# in_the_way HOW PORT: a process, $other, holds the lock of the port
in_the_way () {
    rm -f ready
    "$hold" "accelerate-port-$2" stream "$1" <hang >ready &
    other=$!
    wait_for is_settled ready $other && test -s ready
}
is_settled () { test -s "$1" || ! kill -0 "$2" 2>/dev/null; }
# is_refused: the port that is held; one line, nothing that a terminal would act upon
is_refused () {
    test_exit 1 "$@" "$accelerate" launch --cpu --num_processes 2 --main_process_port $held true 2>refused &&
    test "$(wc -l <refused)" = 1 && ! LC_ALL=C grep -q '[^ -~]' refused &&
        grep "^accelerate: main_process_port $held (flag) belongs to another job on this host: user $holder, pid" refused
}

test_expect_success 'a given port of another job is refused with its user, pid and command, until that job ends' '
    holder=$(id -un) && hold_port given $any && is_refused && grep -F "pid $launcher ($accelerate" refused &&
    printf "main_process_port: %s\n" $held >port.yaml &&
    test_exit 1 "$accelerate" launch --config_file port.yaml --cpu --num_processes 2 true 2>error &&
    grep "main_process_port $held (port.yaml:1) belongs" error &&
    "$accelerate" launch --cpu --num_processes 2 --main_process_port $held --dry_run true >plan &&
    grep "MASTER_PORT=$held" plan &&
    let_go && "$accelerate" launch --quiet --cpu --num_processes 2 --main_process_port $held true'
test_expect_success 'also after thousands of questions' '
    holder=$(id -un) && hold_port asked $any && python3 -c "
import socket
for i in range (5000):
    question = socket.socket (socket.AF_UNIX)
    question.setblocking (False)
    try: question.connect (\"\\0accelerate-port-$held\")
    except BlockingIOError: pass" &&
    wait_for is_refused && grep -F "pid $launcher ($accelerate" refused && let_go'
if [ "$user" ]; then
    test_expect_success 'a port that a job of another user has is refused by name' '
        holder=nobody && hold_port strange as_nobody $any && is_refused && let_go'
    test_expect_success 'and of root to another user' '
        holder=root && hold_port roots $any && is_refused as_nobody && let_go'
fi
test_expect_success 'a name that a stray process holds is refused, naming the process' '
    held=$(free_port) && in_the_way listen $held && holder=$(id -un) && is_refused && grep "pid $other (" refused && kill $other'
test_expect_success 'also where it does not tell' '
    held=$(free_port) && in_the_way full $held &&
    test_exit 1 "$accelerate" launch --cpu --num_processes 2 --main_process_port $held true 2>refused &&
    grep "a process that does not answer" refused && kill $other'
# Launches listen.
test_expect_success 'a name that is not held by a launch does not keep a job from a given port' '
    held=$(free_port) && in_the_way bind $held &&
    "$accelerate" launch --cpu --num_processes 2 --main_process_port $held sh -c "echo \$MASTER_PORT" >got 2>note &&
    test "$(sort -u got)" = $held && test "$(wc -l <got)" = 2 && grep "^accelerate: note: cannot lock port $held: " note &&
    kill $other'
test_expect_success 'the usual port is blocked by a stray process: another one' '
    { in_the_way listen 29500 || :; } && # or another job on this machine has it, which is as good
    "$accelerate" launch --cpu --num_processes 2 sh -c "echo \$MASTER_PORT" >got 2>note &&
    { kill $other || :; } && test "$(sort -u got | wc -l)" = 1 && ! grep -x 29500 got &&
    ! grep "port" note'

for victim in launcher supervisor; do
    test_expect_success "the $victim is killed: its port can be had" '
        hold_port killed-'$victim' $any &&
        kill -9 $'$victim' && test_exit 137 wait $job &&
        wait_for "$accelerate" launch --quiet --cpu --num_processes 2 --main_process_port $held true'
done
test_expect_success 'ranks hold no lock' '
    "$accelerate" launch --quiet --cpu --num_processes 2 sh -c "ls -l /proc/self/fd" >fds && ! grep socket: fds'
test_expect_success 'the same port for all attempts of a job, which no other job gets meanwhile' '
    cat >again.sh <<-END &&
	echo \$MASTER_PORT >>attempts
	[ \$RANK != 0 ] || "$accelerate" launch --quiet --cpu --num_processes 2 sh -c "echo \\\$MASTER_PORT >>inner"
	exit 7
	END
    test_exit 7 "$accelerate" launch --quiet --cpu --num_processes 2 --max_restarts 2 sh again.sh &&
    test "$(sort -u attempts | wc -l)" = 1 && ! grep -x "$(head -n 1 attempts)" inner'

# machine RANK COMMAND...: one of two machines
machine () {
    number=$1 && shift
    "$accelerate" launch --quiet --cpu --num_machines 2 --num_processes 2 --machine_rank "$number" \
        --main_process_ip 127.0.0.1 --main_process_port $held "$@"
}
# In the background: its launcher may wait for the first one.
second () {
    { machine 1 sh -c "echo \$MASTER_PORT \$RANK" >second || :; } & # it ends with the first one
}
test_expect_success 'two machines of one job share its port, also on one host; the main machine of another job does not' '
    held=$(free_port) && hold_port first machine 0 &&
    second && wait_for test -s second && echo "$held 1" | diff - second &&
    test_exit 1 machine 0 true 2>error &&
    grep "belongs to another job on this host: .*; choose another port on all machines" error && let_go'
test_done
