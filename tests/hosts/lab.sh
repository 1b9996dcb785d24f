# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests across hosts, after testlib.sh.
#
#   begin_lab N                     start host1 ... hostN, or skip all tests with the reason
#   hosts VERB...                   hosts.sh
#   on HOST COMMAND...              run it there
#   all_clean HOST...               nothing of a job is left there, or will be soon
HOSTS_DIR=$scratch/lab HOSTS_OWNER=$$
OMP_NUM_THREADS=1 # or a note would say how many there are
export HOSTS_DIR HOSTS_OWNER OMP_NUM_THREADS

hosts () {
    sh "$srcdir/tests/hosts/hosts.sh" "$@"
}

# Programs of the test are found as on a shared file system; the login shell of a host has no variables of ours.
on () {
    hosts exec "$@"
}

begin_lab () {
    status=0
    hosts up "$1" >lab.out 2>&1 || status=$?
    case $status in
    0) trap 'hosts down; cd / && rm -rf "$scratch"' EXIT ;;
    77)
        test_skip 'all tests across hosts' "$(cat lab.out)"
        test_done
        ;;
    *)
        cat lab.out
        echo 'Bail out! cannot start the simulated hosts'
        exit 1
        ;;
    esac
}

# A host without a job has its first shell with a sleep, and sshd.
is_clean () {
    on "$1" ps -e -o comm= >"left.$1" && ! grep -vxE '(sh|sleep|sshd|ps)' "left.$1"
}
all_clean () {
    for host; do
        wait_for is_clean "$host" || return 1
    done
}
