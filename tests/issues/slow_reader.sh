#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A slow reader of standard error got only the first bytes, as many as the pipe holds: the launcher ended without passing on the rest.
. "${srcdir:-.}/tests/testlib.sh"

cat >rank <<'EOF'
#!/bin/sh
yes 0123456789012345678901234567890123456789 | head -n 5000 >&2
EOF
chmod +x rank
for processes in 1 3; do
    test_expect_success "$processes ranks that are long gone when their lines are read" '
        { "$accelerate" launch --quiet --cpu --num_processes $processes ./rank 2>&1; echo $? >status; } |
            { sleep 1 && wc -l; } >got && cat got && test "$(cat status)" = 0 && test "$(cat got)" = $((5000 * processes))'
done
test_expect_success 'the reader is gone' '
    { "$accelerate" launch --quiet --cpu --num_processes 2 ./rank 2>&1; echo $? >status; } | head -n 1 && test "$(cat status)" = 0'
test_expect_success 'a reader of long named lines that goes away blocks no process' '
    { timeout $patience "$accelerate" launch --quiet --cpu --num_processes 2 --tee 3 --log_dir logs sh -c "yes \$(printf %05000d 1) | head -n 200" 2>&1
        echo $? >status; } | head -n 1 >got && test "$(cat status)" = 0'
test_done
