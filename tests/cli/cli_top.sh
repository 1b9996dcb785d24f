#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate top: what ranks do, who waits for whom, keys on a terminal, which is left as it was.
. "${srcdir:-.}/tests/testlib.sh"

watched=$builddir/tests/cli/watched
# begin ARGUMENTS...: launch ranks in the background; sets $launcher
begin () {
    rm -f out
    "$accelerate" launch --quiet --cpu "$@" >out 2>err &
    launcher=$!
    echo "$launcher" >>launchers
}
end () {
    "$accelerate" kill --signal KILL "$launcher" >ended && gone "$launcher"
}
has_memory () {
    "$accelerate" top --json "$launcher" >json && grep "\"memory_step\": [1-9]" json
}
term=xterm
# on_screen ARGUMENTS...: on a terminal of type $term; leaves what is left on the terminal in `left`, and exits as the command does
on_screen () {
    TERM=$term python3 "$srcdir/tests/cli/on_screen.py" "$@" >left
}
# The terminal's own screen, cursor, keys and modes are back, and nothing is drawn after that.
is_restored () {
    cat left && sed -n 1p left | grep -x "left: nothing" && ! sed 1d left | grep -v "^the job has ended$"
}

test_expect_success 'a job with a slow rank begins' 'begin --num_processes 3 "$watched" ms=10 slow=2 log=100 && await out'
launcher=$(cat launchers)
# The latest look may be just when the slow rank has come.
others_wait () {
    "$accelerate" top $launcher >once && grep "^    [01] .* waiting .* in accel_backward at .*watched.c:[0-9]*, waits for rank 2" once &&
    grep "^    2 .* computing .* computing after accel_backward at .*watched.c:[0-9]*$" once
}
test_expect_success 'once: the slow rank is the one that the others wait for' '
    wait_for others_wait && cat once &&
    grep "^  3 of 3 ranks  step [1-9].*steps/s .*launcher $launcher" once && grep "^  loss 1 .*  lr.x1b\[31m 0.0" once'
test_expect_success 'as JSON: its share of the time is above that of the others' '
    "$accelerate" top --json $launcher >json && cat json && grep "\"other_releases\": [0-9]" json && awk "
        /\"rank\":/ { rank = \$2 + 0 }
        /\"waiting\":/ { waiting[rank] = \$2 + 0 }
        /\"awaited\":/ { awaited[rank] = \$2 + 0 }
        /\"waits_for\": 2/ { waits++ }
        /\"loss\":/ { loss[rank] = \$2 + 0 }
        END { exit !(waiting[0] > 0.3 && waiting[1] > 0.3 && waiting[2] < 0.3 && awaited[2] > 0.3 && awaited[0] < 0.3 &&
                     loss[0] == 1 && loss[2] == 3) }" json'
test_expect_success 'a rank that was stopped' '
    pid=$(awk "/\"pid\":/ { pid = \$2 + 0 } END { print pid }" json) && kill -STOP $pid && "$accelerate" top --once $launcher >once &&
    kill -CONT $pid && cat once && grep "^    2 *$pid stopped .* stopped by a signal after accel_backward" once && end'
test_expect_success 'a program without libaccel: what /proc knows' '
    begin --num_processes 2 sh -c "echo \$\$ >pid.\$RANK; while :; do :; done" && await pid.0 pid.1 && "$accelerate" top $launcher >once && cat once &&
    grep "^    0 *$(cat pid.0) not open .* - .* [1-9][0-9]*% .* [kM]B  not in accel_open() yet" once &&
    grep "^    1 *$(cat pid.1) not open" once && end'
# Python takes 64 MB and a processor; the shell around it takes neither
test_expect_success 'a script around the program: what both use' '
    cat >busy.py <<-\EOF &&
	import os
	memory = b"x" * (64 << 20)
	print ("begun", file = open ("busy." + os.environ["RANK"], "w"), flush = True)
	while True: pass
	EOF
    begin --num_processes 2 sh -c "echo \$\$ >wrapped.\$RANK; python3 busy.py; :" && await busy.0 busy.1 &&
    "$accelerate" top --json $launcher >json && cat json && awk "
        /\"rank\":/ { ranks++ }
        /\"cpu\":/ && \$2 + 0 > 0.02 { busy++ }
        /\"memory_bytes\":/ && \$2 + 0 > 67108864 { large++ }
        END { exit !(ranks == 2 && busy == 2 && large == 2) }" json && grep "\"pid\": $(cat wrapped.0)," json && end'
test_expect_success 'another job begins' 'begin --num_processes 2 "$watched" ms=10 log=5 && await out'
launcher=$(sed -n '$p' launchers)
terminal_test 'keys: help, one rank, sorting, quitting; a terminal that grows' '
    on_screen --type h "DOING" --type "\\x1b" "sort by the next column(.|\\n)*Esc: back" --type "\\r" "Enter: rank" --save rank "rank 0, process(.|\\n)*Esc: back" --type "\\r" "rank 0, process" \
        --type s "Enter: rank" --type j "by step" --type "\\x1b[B" "(?m)^> +1" --type "\\x1bOA" "(?m)^> +[01]" --resize 120x24 "by step" \
        --type q " PID (.|\\n)*\\n.{90}" "$accelerate" top $launcher &&
    is_restored && cat rank && grep "^loss  *1 " rank'
