#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Several ranks on one terminal: prefixes of lines, in colour; what a failure and ^C leave on the screen.
. "${srcdir:-.}/tests/testlib.sh"

has_terminals || skip_rest "$no_terminals"
two="--quiet --cpu --num_processes 2"
each="--label yes" # equal lines of several ranks, too
escape=$(printf '\033')

# on_terminal ARGUMENTS...: leaves the screen in `screen`, \r and escapes included, and exits as the command does
on_terminal () {
    python3 "$srcdir/tests/cli/on_terminal.py" "$@" >screen
}
# Without the colours, and with the terminal's own carriage returns gone.
plain () {
    sed "s/$escape\[[0-9;]*m//g; s/$(printf '\r')\$//" screen
}

cat >meet <<'EOF'
#!/bin/sh
# Rank 0 writes the first half of its line, rank 1 a whole one, rank 0 the rest.
if [ $RANK = 0 ]; then
    printf 'one half, '; echo >begun
    until [ -e whole ]; do sleep 0.05; done
    echo 'other half'
else
    until [ -e begun ]; do sleep 0.05; done
    sleep ${LATER-0}; echo 'a whole line'; sleep 0.1; echo >whole
fi
EOF
cat >is_terminal <<'EOF'
#!/bin/sh
exec 3>&1
[ -t 1 ] && echo "a terminal of $(stty size 0<&3 | cut -d\  -f2) columns" || echo "no terminal"
EOF
chmod +x meet is_terminal

test_expect_success 'each line has its rank before it, in a colour of its own' '
    on_terminal "$accelerate" launch $two $each sh -c "echo hello; echo; echo oops >&2" &&
    grep "^$escape\[36m\[0\]$escape\[0m hello" screen &&
    grep "^$escape\[33m\[1\]$escape\[0m hello" screen &&
    grep "^$escape\[36m\[0\]$escape\[0m oops" screen &&
    plain | sort >got && printf "[0] \n[0] hello\n[0] oops\n[1] \n[1] hello\n[1] oops\n" >want && cmp got want'

test_expect_success 'NO_COLOR' '
    NO_COLOR=1 on_terminal "$accelerate" launch $two $each echo hello && ! grep "$escape" screen &&
    grep "^\[1\] hello" screen &&
    NO_COLOR= on_terminal "$accelerate" launch $two $each echo hello && grep "$escape" screen'

test_expect_success 'with eleven ranks the lines begin in one column' '
    on_terminal "$accelerate" launch --quiet --cpu --num_processes 11 $each echo hello &&
    plain >got && grep "^\[ 0\] hello" got && grep "^\[10\] hello" got'

test_expect_success 'lines are never joined' '
    on_terminal "$accelerate" launch $two ./meet && plain >got && cat got &&
    [ "$(grep -c "^\[0\] .*half" got)" -ge 1 ] && grep -x "\[1\] a whole line" got && ! grep "half.*whole" got &&
    rm begun whole &&
    LATER=2 on_terminal "$accelerate" launch $two ./meet && plain >got &&
    grep -x "\[0\] one half, " got && grep -x "\[1\] a whole line" got && grep -x "\[0\] other half" got'

test_expect_success 'a progress bar overwrites itself, and nothing else' '
    on_terminal "$accelerate" launch $two sh -c "[ \$RANK = 1 ] || printf \"before\\n\\r10 %%\\r20 %%\\r30 %%\\n\"" &&
    plain >got &&
    printf "[0] before\n[0] 10 %%\r[0] 20 %%\r[0] 30 %%\n" >want && cmp got want'

test_expect_success 'ranks still have a terminal, as wide as what is left of the line' '
    on_terminal "$accelerate" launch $two $each ./is_terminal && plain | sort >got &&
    printf "[0] a terminal of 76 columns\n[1] a terminal of 76 columns\n" >want && cmp got want &&
    on_terminal "$accelerate" launch --quiet --cpu --num_processes 11 $each ./is_terminal && plain >got &&
    grep "^\[10\] a terminal of 75 columns" got'

cat >wide <<'EOF'
#!/bin/sh
# Waits until its terminal has another size.
exec 3>&1
trap 'size=$(stty size 0<&3); [ "$size" = "24 76" ] || { echo "now $size"; exit 0; }' WINCH
echo waits
while :; do sleep 0.05; done
EOF
chmod +x wide
test_expect_success 'a new size of the terminal reaches all ranks, less their label' '
    on_terminal --resize 50 "waits(.|\n)*waits" "$accelerate" launch $two $each ./wide && plain >got && cat got &&
    grep -x "\[0\] now 24 46" got && grep -x "\[1\] now 24 46" got'
