#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The simulated hosts are what the other tests take them for.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/hosts/lab"

test_expect_success 'wrong usage is refused' '
    test_exit 2 hosts up none && test_exit 2 hosts && test_exit 2 hosts exec host1
'
begin_lab 2 || exit
lab=$(sed "s/ .*//" "$HOSTS_DIR/lab")
test_expect_success 'each host has its own name, processes and addresses' '
    on host1 hostname >name && echo host1 | diff - name &&
    on host2 ps -e -o comm= >processes && ! grep -E "make|dash" processes &&
    on host2 ip -4 -o addr show eth0 >address && grep 10.91.0.2 address
'
test_expect_success 'ssh from one to the other needs no options' '
    on host1 ssh host2 hostname >name && echo host2 | diff - name
'
test_expect_success 'they share files' 'echo shared >file && on host2 cat "$PWD/file" >copy && diff file copy'
test_expect_success 'a host can be cut off and comes back' '
    hosts cut host2 && test_exit 255 on host1 ssh -o ConnectTimeout=1 host2 true 2>err &&
    hosts heal host2 && on host1 ssh host2 true
'
# Each direction of each of the messages that ssh begins with is late.
test_expect_success 'a link can be slowed, and loses packets' '
    hosts slow host2 100ms 0% && begin=$(date +%s%N) && on host1 ssh host2 true && end=$(date +%s%N) &&
    test $((end - begin)) -gt 600000000 &&
    hosts slow host2 0ms 100% && test_exit 255 on host1 ssh -o ConnectTimeout=1 host2 true 2>err &&
    hosts heal host2 && on host1 ssh host2 true
'
test_expect_success 'a host can be powered off, and started again' '
    hosts off host2 && test_exit 1 on host2 true 2>err && grep "no such host is up: host2" err &&
    hosts up 2 && on host1 ssh host2 hostname >name && echo host2 | diff - name
'
test_expect_success 'nothing is left behind' 'hosts down && ! test -e "$HOSTS_DIR" && has_exited "$lab"'
lose_owner () {
    sleep 1000 &
    owner=$!
    HOSTS_OWNER=$owner hosts up 1 && lab=$(sed "s/ .*//" "$HOSTS_DIR/lab") && kill -9 $owner && gone "$lab"
}
test_expect_success 'nor when the owner is killed' lose_owner
test_done
