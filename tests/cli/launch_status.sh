#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The status line at the bottom of a terminal: what it says, that output never tears it nor it output, and what is left
# on the screen by a job that ends, stops or is killed.
. "${srcdir:-.}/tests/testlib.sh"

has_terminals || skip_rest "$no_terminals"
steps=$builddir/tests/cli/steps
two="--quiet --cpu --num_processes 2"
status="[0-9]+ ranks?  step [0-9]+( to [0-9]+)?(  [0-9.e+]+ (steps/s|s/step))?(  [0-9]+:[0-9][0-9]:[0-9][0-9] left)?(  [a-z_?]+ [0-9.e+-]+)*"

# on_terminal ARGUMENTS...: the terminal's bytes go to `bytes`; exits as the command does
on_terminal () {
    python3 "$srcdir/tests/cli/on_terminal.py" "$@" >bytes
}
# What is left on it; fails if the status line was torn at any time, or never there.
screen () { # ARGUMENT... of screen.py
    python3 "$srcdir/tests/cli/screen.py" "$@" <bytes >screen
}
has_no_status () {
    python3 "$srcdir/tests/cli/screen.py" <bytes >screen && ! grep "ranks\{0,1\}  step" screen
}
never_there () {
    ! grep "ranks\{0,1\}  step" bytes
}

test_expect_success 'lines of output above it, and nothing of it is left' '
    on_terminal "$accelerate" launch $two "$steps" run=40:20 && screen --status "$status" && cat screen &&
    sort -V screen >got && for i in $(seq 40); do printf "[0] line $i of rank 0\n[1] line $i of rank 1\n"; done | sort -V >want &&
    cmp got want'

test_expect_success 'it says ranks, step, rate, time left and what was logged' '
    on_terminal "$accelerate" launch $two "$steps" total_steps=1000 loss=2.515625 step=100 ms=600 step=110 ms=600 step=120 ms=1500 &&
    tr "\r" "\n" <bytes >lines && cat lines &&
    sed -n -E "s/.*2 ranks  step 120  ([0-9.]+) steps.s  0:0([0-9]):([0-9][0-9]) left  loss 2.516.*/\\1 \\2 \\3/p" lines | tail -n 1 >got &&
    awk "{ left = 880 / \$1 - 60 * \$2 - \$3; exit \$1 > 17 || left > 5 || left < -5 }" got && [ -s got ]'