test_expect_success 'no label: for one rank, with --label no, with label in the file' '
    on_terminal "$accelerate" launch --quiet --cpu --num_processes 1 echo hello && printf "hello\r\n" >want &&
    cmp screen want &&
    on_terminal "$accelerate" launch --label no $two echo hello && printf "hello\r\nhello\r\n" >want &&
    cmp screen want &&
    echo "label: no" >file.yaml &&
    on_terminal "$accelerate" launch --config_file file.yaml $two echo hello && cmp screen want'

test_expect_success 'lines are never joined without labels, either, and ranks still have a terminal' '
    rm -f begun whole && LATER=2 on_terminal "$accelerate" launch --label no $two ./meet && plain >got &&
    grep -x "one half, " got && grep -x "a whole line" got && grep -x "other half" got &&
    on_terminal "$accelerate" launch --label no $two ./is_terminal && plain >got &&
    [ "$(grep -cx "a terminal of 80 columns" got)" = 2 ]'
test_expect_success 'no colours on a terminal that has none' '
    TERM=dumb on_terminal "$accelerate" launch $two $each echo hello && ! grep "$escape" screen && grep "^\[1\] hello" screen'

test_expect_success 'a stream that is not a terminal gets the bytes unchanged' '
    on_terminal --errors err "$accelerate" launch $two sh -c "echo hello >&2; echo out \$RANK" && grep -x hello err &&
    plain >got && grep -x "\[1\] out 1" got && ! grep hello got &&
    "$accelerate" launch $two ./is_terminal >out && printf "no terminal\nno terminal\n" >want && cmp out want'

test_expect_success '--tee has its own names' '
    on_terminal "$accelerate" launch --log_dir /dev/null --tee 1 $two echo hello && plain >got &&
    grep -x "\[default0\]:hello" got && ! grep "^\[0\]" got'

cat >in_order <<'EOF'
#!/bin/sh
# All ranks write what is equal, each writes a line of its own, and then what is equal again; rank 1 alone repeats it.
echo begin; echo begin
echo "own $RANK"
[ $RANK = 0 ] && { echo >first; until [ -e all ]; do sleep 0.05; done; }
until [ -e first ]; do sleep 0.05; done
sleep 0.5; [ $RANK = 2 ] && echo >all
sleep 0.5; echo end
[ $RANK != 1 ] || echo end
EOF
chmod +x in_order
test_expect_success 'equal lines of several ranks are shown once, all others, and the order of each rank is kept' '
    on_terminal "$accelerate" launch --quiet --cpu --num_processes 3 ./in_order && plain >got && cat got &&
    python3 - got <<-"EOF"
	import re, sys
	seen = {rank: [] for rank in range(3)}
	for line in open (sys.argv[1]):
	    ranks, text = re.fullmatch (r"\[([0-9,-]+)\] (.*)\n", line).groups ()
	    for part in ranks.split (","):
	        ends = part.split ("-")
	        for rank in range (int (ends[0]), int (ends[-1]) + 1):
	            seen[rank].append (text)
	for rank in range (3):
	    expected = ["begin", "begin", "own %d" % rank] + ["end"] * (2 if rank == 1 else 1)
	    assert seen[rank] == expected, (rank, seen)
	EOF'
cat >together <<'EOF'
#!/bin/sh
# Each waits for all others, so that all write within the window, or as near to it as the machine allows.
echo >here$RANK; until [ -e here0 ] && [ -e here1 ] && [ -e here2 ]; do :; done
echo "all say this"
sleep 0.5; [ $RANK = 1 ] || printf "two say this
"
sleep 0.5; printf "unfinished"; sleep 0.5; echo
EOF
chmod +x together
says_together () {
    rm -f here?
    on_terminal "$accelerate" launch --quiet --cpu --num_processes 3 ./together && plain >got && cat got &&
        grep -x "\[0-2\] all say this" got && grep -x "\[0,2\] two say this" got && [ "$(grep -c unfinished got)" = 3 ]
}
test_expect_success 'with the ranks before it; what is not a whole line is shown for each rank' '
    if says_together; then :; elif says_together; then :; elif says_together; then :; else says_together; fi'

