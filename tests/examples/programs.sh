#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The example programs: they learn what they should, and the same on any number of processes.
. "${srcdir:-.}/tests/testlib.sh"

digits=$builddir/examples/digits
epochs=9 wanted_accuracy=95
is_long && epochs=30 wanted_accuracy=96
# With a sanitizer everything takes ten times as long: fewer epochs, and less is learned.
grep -q '^SAN_CFLAGS = .*-fsanitize' "$builddir/Makefile" && epochs=5 wanted_accuracy=90
launch () {
    processes=$1
    shift
    "$accelerate" launch --cpu --num_processes "$processes" --num_cpu_threads_per_process 1 "$@"
}
# last_accuracy FILE
last_accuracy () {
    sed -n '$s/.*processe\{0,1\}s\{0,2\}: \([0-9.]*\) %.*/\1/p' "$1"
}
# same_training A B: equal accuracies in all epochs, losses within 1e-5
same_training () {
    paste "$1" "$2" | awk '
        /^epoch/ {
            split ($0, half, "\t"); split (half[1], a, " +"); split (half[2], b, " +")
            difference = a[6] - b[6]
            if (difference < 0) difference = -difference
            if (difference > 1e-5 * a[6] || a[9] != b[9]) { print "differ:", $0; bad = 1 }
            lines++
        }
        END { exit bad || lines < 5 }'
}

for processes in 1 2 4; do
    test_expect_success "digits: $processes processes reach $wanted_accuracy %" '
        launch $processes "$digits" --epochs $epochs --seed 1 >log.$processes && cat log.$processes &&
        last_accuracy log.$processes | awk "{ print; good = \$1 >= $wanted_accuracy } END { exit !good }"'
done
test_expect_success 'digits: 2 processes train as 1 does' 'same_training log.1 log.2'
test_expect_success 'digits: 4 processes train as 1 does' 'same_training log.1 log.4'
test_expect_success 'digits: the same again gives the same bits' '
    launch 2 "$digits" --epochs $epochs --seed 1 >again && sed "\$d" again >a && sed "\$d" log.2 >b && diff a b'
test_expect_success 'digits: another seed is another training' '
    launch 2 "$digits" --seed 4 --epochs 2 >other && ! same_training log.2 other'
test_expect_success 'digits: two batches of half the size make the same steps' '
    launch 2 "$digits" --epochs $epochs --seed 1 --batch_size 32 --gradient_accumulation_steps 2 >halves && cat halves &&
    same_training log.1 halves'
test_expect_success 'digits: the environment says how many batches make a step' '
    ACCELERATE_GRADIENT_ACCUMULATION_STEPS=2 launch 2 "$digits" --epochs $epochs --seed 1 --batch_size 32 >told &&
    sed "\$d" told >a && sed "\$d" halves >b && diff a b'
test_expect_success 'digits: all processes stop when nothing gets better' '
    launch 2 "$digits" --lr 1e-30 --patience 2 --epochs 9 >stopped && cat stopped &&
    test "$(grep -c "^epoch" stopped)" = 2 && grep "^no improvement since epoch 0" stopped && grep "^2 processes: " stopped'
is_thread_sanitized || test_expect_success 'digits: the usual options' 'launch 2 "$digits" --epochs 5 --seed 1 >usual'
for option in "--max_grad_norm 1e-4" "--lr_scheduler linear" "--lr_scheduler constant" "--warmup 0"; do
    is_thread_sanitized && break
    test_expect_success "digits: $option counts" '
        launch 2 "$digits" --epochs 5 --seed 1 $option >other && ! same_training usual other'
done
# The launcher's word for the precision and the program's own, and masters that make up for what weights cannot hold.
for precision in fp16 bf16 fp8; do
    [ "$precision" != fp16 ] && is_thread_sanitized && break
    test_expect_success "digits: weights in $precision, $wanted_accuracy % as well" '
        "$accelerate" launch --cpu --num_processes 2 --mixed_precision $precision "$digits" --epochs $epochs --seed 1 >told &&
        launch 2 "$digits" --epochs $epochs --seed 1 --mixed_precision $precision >asked && cat told &&
        same_training told asked && ! same_training told log.2 &&
        last_accuracy told | awk "{ print; good = \$1 >= $wanted_accuracy } END { exit !good }"'
