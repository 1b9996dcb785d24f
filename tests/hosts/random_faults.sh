#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Whatever dies on several hosts, and whenever: the report names it, the job ends, and no process stays on any host.
# By hand, for longer: ROUNDS=300 SEED=7 sh tests/hosts/random_faults.sh; FIRST=42 begins with that round.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/hosts/lab"
begin_lab 4 || exit
meet=$builddir/tests/hosts/rendezvous
rounds=2 first=${FIRST:-1} seed=${SEED:-1}
! is_long || rounds=12
rounds=${ROUNDS:-$rounds}
patience=${TEST_PATIENCE:-300} # what has not ended by then hangs

# draw ROUND: what happens in it, as assignments.  host4 has no ranks: it is a place for the head.
draw () {
    awk -v seed="$seed" -v round="$1" '
        function draw (n) { x = x * 16807 % 2147483647; return int(x / 2147483647 * n) }
        function one_of (words,   items, count) { count = split(words, items, " "); return items[1 + draw(count)] }
        BEGIN {
            x = (seed * 7919 + round * 104729) % 2147483646 + 1
            for (i = 0; i < 10; i++) draw(1)
            hosts = 2 + draw(2)
            for (h = 1; h <= hosts; h++) {
                each = 1 + draw(2)
                list = list (h > 1 ? "," : "") "host" h ":" each
                while (each--) host_of[size++] = h
            }
            from = draw(3) ? 1 : 4
            kind = one_of("rank rank rank held busy agent agent launcher head head term off off cut cut head_off head_cut")
            rank = draw(size)
            is_rank = kind == "rank" || kind == "held" || kind == "busy"
            victim = is_rank ? host_of[rank] : 1 + draw(hosts)
            if ((kind == "off" || kind == "cut") && victim == from) victim = 2
            if (kind ~ /^head_/) victim = from
            signal = one_of("9 11 7 8 6 15") # KILL SEGV BUS FPE ABRT TERM
            if (is_rank && kind != "rank") signal = 9
            slow = draw(4) ? 0 : 1 + draw(hosts)
            after = is_rank || kind == "launcher" || draw(3) ? "" : sprintf("%.3f", draw(1500) / 1000)
            print "list=" list " size=" size " from=" from " kind=" kind " rank=" rank " victim=" victim \
                " signal=" signal " slow=" slow " after=" after
        }'
}

now_ms () {
    echo $(($(date +%s%N) / 1000000))
}

# Either all ranks are there, or the job has ended, which is then seen in what it has said.
are_up () {
    for i in $(seq 0 $((size - 1))); do
        [ -s "up.$i" ] || { has_exited "$head" && return 0; } || return 1
    done
}
begin () {
    rm -f up.* report.json
    [ "$slow" = 0 ] || hosts slow "host$slow" 100ms 5% || return 1
    on "host$from" "$accelerate" launch --cpu --host_timeout 4 --failure_report report.json --hosts "$list" \
        "$meet" up >out 2>err &
    head=$!
    if [ -n "$after" ]; then
        sleep "$after"
    else
        wait_for are_up
    fi
}

# kill_there HOST PKILL-ARGUMENT...: as soon as there is such a process, but the job may have ended before
kill_there () {
    place=$1
    shift
    until on "$place" pkill "$@"; do
        ! has_exited "$head" || { echo "the head ended before there was on $place: $*" && return 1; }
        [ $(($(now_ms) - struck)) -lt 60000 ] ||
            { echo "within 60 s, there was not on $place: $*" && { on "$place" ps -ef || :; } && return 1; }
        sleep 0.02
    done
}
strike () {
    case $kind in
    rank) on "host$victim" kill "-$signal" "$(cat "up.$rank")" ;;
    # As on a busy machine: its end is seen late, or its launcher is late itself.
    held) on "host$victim" "$builddir/tests/hosts/hold" "$(cat "up.$rank")" 800 ;;
    busy)
        freeze "host$victim" && on "host$victim" kill -9 "$(cat "up.$rank")" && sleep 1.5 && thaw "host$victim"
        ;;
    agent)
        if [ "$victim" = "$from" ]; then
            kill_there "host$victim" -9 -o -f '[e]xe --agent'
        else
            kill_there "host$victim" -9 -f '[-]-agent'
        fi
        ;;
    launcher) kill_there "host$victim" -9 accel-job ;;
    head) kill_there "host$from" -9 -f '[-]-hosts host1:' ;;
    term) kill_there "host$from" -TERM -f '[-]-hosts host1:' ;;
    off | head_off) hosts off "host$victim" ;;
    cut | head_cut) hosts cut "host$victim" ;;
    esac
}