cat >fails <<'EOF'
#!/bin/sh
[ $RANK = 0 ] && exec sleep 300
echo 'Traceback:' >&2; echo 'Error: out of luck' >&2
exit 3
EOF
cat >fails_early <<'EOF'
#!/bin/sh
[ $RANK = 0 ] || { echo 'Error: out of luck' >&2; echo >failed; until [ -e told ]; do sleep 0.05; done; exit 3; }
until [ -e failed ]; do sleep 0.05; done
seq 1000 1200 >&2; echo >told; exec sleep 300
EOF
chmod +x fails fails_early
test_expect_success 'a failure report does not repeat what is on the screen just above it' '
    test_exit 3 on_terminal "$accelerate" launch --cpu --num_processes 2 ./fails && plain >got && cat got &&
    [ "$(grep -c "out of luck" got)" = 1 ] && grep "its last lines on stderr are above, after \[1\]" got'
test_expect_success 'nor what is in the pipe just above it, but what is in a file' '
    { "$accelerate" launch --cpu --num_processes 2 --failure_report r.json ./fails 2>&1; echo $? >status; } | cat >got &&
    [ "$(cat status)" = 3 ] && cat got && [ "$(grep -c "out of luck" got)" = 1 ] &&
    grep -x "  its last lines on stderr are above" got && grep "\"stderr\":\[\"Traceback:\",\"Error: out of luck\"\]" r.json &&
    test_exit 3 "$accelerate" launch --cpu --num_processes 2 ./fails 2>got && [ "$(grep -c "out of luck" got)" = 2 ]'
test_expect_success 'a launch says nothing of what was chosen where nothing follows; a dry run does' '
    env -u OMP_NUM_THREADS "$accelerate" launch --cpu true 2>err && ! [ -s err ] &&
    env -u OMP_NUM_THREADS "$accelerate" launch --dry_run --cpu true >plan && grep -e "OMP_NUM_THREADS is" -e OMP_NUM_THREADS=1 plan'
test_expect_success 'it does where other lines came after it, and where stderr is a file' '
    test_exit 3 on_terminal "$accelerate" launch --cpu --num_processes 2 ./fails_early && plain >got &&
    [ "$(grep -c "out of luck" got)" = 2 ] &&
    test_exit 3 on_terminal --errors err "$accelerate" launch --cpu --num_processes 2 ./fails &&
    [ "$(grep -c "out of luck" err)" = 2 ]'

hangs=$builddir/tests/cli/hangs
test_expect_success 'what all ranks say of a failure stands once in the report' '
    test_exit 1 "$accelerate" launch --cpu --num_processes 2 "$hangs" differ 2>err && sed -n "/^accelerate: rank/,\$p" err >report &&
    [ "$(grep -c "counts differ" report)" = 1 ] && grep "^  it gave up: counts differ" report &&
    ! grep "its last line" report'
line=$(grep -n 'accel_wait_for_everyone' "$srcdir/tests/cli/hangs.c" | tail -n 1 | cut -d: -f1)
first=$(grep -n 'accel_wait_for_everyone' "$srcdir/tests/cli/hangs.c" | head -n 1 | cut -d: -f1)
# Rank 0 has the terminal and dies of ^C itself; on a busy machine the others notice before the launcher does.
where="^    ranks* 1.*\\(accel_wait_for_everyone at .*hangs.c:$line\\|gave up: rank 0 was killed\\)"
test_expect_success '^C on a job that hangs shows where each rank is' '
    test_exit 130 on_terminal --type "\x03" hangs "$accelerate" launch --cpu --num_processes 3 "$hangs" && plain >got &&
    grep "^accelerate: ended by SIGINT" got && grep "^  the ranks at that moment:" got &&
    grep "$where" got &&
    grep "^    rank 0: .*hangs.c:$first" got'
test_expect_success '^\ does too' '
    test_exit 131 on_terminal --type "\x1c" hangs "$accelerate" launch --cpu --num_processes 3 "$hangs" && plain >got &&
    grep "^accelerate: ended by SIGQUIT" got && grep "$where" got'
test_expect_success 'SIGTERM does too, and in the JSON' '
    { "$accelerate" launch --cpu --num_processes 3 --failure_report r.json "$hangs" >out 2>err & } && pid=$! &&
    wait_for grep -q hangs out && kill $pid && test_exit 143 wait $pid && grep "^    ranks 1-2: .*hangs.c:$line" err &&
    grep "\"ranks\":\[{\"rank\":0,.*\"rank\":2,\"doing\":\"[^\"]*hangs.c:$line" r.json'
test_done