done
test_expect_success 'digits: runs without a launcher' '
    "$digits" --epochs 1 >alone && head -n 1 log.1 >wanted && grep -q "^1 process: " alone'
test_expect_success 'digits: --lr and --batch_size count' '
    "$digits" --epochs 1 --lr 1e-30 --batch_size 32 >still && "$digits" --epochs 0 >none &&
    test "$(last_accuracy still)" = "$(last_accuracy none)" && test -n "$(last_accuracy none)"'
test_expect_success 'digits: a batch that cannot be divided is refused' '
    test_exit 1 launch 3 "$digits" 2>error && cat error && grep "multiple of their number" error'

printf '1,2,3\n' >short.csv
sed '7s/,/,17,/;7s/,[0-9]*$//' "$srcdir/examples/data/digits.csv" >dark.csv
while IFS='|' read -r arguments message; do
    test_expect_success "digits $arguments: $message" '
        eval "test_exit 1 \"\$digits\" $arguments" >out 2>error && grep -F -- "$message" error && test ! -s out'
done <<'E2'
--epochs 2x|--epochs: '2x' is not a whole number
--epochs -1|--epochs: '-1' is not a whole number
--batch_size 0|--batch_size: '0' is not a whole number
--lr fast|--lr: 'fast' is not a valid learning rate
--mixed_precision fp4|--mixed_precision: 'fp4' is not one of
--seed|--seed: missing value
--batch_size 1500|--batch_size 1500 is greater than the number of training images, 1438
--sead 1|unknown option '--sead'
--max_grad_norm 0|--max_grad_norm: '0' is not a valid norm
--gradient_accumulation_steps 0|--gradient_accumulation_steps: '0' is not a whole number
--lr_scheduler sine|--lr_scheduler: 'sine' is not one of constant, linear, cosine
--data missing.csv|missing.csv: No such file
--data short.csv|short.csv: field 'image' needs columns 1 to 64, but there are 3
--data dark.csv|dark.csv:7:3: 17 is not in the range 0 to 16
E2

test_expect_success 'pi: 3 processes agree on 3.14' 'launch 3 "$builddir/examples/pi" >pi && cat pi && grep "^pi is about 3.14.*, computed by 3 process" pi'
test_expect_success 'tensor_parallel: the losses of one process in any grid, and it learns' '
    "$builddir/examples/tensor_parallel" >one && cat one &&
    for grid in "2 2" "4 2" "2 1"; do
        launch "${grid% *}" "$builddir/examples/tensor_parallel" "${grid#* }" >several && diff one several || return 1
    done &&
    awk "{ loss[NR] = \$4 } END { exit !(NR == 5 && loss[5] < loss[1] / 4) }" one && test_exit 2 launch 3 "$builddir/examples/tensor_parallel" 2'
test_expect_success 'README shows pi.c' '
    sed -n "/^#include <accel/,\$p" "$srcdir/examples/pi.c" >program &&
    sed -n "/^#include <accel/,/^\`\`\`/p" "$srcdir/README.md" | sed "\$d" >shown && diff program shown'
test_expect_success 'the sources compile as they are installed' '
    $CC -std=gnu11 -Wall -Wextra -Werror -I"$srcdir/include" -fsyntax-only "$srcdir"/examples/digits*.c \
        "$srcdir/examples/pi.c"'
test_expect_success 'digits --help is help' '"$digits" --help >out && grep "^usage: digits" out'
test_expect_success 'the README lists the packages that a build needs' '
    sed -n "/apt-get install/,/[^\\\\]\$/p" "$srcdir/README.md" | tr -d "\\\\" | tr -s " " "\n" | sed "1,3d" | sort >shown &&
    sed -n "s/^build //p" "$srcdir/scripts/packages.txt" | sort >needed && test -s needed && diff needed shown'
# A tree of stubs: bootstrap, configure, make and the launcher only print their arguments.
mkdir -p tree/scripts tree/build bin
cp "$srcdir/run-demo" tree
cp "$srcdir/scripts/setup.sh" tree/scripts
: >tree/scripts/packages.txt
for stub in bin/make tree/configure tree/bootstrap tree/build/accelerate; do
    printf '#!/bin/sh\necho "$@"\n' >$stub
    chmod +x $stub
