#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One launcher per machine, started by hand: what asks one of them to save and stop asks the ranks of all machines.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/hosts/lab"
. "$srcdir/tests/http/serve"
begin_lab 2 || exit

cat >saves <<'END'
#!/bin/sh
# A rank that saves when it is asked to stop, which takes a while.
trap 'echo >"told.$RANK"; sleep 1; echo >"saved.$RANK"; exit 0' TERM
echo >"up.$RANK"
while :; do sleep 0.1; done
END
chmod +x saves

of_second= # options for the second machine only
# begin ARGUMENT...: a launcher on each machine, with two ranks; they know each other
begin () {
    rm -f up.* told.* saved.* status.*
    for k in 0 1; do
        {
            status=0
            # shellcheck disable=SC2086
            [ $k = 0 ] || set -- $of_second "$@"
            on "host$((k + 1))" timeout -k 10 $((4 * patience)) "$accelerate" launch --cpu --num_machines 2 --machine_rank $k \
                --num_processes 4 --main_process_ip host1 --main_process_port 29500 "$@" >out.$k 2>err.$k || status=$?
            echo "$status" >status.$k
        } &
    done
    await up.0 up.1 up.2 up.3 && wait_for are_connected
}
are_connected () {
    on host1 ss -Htn state established "( sport >= :30500 and sport <= :30508 )" >connections && [ -s connections ]
}
# have_saved WHY: all ranks, because of that, and each launcher says so in one line
have_saved () {
    wait_for test -s status.0 && wait_for test -s status.1 && cat status.? err.? && ls saved.* && [ "$(cat status.0 status.1)" = "75
75" ] && [ "$(find . -name "saved.*" | wc -l)" = 4 ] && for k in 0 1; do
        grep -x "accelerate: ended $1" err.$k && [ "$(grep -c "accelerate: ended" err.$k)" = 1 ] || return 1
    done
}

# A machine's metadata service is at an address of its own; host1 has none here.
test_expect_success 'a spot notice of one machine' '
    mkdir -p metadata && printf "/computeMetadata/v1/instance/preempted file=answer\n" >metadata/.rules && printf FALSE >metadata/answer &&
    { on host2 "$builddir/tests/http/server" metadata 1 >server.out 2>&1 & } && server=$! && await metadata/.port &&
    GCE_METADATA_HOST=127.0.0.1:$(cat metadata/.port) && export GCE_METADATA_HOST && begin --spot_notices gcp ./saves &&
    printf TRUE >metadata/answer && have_saved "because host2 will be taken away (GCP spot notice)" &&
    on host2 pkill -x server && { wait $server || :; } && all_clean host1 host2'
# On a busy machine, launchers may need longer to find each other.
stops_in_time () {
    of_second="--time_limit $1" && begin ./saves && have_saved "at the time limit" && all_clean host1 host2
}
test_expect_success 'SIGTERM to the launcher of one machine, and then of the other' '
    of_second= && begin ./saves && on host2 pkill -TERM -x accelerate && wait_for test -e told.0 && sleep 0.3 &&
    { on host1 pkill -TERM -x accelerate || :; } && wait_for test -s status.0 && wait_for test -s status.1 &&
    cat status.? err.? && ls saved.* && [ "$(cat status.0 status.1)" = "75
143" ] && [ "$(find . -name "saved.*" | wc -l)" = 4 ] && grep -x "accelerate: ended by SIGTERM on host2" err.0 &&
    grep -x "accelerate: ended by SIGTERM" err.1 && all_clean host1 host2'
if is_long; then
test_expect_success 'a time limit that is over on one machine first' '
    if stops_in_time 8; then :; elif stops_in_time 30; then :; else stops_in_time 90; fi'
fi
test_done
