#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate stacks: which job, text, JSON, and ranks that show no stack.
. "${srcdir:-.}/tests/testlib.sh"

needs_libdw
program=$builddir/tests/fault/stalls
stacks () {
    timeout $patience "$accelerate" stacks "$@"
}
# start COMMAND...: $processes ranks; the launcher's process is in $launcher.
start () {
    "$accelerate" launch --cpu --num_processes $processes "$@" >log 2>&1 &
    launcher=$!
}
processes=2
stop () { kill -TERM $launcher && { wait $launcher; test $? = 143; }; }
shows () { stacks $launcher >out 2>error && grep -q "$1" out; }

test_expect_success 'no job' '
    test_exit 1 stacks 999999999 2>error && cat error && test_exit 2 stacks a b 2>error && grep -q "unexpected argument .b." error'
test_expect_success 'two ranks in different places' '
    start "$program" pipe && wait_for shows "^  read_batch (stalls.c:[0-9]*)$" && cat out && stop &&
    grep -q "^rank 0: in accel_wait_for_everyone at .*stalls.c:[0-9]* for .* s$" out &&
    grep -q "^rank 1: computing after accel_wait_for_everyone at .*stalls.c:[0-9]* for .* s$" out &&
    grep -A 3 "^rank 1" out | grep -q "^  read (lib[a-z]*)$" && test "$(grep -c "^  main (stalls.c:[0-9]*)$" out)" = 2'
test_expect_success 'ranks in the same place are shown together' '
    start "$program" order && wait_for shows "^ranks 0-1: in accel_comm_recv at " && cat out && stop &&
    test "$(grep -c "^  exchange (stalls.c:[0-9]*)$" out)" = 1'
test_expect_success 'JSON, and a job by the beginning of its id' '
    start "$program" pipe && wait_for shows "read_batch" && stacks --json $launcher >json && id=$(sed -n "s/.*\"job\": \"\(......\).*/\1/p" json) &&
    stacks "$id" >out && stop && grep -q read_batch out && python3 - <<\EOF
import json
job = json.load (open ("json"))
assert job["world_size"] == 2 and [rank["rank"] for rank in job["ranks"]] == [0, 1], job
frames = job["ranks"][1]["stack"]
own = [frame for frame in frames if frame["function"] == "read_batch"]
assert own and own[0]["file"].endswith ("stalls.c") and own[0]["line"] > 0 and own[0]["module"].endswith ("stalls"), frames
assert job["ranks"][1]["reason"] is None and job["ranks"][1]["seconds"] > 0, job["ranks"][1]
assert any (frame["module"].endswith ("libaccel.so.0.0.0") for frame in job["ranks"][0]["stack"]), job["ranks"][0]
EOF'
printf '#!/bin/sh\n"$1" ms=10 quiet=1 &\nsleep 0.5\n"$1" steps=2 quiet=1\necho opened\nwait\n' >twice && chmod +x twice
test_expect_success 'a single process, also after a second program of its rank has opened the job' '
    processes=1 && start ./twice "$builddir/tests/cli/watched" && wait_for grep -q opened log &&
    wait_for shows "^  main (watched.c:[0-9]*)$" && stop && processes=2'
test_expect_success 'a program without libaccel, which reads a pipe' '
    mkfifo fifo && printf "#!/bin/sh\nexec cat \"%s\" 3<>\"%s\"\n" "$PWD/fifo" "$PWD/fifo" >reads && chmod +x reads && start ./reads &&
    wait_for shows "^ranks* .*: not in accel_open() yet$" && wait_for shows "sleeping in " && cat out && stop &&
    grep -q "^  no stack: its program has not called accel_open(); process [0-9]*: sleeping in .*, 1 thread$" out'
test_done
