#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A head whose output is a terminal: labels, equal lines of ranks of several hosts, and the status line.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/hosts/lab"
has_terminals || skip_rest "$no_terminals"
begin_lab 2 || exit

# on_terminal ARGUMENT...: a launch of three ranks on two hosts; the terminal's bytes go to `bytes`
on_terminal () {
    on host1 timeout -k 10 $((2 * patience)) python3 "$srcdir/tests/cli/on_terminal.py" "$accelerate" launch --quiet --cpu \
        --mpi no --hosts host1:2,host2:1 "$@" >bytes
}
plain () {
    sed "s/$(printf '\033')\[[0-9;]*m//g" bytes | tr -d "\r"
}

cat >in_order <<'END'
#!/bin/sh
# All write what is equal, each a line of its own, and all what is equal again; rank 2 alone repeats it.
echo begin
echo "own $RANK"; echo "error $RANK" >&2
printf 'half'; sleep 1; echo " and half"
touch here$RANK; until [ -e here0 ] && [ -e here1 ] && [ -e here2 ]; do sleep 0.05; done
echo end
[ $RANK != 2 ] || echo end
END
chmod +x in_order
test_expect_success 'each line is shown with its rank, and in its order' '
    on_terminal ./in_order && plain >got && cat got && python3 - got <<-"EOF"
	import re, sys
	seen = {rank: [] for rank in range(3)}
	for line in open (sys.argv[1]):
	    ranks, text = re.fullmatch (r"\[([0-9,-]+)\] (.*)\n", line).groups ()
	    for part in ranks.split (","):
	        ends = part.split ("-")
	        for rank in range (int (ends[0]), int (ends[-1]) + 1):
	            seen[rank].append (text)
	for rank in range (3):
	    lines = [line for line in seen[rank] if line != "error %d" % rank]
	    assert len (lines) + 1 == len (seen[rank]), (rank, seen)
	    assert lines[:2] + lines[-1:] == ["begin", "own %d" % rank, "end"], (rank, seen)
	    assert lines.count ("end") == (2 if rank == 2 else 1), (rank, seen)
	    assert "".join (lines).count ("half and half") == 1, (rank, seen)
	EOF'
cat >together <<'END'
#!/bin/sh
# Each waits for all others, so that all write within the window, or as near to it as the machine allows.
touch here$RANK; until [ -e here0 ] && [ -e here1 ] && [ -e here2 ]; do :; done
echo "all say this"
sleep 0.5; [ $RANK = 1 ] || echo "two say this"
END
chmod +x together
says_together () {
    rm -f here? && on_terminal ./together && plain >got && cat got && grep -x "\[0-2\] all say this" got && grep -x "\[0,2\] two say this" got
}
test_expect_success 'a line that ranks of several hosts write at about the same time is shown once' '
    if says_together; then :; elif says_together; then :; elif says_together; then :; else says_together; fi'
test_expect_success 'labels are as wide as that of the last rank, in colour; with --label yes, each line is shown, with no, none has one' '
    on host1 python3 "$srcdir/tests/cli/on_terminal.py" "$accelerate" launch --quiet --cpu --hosts host1:1,host2:10 sh -c "echo hello \$RANK" >bytes &&
    grep "$(printf "\033")\[3[1-6]m\[10\]" bytes && plain >got && sort got >lines && cat lines && for i in $(seq 0 10); do printf "[%2d] hello $i\n" $i; done | sort >want && cmp lines want &&
    on_terminal --label yes echo hello && plain | sort >got && printf "[0] hello\n[1] hello\n[2] hello\n" >want && cmp got want &&
    on_terminal --label no printf "\0011\002hello\n" && plain >got && printf "\0011\002hello\n\0011\002hello\n\0011\002hello\n" >want && cmp got want'

steps=$builddir/tests/cli/steps
status="3 ranks  step [0-9]+( to [0-9]+)?(  [0-9.e+]+ (steps/s|s/step))?(  [0-9]+:[0-9][0-9]:[0-9][0-9] left)?(  loss [0-9.]+)?"
test_expect_success 'the status line has the ranks of all hosts, is never torn, and is gone at the end' '
    on_terminal "$steps" total_steps=1000 loss=2.5 run=30:150 && python3 "$srcdir/tests/cli/screen.py" --status "$status" <bytes >screen && cat screen &&
    grep -o "3 ranks  step [^$(printf "\033")]*" bytes >lines && cat lines && grep "[0-9] steps/s  0:0[0-9]:[0-9][0-9] left  loss 2.5" lines &&
    sed "s/^\[[0-2]\] //" screen | sort -V >got && for i in $(seq 30); do printf "line $i of rank %d\n" 0 1 2; done | sort -V >want && cmp got want'
test_expect_success 'there is none if the output is a pipe, and its bytes are those of the ranks' '
    on host1 "$accelerate" launch --quiet --cpu --mpi no --hosts host1:2,host2:1 "$steps" step=3 ms=1500 say=done >out 2>err &&
    printf "done\ndone\ndone\n" >want && cmp out want && ! [ -s err ]'
test_done