terminal_test 'no line is wider than the terminal, which shrinks to 40 by 10 and grows again' '
    on_screen --save wide "(?m)h: help  q: quit$" --resize 40x10 "DOING" --save small "(?m)^Enter: rank  s: sort  d: stacks  c: chec$" \
        --resize 80x24 "c: chec$" --save again "(?m)h: help  q: quit$" --type q "q: quit$" "$accelerate" top $launcher && is_restored &&
    cat wide small again && grep "^>  *0 " wide && test "$(wc -l <wide)" -eq 24 && awk "length (\$0) > 40 { exit 1 }" small &&
    grep "^>  *0 " small && test "$(wc -l <small)" -eq 10 && grep "^>  *0 " again && test "$(wc -l <again)" -eq 24'
terminal_test 'the course of values in UTF-8' '
    LC_ALL=C.UTF-8 on_screen --type q "lr.x1b.31m 0\\.[0-9]* [▁▂▃▄▅▆▇█]{2}" "$accelerate" top $launcher && is_restored'
draws_on () {
    term=$1
    on_screen --type h "DOING" --type h "sort by the next column" --type q "DOING" "$accelerate" top $launcher &&
    cat left && sed -n 1p left | grep -x "left: nothing"
}
terminal_test 'other types of terminals' '
    draws_on xterm-256color && draws_on screen && draws_on linux && draws_on vt100'
term=xterm
terminal_test 'stopped with the terminal as it was, and continued' '
    on_screen --suspend stopped DOING --type h DOING --type q "sort by the next column" "$accelerate" top $launcher && is_restored &&
    cat stopped && test "$(cat stopped)" = "left: nothing"'
echo leak:new_prescr >ncurses.supp # newterm() keeps 1624 bytes if it fails
terminal_test 'a terminal that ncurses does not know: once, with the reason' '
    LSAN_OPTIONS=suppressions=$PWD/ncurses.supp:print_suppressions=0 TERM=no-such-terminal \
        python3 "$srcdir/tests/cli/on_screen.py" "$accelerate" top $launcher >left && cat left && sed -n 1p left | grep -x "left: nothing" && grep DOING left &&
    tr -d "\n" <left | grep "because ncurses cannot draw on a terminal of type .no-such-terminal.: set TERM"'
terminal_test 'without ncurses: once, with the reason' '
    mkdir -p none && echo "not a library" >none/libncursesw.so.6 && cp none/libncursesw.so.6 none/libncurses.so.6 &&
    LD_LIBRARY_PATH=$PWD/none${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} on_screen "$accelerate" top $launcher && cat left &&
    sed -n 1p left | grep -x "left: nothing" && grep DOING left && grep "accelerate: note: .*because " left'
# Row 2 of the screen is the first line of the stacks: of rank 1 only where it alone was asked.
if has_libdw; then
terminal_test 'stacks of a job, then of one rank; a program that cannot be asked for a checkpoint' '
    on_screen --type d DOING --save all "main .watched.c:" --type j "main .watched.c:" --type n "any other key" --type j "Enter: rank" \
        --type "\\r" "(?m)^> +1" --type d "Esc: back" --save one "main .watched.c:" --type n "main .watched.c:" --type c "Esc: back" \
        --type q "No checkpoint: its program has not called accel_should_save" "$accelerate" top $launcher &&
    is_restored && cat all one && sed -n 2p all | grep "^ranks* 0" && sed -n 2p one | grep "^rank 1: "'
else
    test_skip 'stacks of a job, then of one rank; a program that cannot be asked for a checkpoint' 'needs libdw.so.1 (libdw-dev)'
fi
terminal_test 'keys that ncurses does not know, and answers of the terminal, are no commands' '
    on_screen --type "\\x1b[?1;2c\\x1bx\\x1b[1;2q\\x1bOc\\x1bq" DOING --type h DOING --type q "sort by the next column" "$accelerate" top $launcher &&
    is_restored'
terminal_test 'signals: the terminal is left as it was' '
    test_exit 130 on_screen --type "\\x03" DOING "$accelerate" top $launcher && is_restored'
terminal_test 'stopping a job: no, then yes; then top ends, too' '
    on_screen --type x DOING --type n "y: yes" --type x "Enter: rank" --type y "y: yes" "$accelerate" top $launcher &&
    is_restored && grep "the job has ended" left && { wait $launcher || :; }'
test_expect_success 'a job with checkpoints in memory only' '
    begin --num_processes 2 --max_restarts 1 --memory_checkpoint_every 2 "$builddir/examples/resume" --step_ms 30 --every 1000000 &&
    wait_for has_memory && cat json && grep "\"saved_step\": null" json && "$accelerate" top $launcher >once && cat once &&
    grep "steps/s  in memory [1-9]" once'
launcher=$(sed -n '$p' launchers)
terminal_test 'a checkpoint is asked for, then saved' '
    on_screen --type c DOING --save saved "saved step [1-9]" --type q "saved step [1-9]" "$accelerate" top $launcher && is_restored &&
    saved=$(sed -n "s/.*saved step \([0-9]*\).*/\1/p" saved) && "$accelerate" top --json $launcher >json && cat json &&
    grep "\"saved_step\": $saved,\?$" json && "$accelerate" checkpoint $launcher >out && cat out &&
    grep "checkpoint_1$" out && end'
test_expect_success 'no terminal, or one without a cursor: once' '
    begin --num_processes 1 "$watched" && await out && TERM=dumb "$accelerate" top $launcher >once && grep DOING once && end'
test_expect_success 'no such job' '
    test_exit 1 "$accelerate" top nonsense 2>error && cat error && grep "no running job" error && test_exit 2 "$accelerate" top a b'
{ xargs kill -KILL <launchers 2>ignored || :; } # of tests that have failed
test_done