# says PATTERN HOST: the report is one line like that, and the file names the host
says () {
    grep -E "$1" err && test "$(grep -c '^accelerate: ' err)" -eq 1 && grep "\"host\":\"$2\"" report.json
}
# is_in_doubt STATUS WORDS: an abort may have another cause, so a victim of which the end was seen first is reported, and
# the abort with it
is_in_doubt () {
    test "$1.$signal" = 4.6 && says '^accelerate: rank [0-9]* .* exited with status 4$' 'host[0-9]' &&
        grep -E "^  at nearly the same time, $2" err && echo "# round $round: in doubt" >>doubts
}
# is_right STATUS: of the head
is_right () {
    case $kind in
    rank | held | busy)
        words="rank $rank \(process $(cat "up.$rank") on host$victim\) was killed by signal $signal "
        { test "$1" = $((128 + signal)) && grep "\"rank\":$rank," report.json &&
            says "^accelerate: $words" "host$victim"; } || is_in_doubt "$1" "$words"
        ;;
    launcher) test "$1" = 137 && says "^accelerate: host host$victim: .*killed by signal 9" "host$victim" ;;
    agent | off | cut)
        test "$1" = 1 && says "^accelerate: host host$victim: (lost|cannot connect|no connection)" "host$victim"
        ;;
    head_cut) test "$1" = 1 && says '^accelerate: host host[0-9]: (lost|cannot connect|no connection)' 'host[0-9]' ;;
    head | head_off) test "$1" = 137 ;;
    term) test "$1" = 143 && grep '^accelerate: ended by SIGTERM$' err ;;
    esac
}

are_clean () {
    for i in 1 2 3 4; do
        ! sh "$srcdir/tests/hosts/hosts" ip "host$i" >/dev/null || [ "$kind:$i" = "off:$victim" ] ||
            [ "$kind:$i" = "head_off:$victim" ] || all_clean "host$i" || return 1
    done
}

# one_round: prints how long after the fault the head and the last process ended
one_round () {
    begin && struck=$(now_ms) && strike && gone "$head" || { kill -9 "$head" && return 1; }
    ended=$(now_ms) status=0
    wait "$head" || status=$?
    are_clean && cleaned=$(now_ms) && echo "$kind $((ended - struck)) $((cleaned - struck))" >>took &&
        is_right "$status"
}
# The hosts are as before: powered on and at full speed.
repair () {
    hosts up 4 && for i in 1 2 3 4; do hosts heal "host$i" || return 1; done
}

for round in $(seq "$first" $((first + rounds - 1))); do
    drawn=$(draw "$round") && eval "$drawn" || exit 1
    # shellcheck disable=SC2154 # draw sets them
    what="$kind${after:+ after $after s}, victim host$victim, rank $rank, signal $signal"
    # shellcheck disable=SC2154
    what="round $round: $what, head on host$from, --hosts $list, slow: ${slow#0}"
    test_expect_success "$what" 'one_round'
    repair >repaired 2>&1 || { cat repaired && echo 'Bail out! the hosts do not start again' && exit 1; }
done
[ ! -e doubts ] || cat doubts
sort took | awk '
    { if ($2 > verdict[$1]) verdict[$1] = $2; if ($3 > clean[$1]) clean[$1] = $3; count[$1]++ }
    END {
        for (k in count)
            printf "# %s: %d, head ended within %d ms, all processes within %d ms\n", k, count[k], verdict[k], clean[k]
    }'
test_done
