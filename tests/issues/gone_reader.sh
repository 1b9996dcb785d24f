#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The reader of the ranks' output went while the pipe and the launcher's queue were full: the launcher spun, and never
# ended.
. "${srcdir:-.}/tests/testlib.sh"
mkfifo out err

# rank HOW: more than pipes and queues hold, on both streams; then HOW again and again until the file `stop` is there
cat >rank <<'END'
#!/bin/sh
trap '' PIPE
[ $RANK = 1 ] || echo $PPID >supervisor
yes 1234567890123456789012345678901234567890 | head -n 20000
yes 1234567890123456789012345678901234567890 | head -n 20000 >&2
echo 1 >full$RANK
until [ -e stop ]; do
    case $1 in
    sleep) sleep 0.05 ;;
    lines) echo word && echo word >&2 && sleep 0.02 ;;
    flood) yes 1234567890123456789012345678901234567890 | head -n 2000 ;;
    esac
done
exit 0
END
chmod +x rank

# sleeps PID: it is found asleep ten times in a row, and takes almost no time of a CPU; a busy machine may need tries
cpu_ticks () { sed 's/.*) //' "/proc/$1/stat" | { read -r a b c d e f g h i j k user system rest && echo $((user + system)); }; }
sleeps () {
    for try in 1 2 3 4 5 6 7 8 9 10; do
        asleep=0 before=$(cpu_ticks "$1")
        for sample in 1 2 3 4 5 6 7 8 9 10; do
            sleep 0.03
            ! grep -q ') S ' "/proc/$1/stat" || asleep=$((asleep + 1))
        done
        echo "asleep $asleep times, $(($(cpu_ticks "$1") - before)) ticks"
        [ $asleep -lt 10 ] || [ $(($(cpu_ticks "$1") - before)) -gt 3 ] || return 0
    done
    kill -9 $launcher # or it would continue like that
    return 1
}
# more_than BYTES: in the first rank's file
more_than () { [ "$(cat logs/*/*/0/stdout.log | wc -c)" -gt "$1" ]; }
# start HOW WHERE: ranks whose lines have no reader; where both streams go
start () {
    rm -rf logs full? stop supervisor
    exec 7<>out 8<>err
    case $2 in
    same) "$accelerate" launch --quiet --cpu --num_processes 2 --tee 3 --log_dir logs ./rank "$1" >out 2>&1 7>&- 8>&- & ;;
    *) "$accelerate" launch --quiet --cpu --num_processes 2 --tee 3 --log_dir logs ./rank "$1" >out 2>err 7>&- 8>&- & ;;
    esac
    launcher=$!
    wait_for test -s full0 && wait_for test -s full1
}
for where in same different; do
    for how in sleep lines; do
        test_expect_success "the reader goes, $where streams, ranks: $how" '
            start $how $where && exec 7>&- 8>&- && sleeps "$(cat supervisor)" && : >stop && test_exit 0 wait $launcher'
    done
    test_expect_success "the reader goes, $where streams, and ranks write without a pause" '
        start flood $where && exec 7>&- 8>&- && wait_for more_than 1000000 &&
        : >stop && test_exit 0 wait $launcher'
done
test_expect_success 'the reader of one stream goes, that of the other stands still' '
    start lines different && exec 8>&- && sleeps "$(cat supervisor)" && : >stop && exec 7>&- && test_exit 0 wait $launcher'
test_done
