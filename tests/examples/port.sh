#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# examples/port: a plain program and its port differ in few lines, which its README shows, and compute the same.
. "${srcdir:-.}/tests/testlib.sh"

port=$srcdir/examples/port
built=$builddir/examples/port
launch () {
    processes=$1
    shift
    "$accelerate" launch --cpu --num_processes "$processes" --num_cpu_threads_per_process 1 "$@"
}
# close_to A B: the same epochs, losses within 1e-3 of A's, accuracies within 1 %
close_to () {
    paste "$1" "$2" | awk '
        /^epoch/ {
            split ($0, half, "\t"); split (half[1], a, " +"); split (half[2], b, " +")
            loss = a[5] - b[5]; accuracy = a[7] - b[7]
            if (loss < 0) loss = -loss
            if (accuracy < 0) accuracy = -accuracy
            if (a[2] != b[2] || loss > 1e-3 * a[5] || accuracy > 1) { print "differ:", $0; bad = 1 }
            lines++
        }
        END { exit bad || lines != 60 }'
}

test_expect_success 'at most 15 lines are added, and at most 15 taken away' '
    test_exit 1 diff -u0 "$port/plain.c" "$port/ported.c" >all_changes && sed 1,2d all_changes >changes && cat changes &&
    test "$(grep -c "^+" changes)" -le 15 && test "$(grep -c "^-" changes)" -le 15 && test -s changes'
test_expect_success 'README shows the changes' '
    sed -n "/^\`\`\`diff/,/^\`\`\`\$/p" "$port/README.md" | sed "1d;\$d" >shown && diff changes shown'
test_expect_success 'the plain program has nothing of libaccel' '! grep -in accel "$port/plain.c" && "$built/plain" >plain'
test_expect_success 'it learns' '
    tail -n 1 plain && tail -n 1 plain | awk "{ exit !(\$2 == 60 && \$5 < 0.1 && \$7 > 95) }"'
test_expect_success 'the port alone prints the same' '"$built/ported" >alone && diff plain alone'
test_expect_success 'one process under the launcher prints the same' 'launch 1 "$built/ported" >one && diff plain one'
for processes in 2 3; do
    test_expect_success "$processes processes learn the same" '
        launch $processes "$built/ported" >several && tail -n 1 several && close_to plain several'
done
test_expect_success 'the sources compile as they are installed' '
    $CC -std=gnu11 -Wall -Wextra -Werror -I"$srcdir/include" -fsyntax-only "$port/plain.c" "$port/ported.c"'
test_done