test_expect_success 'ranks that are far apart, slow steps, and names that are not text' '
    on_terminal "$accelerate" launch $two "$steps" 0/step=7 1/step=50 "$(printf "0/l\033[7mo=1")" ms=1500 0/step=8 ms=1500 &&
    tr "\r" "\n" <bytes >lines && cat lines && grep "2 ranks  step 7 to 50" lines &&
    grep -E "step 8 to 50  [1-9][0-9.]* s/step  l.\[7mo 1" lines'
test_expect_success 'of a program that logs with libaccel: the step and the values of accel_log()' '
    on_terminal "$accelerate" launch $two "$builddir/tests/cli/watched" steps=40 ms=50 log=100 && screen --status "$status  lr.\[31m 0[.0-9]*" && cat screen &&
    tr "\r" "\n" <bytes >lines && cat lines && grep -E "2 ranks  step 1[0-3][0-9]  [0-9.]+ steps/s  loss 1  " lines && has_no_status'
test_expect_success 'the time left, of a program that tells its trackers how many steps it makes' '
    on_terminal "$accelerate" launch $two "$builddir/tests/cli/watched" steps=40 ms=50 log=100 total=100000 &&
    tr "\r" "\n" <bytes >lines && cat lines && grep -E "2 ranks  step 1[0-3][0-9]  [0-9.]+ steps/s  [0-9]+:[0-9:]+ left  loss 1  " lines'
test_expect_success 'in a narrow terminal, as much of it as fits' '
    on_terminal --resize 24 wide "$accelerate" launch $two "$steps" 0/say=wide loss=2.5 0/put=begin ms=500 0/say=end step=7 ms=1200 &&
    tr "\r" "\n" <bytes >lines && cat lines && grep "2 ranks  step 7" lines && ! grep "2 ranks  step 7  loss" lines'

test_expect_success 'no status line: programs that show no steps, dumb terminals, pipes, one rank that writes itself' '
    on_terminal "$accelerate" launch $two "$steps" say=hello ms=600 && never_there &&
    TERM=dumb on_terminal "$accelerate" launch $two "$steps" run=3:300 && never_there &&
    on_terminal "$accelerate" launch --quiet --cpu --num_processes 1 "$steps" run=3:300 && never_there &&
    on_terminal sh -c "\"\$0\" launch $two \"\$1\" run=3:300 | cat" "$accelerate" "$steps" && never_there &&
    "$accelerate" launch $two "$steps" step=1 ms=600 >out 2>&1 && ! [ -s out ]'
test_expect_success 'NO_COLOR: without colours' '
    NO_COLOR=1 on_terminal "$accelerate" launch $two "$steps" run=3:300 && screen --status "$status" &&
    ! grep "$(printf "\033")\[[0-9;]*m" bytes'

test_expect_success 'unfinished lines, progress bars and escapes keep the bottom for themselves' '
    on_terminal "$accelerate" launch $two "$steps" step=1 0/put="$(printf "\r10 %%\r")" ms=400 step=2 0/put="$(printf "20 %%\r")" ms=400 \
        step=3 0/say= 1/put=question: ms=900 1/say=answer 1/make=said await=said ms=500 "0/say=$(printf "a\033[1mbold\033[0mword")" step=4 ms=700 run=5:100 &&
    screen --status "$status" && cat screen && grep -x "\[0\] 20 %" screen && grep -x "\[1\] question:answer" screen &&
    grep -x "\[0\] aboldword" screen'

test_expect_success 'much output at once' '
    on_terminal "$accelerate" launch $two sh -c "\"\$0\" run=5:100; seq -f \"%.0f of rank \$RANK\" 30000; \"\$0\" run=5:100" "$steps" &&
    screen --status "$status" && [ "$(grep -c "of rank 0$" screen)" = 30010 ] && [ "$(grep -c "of rank 1$" screen)" = 30010 ]'

test_expect_success 'nothing of it is left where a rank fails, and on ^C' '
    test_exit 3 on_terminal "$accelerate" launch --cpu --num_processes 2 sh -c "\"\$0\" run=5:200; exit 3" "$steps" &&
    screen --status "$status" && cat screen && grep "^accelerate: rank" screen && has_no_status &&
    test_exit 130 on_terminal --type "\x03" "line 5 of rank 1" "$accelerate" launch --cpu --num_processes 2 "$steps" run=5:200 ms=60000 &&
    screen --status "$status" && cat screen && grep "accelerate: ended by SIGINT" screen && has_no_status'

cat >killed <<'EOF'
#!/bin/sh
# killed supervisor|guardian: a job whose supervisor or guardian is killed while the status line is there
"$accelerate" launch --cpu --num_processes 2 "$steps" gradient_norm=1.5 learning_rate=0.001 loss=2.5 run=5:100 ms=1000 \
    make=shown ms=60000 &
launcher=$!
until [ -e shown ]; do sleep 0.05; done
case $1 in
supervisor) kill -9 $(pgrep -P $launcher) ;;
guardian) kill -9 $launcher ;;
esac
wait $launcher
echo "ended by $?"
sleep 1
EOF
chmod +x killed
export accelerate steps
test_expect_success 'nor where the supervisor is killed; where the guardian is, what it leaves is not written over' '
    rm -f shown && on_terminal ./killed supervisor && screen --status "$status" && cat screen && has_no_status &&
    grep -x "accelerate: the process that supervises the ranks was killed by signal 9" screen &&
    rm -f shown && on_terminal ./killed guardian && screen && cat screen && grep "ended by 137" screen'

# Each step begins once a word is on the screen that comes after the step before.
test_expect_success '^Z: the shell has the screen for itself, in the background, too; fg brings the line back' '
    on_terminal --type "$accelerate launch $two $steps run=6:100 ms=700 run=1:0 ms=400 await=go run=200:20\n" "begins: " \
        --type "\x1a" "line 7 of rank 1(.|\n)*step 7" --type "bg; echo >go\n" "Stopped(.|\n)*begins: " --type "\n" "line 60 of rank 1" \
        --type "fg\n" "line 80 of rank 1" --type "exit\n" "line 207 of rank [01](.|\n)*line 207 of rank [01](.|\n)*begins: " \
        env PS1="begins: " bash --norc --noprofile --noediting -i && screen --status "$status" && cat screen && grep Stopped screen && has_no_status &&
    sed -n "/begins: bg/,/fg/p" bytes >background && grep "line 70 of rank 1" background && ! grep "ranks  step" background'
test_done
