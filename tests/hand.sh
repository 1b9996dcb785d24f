#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Starts ranks as another launcher would: hand.sh PROCESSES PORT COMMAND...
# Exit status: the largest of the ranks' own (128+N for signal N).
processes=$1 port=$2
shift 2
pids=
for rank in $(seq $((processes - 1)) -1 0); do
    RANK=$rank WORLD_SIZE=$processes LOCAL_RANK=$rank LOCAL_WORLD_SIZE=$processes MASTER_ADDR=127.0.0.1 \
        MASTER_PORT=$port "$@" &
    pids="$pids $!"
done
largest=0
for pid in $pids; do
    wait "$pid"
    status=$?
    [ "$status" -le "$largest" ] || largest=$status
done
exit "$largest"