done
test_expect_success 'run-demo says what it is doing' '
    PATH=$PWD/bin:$PATH ./tree/run-demo --no-install >out 2>&1 && cat out &&
    grep -x "run-demo: configuring build ... [0-9]* s" out && grep -x "run-demo: running in build/: .*" out &&
    grep -x "launch --num_processes 2 examples/digits" out'
test_expect_success 'the build is configured again where a compiler or a package has come, and only then' '
    : >tree/build/Makefile && printf "#!/bin/sh\necho \"\$@\" >>said\n" >tree/build/config.status && chmod +x tree/build/config.status &&
    PATH=$PWD/bin:$PATH ./tree/run-demo --no-install && test ! -e tree/build/said &&
    printf "#!/bin/sh\n" >bin/mpicc && chmod +x bin/mpicc && PATH=$PWD/bin:$PATH ./tree/run-demo --no-install >out &&
    grep "configuring build" out && grep -x -e --recheck tree/build/said && rm tree/build/said &&
    PATH=$PWD/bin:$PATH ./tree/run-demo --no-install >out && ! grep "configuring build" out && test ! -e tree/build/said'
test_expect_success 'in a folder with a space, the build is elsewhere' '
    cp -r tree "a tree" && rm -r "a tree/build" && cp bin/make "a tree/configure" && PATH=$PWD/bin:$PATH && export PATH &&
    printf "#!/bin/sh\necho it was \$0 >Makefile; cp ../src/launcher accelerate\n" >"a tree/configure" && cp bin/make "a tree/launcher" &&
    ./"a tree/run-demo" --no-install >out && cat out && elsewhere=$(readlink "a tree/build") &&
    grep -x "it was ${elsewhere%/*}/src/configure" "$elsewhere/Makefile" && rm -r "${elsewhere%/*}"'
# A make whose tests fail in the first run, and in the second if there is a file `broken`.
test_expect_success 'tests that failed run again, alone, where CHECK_AGAIN allows as many' '
    mkdir once && cat >bin/make <<\END && chmod +x bin/make && (
#!/bin/sh
echo "$*" >>asked
for argument in "$@"; do case $argument in TESTS=*) [ ! -e broken ]; exit ;; esac; done
printf "FAIL: tests/a.sh 2 - x\nERROR: tests/a.sh - exited with status 1\nERROR: tests/a\nFAIL: tests/b 1\n"
[ -e ended ] || printf "Testsuite summary\n# PASS:  7\n# SKIP:  1\n# FAIL:  2\n# ERROR: 1\n"
exit 2
END
    unset target && PATH=$PWD/bin:$PATH && . tree/scripts/setup.sh && tries () { passed=0 failed=0 skipped=0; CHECK_AGAIN=$1 check_in once K=1 >out || :; cat out; } &&
    tries 2 && grep "passed when run again, alone: tests/a.sh tests/b$" out && [ "$passed $failed $skipped" = "7 0 1" ] &&
    tail -n 1 asked | grep "check VERBOSE=1 K=1 TESTS= tests/a.sh tests/b$" &&
    tries 1 && grep "3 failed in once" out && [ "$failed" = 3 ] && tail -n 1 asked | grep "check VERBOSE=1 K=1$" &&
    : >ended && tries 2 && grep "1 failed in once" out && rm ended &&
    : >broken && tries 2 && grep "3 failed in once" out && [ "$failed" = 3 ])'
if [ "$(id -u)" = 0 ] && command -v dpkg-query >/dev/null; then
    test_expect_success 'a user without root and sudo reads all that root has to type' '
        mkdir few && for tool in apt-get dirname dpkg-query id nproc sed sh; do ln -s "$(command -v $tool)" few/ || return 1; done &&
        echo "build no-such-package" >tree/scripts/packages.txt && chmod -R a+rX . &&
        { PATH=$PWD/few test_exit 1 /usr/bin/setpriv --reuid=65534 --clear-groups ./tree/run-demo 2>err || return 1; } && cat err &&
        grep "run as root, .*: apt-get update && apt-get install --no-install-recommends no-such-package$" err'
else
    test_skip 'a user without root and sudo reads all that root has to type' 'needs root, to become one, and Debian'
fi
test_done
