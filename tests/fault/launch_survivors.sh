#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# However a launch ends, no process of the job remains, and nothing in /dev/shm.
. "${srcdir:-.}/tests/testlib.sh"
drive=$builddir/tests/fault/drive

# A rank with children in sessions of their own, one an orphan already, one that hides its environment, and with one in
# its own.  It becomes the sleeper, because a signal that comes while a shell starts a program may be lost.
cat >rank <<'EOF'
#!/bin/sh
setsid sleep 300 &
setsid sh -c 'sleep 301 & sleep 302' &
(setsid env -i /bin/sleep 303 &)
sleep 305 &
echo ready
exec sleep 304
EOF
chmod +x rank
# The same, deaf to what can be ignored.
sed 's/^setsid sleep/trap "" TERM INT HUP QUIT\n&/; s/^exec sleep 304/while :; do sleep 304; done/' rank >deaf
chmod +x deaf

test_expect_success 'SIGKILL to the launcher of 3 ranks' '
    test_exit 137 "$drive" -n 3 -s 9 -- "$accelerate" launch --cpu --num_processes 3 ./rank && nothing_left
'
test_expect_success 'SIGKILL to the launcher of 1 rank' '
    test_exit 137 "$drive" -n 1 -s 9 -- "$accelerate" launch ./rank && nothing_left
'
test_expect_success 'SIGKILL to the launcher of ranks that ignore signals' '
    test_exit 137 "$drive" -n 2 -s 9 -- "$accelerate" launch --cpu --num_processes 2 ./deaf && nothing_left
'
test_expect_success 'SIGKILL to a launcher that a rank of another has started' '
    test_exit 137 "$drive" -n 2 -s 9 -- "$accelerate" launch "$accelerate" launch --cpu --num_processes 2 ./rank && nothing_left
'
test_expect_success 'SIGKILL to the process that watches the ranks' '
    sed "s/^exec sleep 304/[ \$RANK = 0 ] \&\& kill -9 \$PPID; sleep 304/" rank >kills && chmod +x kills &&
    test_exit 137 "$drive" -- "$accelerate" launch --cpu --num_processes 3 ./kills 2>err && nothing_left &&
    grep "supervises the ranks was killed by signal 9" err
'
for number in 1 2 3 15; do
    test_expect_success "signal $number to the launcher" '
        test_exit $((128 + number)) "$drive" -n 2 -s $number -- \
            "$accelerate" launch --cpu --num_processes 2 ./rank && nothing_left
    '
done
test_expect_success 'SIGTERM to the launcher of one rank' '
    test_exit 143 "$drive" -n 1 -s 15 -- "$accelerate" launch ./rank && nothing_left
'
# In a chroot or a container /dev/pts may be missing.
if "$drive" -p -- true >/dev/null; then
    at_a_terminal () { test_expect_success "$@"; }
else
    at_a_terminal () { test_skip "$1" 'no pseudo-terminals here'; }
fi
at_a_terminal '^C typed at a terminal, 2 ranks' '
    test_exit 130 "$drive" -p -n 2 -c 3 -- "$accelerate" launch --label yes --cpu --num_processes 2 ./rank && nothing_left
'
at_a_terminal '^Z stops nothing if no shell could continue it' '
    printf "#!/bin/sh\necho ready\nsleep 1\n" >short && chmod +x short &&
    test_exit 0 "$drive" -p -n 2 -c 26 -- "$accelerate" launch --label yes --cpu --num_processes 2 ./short && nothing_left
'
at_a_terminal '^C typed at a terminal, 1 rank' '
    test_exit 130 "$drive" -p -n 1 -c 3 -- "$accelerate" launch ./rank && nothing_left
'
test_expect_success 'ranks that ignore SIGTERM are killed after --grace' '
    test_exit 143 "$drive" -n 2 -s 15 -- "$accelerate" launch --grace 1 --cpu --num_processes 2 ./deaf 2>err && nothing_left &&
    grep "2 processes did not end within 1 s and had to be killed" err
'
test_expect_success 'a second SIGINT kills at once' '
    test_exit 130 "$drive" -n 2 -s 2 -t 2 -- "$accelerate" launch --grace 600 --cpu --num_processes 2 ./deaf && nothing_left
'
test_expect_success 'ranks that end and leave daemons behind' '
    sed "s/^exec sleep 304/exit 0/" rank >leaves && chmod +x leaves &&
    test_exit 0 "$drive" -n 2 -- "$accelerate" launch --cpu --num_processes 2 ./leaves && nothing_left
'
test_expect_success 'one rank fails: the others and their children end too' '
    sed "s/^exec sleep 304/[ \$RANK = 0 ] \&\& exit 7; sleep 304/" rank >fails && chmod +x fails &&
    test_exit 7 "$drive" -- "$accelerate" launch --cpu --num_processes 3 ./fails && nothing_left
'
# So many that several threads start them; a rank lives as long as the thread that started it, so that must not end.
for number in 9 15; do
    test_expect_success "signal $number to the launcher of 24 ranks" '
        test_exit $((128 + number)) "$drive" -n 24 -s $number -- \
            "$accelerate" launch --cpu --num_processes 24 ./rank && nothing_left
    '
done
test_expect_success 'one rank of 24 fails' '
    sed "s/^exec sleep 304/[ \$RANK = 13 ] \&\& exit 9; sleep 304/" rank >fails && chmod +x fails &&
    test_exit 9 "$drive" -- "$accelerate" launch --cpu --num_processes 24 ./fails 2>err && nothing_left &&
    grep "rank 13" err
'
test_expect_success '24 ranks that cannot be started: the first is reported, none stays' '
    head -c 64 /bin/true >cannot && chmod +x cannot &&
    test_exit 126 "$drive" -- "$accelerate" launch --cpu --num_processes 24 ./cannot 2>err && nothing_left &&
    grep "cannot start rank 0" err
'
test_expect_success 'orphans that end during the job leave no zombies' '
    cat >orphans <<-\EOF &&
	#!/bin/sh
	i=0
	while [ $i -lt 20 ]; do (true &); i=$((i + 1)); done
	i=0
	while grep -l "^[0-9]* ([a-z]*) Z $PPID " /proc/[0-9]*/stat 2>/dev/null; do
	    [ $i -lt 600 ] || exit 1
	    i=$((i + 1)) && sleep 0.1
	done
	EOF
    chmod +x orphans && test_exit 0 "$accelerate" launch ./orphans
'
test_done
