#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Where Python programs are, if they let faulthandler write it: accelerate stacks, and the table of a signal.
. "${srcdir:-.}/tests/testlib.sh"
if ! python3 -c 'import faulthandler' 2>error; then
    skip_rest 'there is no python3'
fi

cat >train.py <<'END'
import faulthandler, os, threading, time

def read_batch ():
    os.read (ends[0], 1)

def step ():
    if os.environ["RANK"] == "1":
        read_batch ()
    threading.Event ().wait ()

ends = os.pipe ()
threading.Thread (target = time.sleep, args = (1000,), daemon = True).start ()
if os.environ["RANK"] != "3":
    faulthandler.register (int (os.environ["ACCEL_STACK_SIGNAL"]), file = int (os.environ["ACCEL_STACK_FD"]))
with open ("up." + os.environ["RANK"], "w") as up:
    print ("/proc/%d/fd/%s" % (os.getpid (), os.environ["ACCEL_STACK_FD"]), file = up)
step ()
END
line_of () { grep -n "$1" train.py | cut -d : -f 1; }
reading=$(line_of os.read)
waiting=$(line_of wait)
calling=$(line_of '^step ()')
# start COUNT
start () {
    rm -f up.*
    "$accelerate" launch --cpu --num_processes "$1" train.py >log 2>&1 &
    launcher=$!
    rank=$1
    while [ "$((rank -= 1))" -ge 0 ]; do
        wait_for test -s up.$rank || return 1
    done
}
stop () { kill -TERM $launcher && { wait $launcher; test $? = 143; }; }
# A rank that has just said that it is up may not be in its last function yet; and one that gets no processor shows
# nothing in time.
shows_lines () {
    timeout $patience "$accelerate" stacks $launcher >out && grep -q "^  read_batch (train.py:$reading)$" out &&
        grep -q "^  step (train.py:$waiting)$" out && test "$(grep -c "^  <module> (train.py:$calling)$" out)" = 2
}
shows_json () { timeout $patience "$accelerate" stacks --json $launcher >json && grep -q read_batch json; }
# ask FILE: until rank 1 is shown
ask () {
    until timeout $patience "$accelerate" stacks $launcher >"$1" && grep -q "^  read_batch" "$1"; do :; done
}
has_table () {
    start 2 && wait_for shows_lines && stop && grep -q "^    rank 0: in Python, in step (train.py:$waiting)$" log &&
        grep -q "^    rank 1: in Python, in read_batch (train.py:$reading)$" log
}

test_expect_success 'equal stacks together, with lines; nothing is sent to who does not expect it' '
    start 4 && wait_for shows_lines && cat out && grep -q "^ranks 0, 2: in Python$" out && grep -q "^rank 1: in Python$" out &&
    grep -q "^  no stack: its program has not called accel_open(); process [0-9]*: " out && wait_for shows_json && stop &&
    python3 - <<\EOF
import json
ranks = json.load (open ("json"))["ranks"]
frames = ranks[1]["stack"]
assert [frame["function"] for frame in frames] == ["read_batch", "step", "<module>"], frames
assert frames[0]["file"].endswith ("/train.py") and frames[0]["module"] is None and frames[0]["address"] is None, frames
assert ranks[1]["reason"] is None and ranks[3]["reason"] and not ranks[3]["stack"], ranks
EOF'
test_expect_success 'all who ask at the same time get answers, and the ranks live on' '
    asking= && start 2 && for i in 1 2 3 4; do
        ask out.$i &
        asking="$asking $!"
    done && for pid in $asking; do wait $pid || return 1; done && stop && cat log'
test_expect_success 'what one asks for, another does not cut off' '
    start 2 && wait_for shows_lines && python3 - "$(cat up.1)" "$accelerate" stacks $launcher >locked <<\EOF && cat locked && stop &&
import fcntl, subprocess, sys
with open (sys.argv[1], "r+") as file:
    fcntl.flock (file, fcntl.LOCK_EX)
    file.write ("not cut off")
    file.flush ()
    subprocess.run (sys.argv[2:], check = True)
    file.seek (0)
    assert file.read ().startswith ("not cut off")
EOF
    grep -q "^  no stack: it did not show its stack within " locked && cat log'
test_expect_success 'the table of a signal has the function of each rank' '
    for try in 1 2 3 4; do ! has_table || break; done && cat log && test $try != 4'
test_done
