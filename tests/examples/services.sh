#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# examples/slurm and examples/systemd: the batch script run with Slurm's variables and stand-ins for srun and scontrol, the
# unit checked by systemd where it is installed; the command lines of both are accepted by `accelerate launch`.
. "${srcdir:-.}/tests/testlib.sh"

batch=$srcdir/examples/slurm/job.sbatch
unit=$srcdir/examples/systemd/train.service
mkdir bin
PATH=$scratch/bin:$PATH
export accelerate

# script NAME: make a command of this name from standard input
script () {
    { echo '#!/bin/sh'; cat; } >"bin/$1" && chmod +x "bin/$1"
}
# What the nodes print, one after the other; like srun, fails if one of them does.
script srun <<'END'
while :; do
    case $1 in
    --ntasks-per-node=1 | --kill-on-bad-exit=1) shift ;;
    -*) echo "srun: unknown option $1" >&2; exit 1 ;;
    *) break ;;
    esac
done
status=0 node=0
while [ $node -lt "$SLURM_JOB_NUM_NODES" ]; do
    SLURM_NODEID=$node SLURM_PROCID=$node SLURM_LOCALID=0 SLURM_STEP_NUM_TASKS=$SLURM_JOB_NUM_NODES \
        SLURM_STEP_TASKS_PER_NODE="1(x$SLURM_JOB_NUM_NODES)" "$@" >node$node.out 2>node$node.err || status=$?
    cat node$node.out node$node.err
    node=$((node + 1))
done
exit $status
END
script squeue <<'END'
date -d "${ends-24 hours}" +%Y-%m-%dT%H:%M:%S
END
script scontrol <<'END'
[ "$1" != requeue ] || { echo "$2" >requeued && exit; }
[ "$*" = 'show hostnames node[1-2]' ] || { echo "scontrol: unexpected: $*" >&2; exit 1; }
printf 'node1\nnode2\n'
END

# The number of a job whose port, 20000 + the number % 9500, is free.
job=$(free_port) && job=$((job + 9500 - 20000)) || exit 99
port=$((20000 + job % 9500))

# job NODES GPUS ARGUMENT...: the batch script as Slurm runs it
job () {
    nodes=$1 gpus=$2
    shift 2
    if [ "$gpus" ]; then
        SLURM_GPUS_ON_NODE=$gpus
        export SLURM_GPUS_ON_NODE
    fi
    SLURM_JOB_ID=$job SLURM_JOB_NODELIST='node[1-2]' SLURM_JOB_NUM_NODES=$nodes sh "$batch" "$@"
}

test_expect_success 'the batch script is a script of sh' 'sh -n "$batch" && head -n 1 "$batch" | grep -qx "#!/bin/sh"'
test_expect_success 'its options for sbatch come before the first command' '
    sed -n "/^[^#]/q; /^#SBATCH/p" "$batch" >options && grep -c "^#SBATCH --" options >count && cat options count &&
    test "$(cat count)" = "$(grep -c "^#SBATCH" "$batch")" && ! grep "signal" options'
test_expect_success 'outside of a job it says what to do' '
    ! sh "$batch" true 2>err && cat err && grep "submit this file with sbatch" err'

script accelerate <<'END'
first=$1
shift
exec "$accelerate" "$first" --dry_run "$@"
END
test_expect_success 'two nodes: each launcher gets its share of the ranks and meets the others at the first node' '
    job 2 4 --cpu /bin/echo a "b c" >out && cat out &&
    grep -q "^  4 of 8, ranks 0 to 3;" node0.out && grep -q "^  4 of 8, ranks 4 to 7;" node1.out &&
    grep -qx "  MASTER_ADDR=node1" node0.out && grep -qx "  MASTER_ADDR=node1" node1.out &&
    grep -qx "  MASTER_PORT=$port" node0.out && grep -qx "  MASTER_PORT=$port" node1.out &&
    grep -q "/bin/echo a .b c.\$" node1.out'
test_expect_success 'one node: RANKS_PER_NODE overrides the number of GPUs' '
    RANKS_PER_NODE=3 && export RANKS_PER_NODE && job 1 4 --cpu /bin/true >out && cat out && grep -q "^  3 of 3, ranks 0 to 2;" out'
test_expect_success 'one node without GPUs: one rank' 'job 1 "" --cpu /bin/true >out && cat out && grep -q "^  1 of 1" out'

script accelerate <<'END'
exec "$accelerate" "$@"
END
test_expect_success 'one node: libaccel finds its job in spite of the variables of the step' '
    RANKS_PER_NODE=2 && export RANKS_PER_NODE && job 1 "" --cpu "$builddir/examples/pi" >out && cat out &&
    grep -q "3\.14" out && grep -q "2 process" out'
test_expect_success 'a status of a rank comes out' 'test_exit 7 job 1 "" --cpu sh -c "exit 7"'

script program <<'END'
trap 'echo "rank $RANK saves a checkpoint"; exit 0' USR1
echo ready >>ready
while [ -e ready ]; do sleep 0.1; done
END
script srun <<'END'
shift 2
echo $$ >pid
SLURM_NODEID=0 SLURM_STEP_NUM_TASKS=1 exec "$@"
END
is_ready () {
    [ -e ready ] && test "$(wc -l <ready)" = 2
}
test_expect_success 'SIGUSR1, which Slurm can send before the time limit, reaches all ranks' '
    RANKS_PER_NODE=2 && export RANKS_PER_NODE && { job 1 "" --cpu program >out 2>&1 & } && wait_for is_ready &&
    kill -USR1 "$(cat pid)" && wait $! && cat out &&
    grep -q "rank 0 saves" out && grep -q "rank 1 saves" out'

has_steps () {
    [ -e samples ] && test "$(wc -l <samples)" -gt 20
}
test_expect_success 'examples/resume saves and stops before the time limit, is requeued, and continues' '
    RANKS_PER_NODE=2 GRACE=5 && export RANKS_PER_NODE GRACE && ends="8 seconds" && export ends &&
    test_exit 75 job 1 "" --cpu "$builddir/examples/resume" --samples 400 --step_ms 100 --log samples \
        >out 2>&1 && grep "saved, and ending as asked" out && unset ends &&
    grep "saved step [0-9]* on all ranks, then ended before the end of" out &&
    test "$(cat requeued)" = "$job" && test "$(wc -l <samples)" -lt 1200 &&
    job 1 "" --cpu "$builddir/examples/resume" --samples 400 --log samples >out &&
    grep "finished 3 epochs" out && sort -u samples | wc -l | grep -x 1200'
test_expect_success 'SIGTERM: it saves and stops, and the next job continues' '
    rm -rf samples resume requeued && RANKS_PER_NODE=2 && export RANKS_PER_NODE && {
        job 1 "" --cpu "$builddir/examples/resume" --samples 400 --step_ms 5 --log samples >out 2>&1 &
    } && wait_for has_steps && kill -TERM "$(cat pid)" && test_exit 143 wait $! &&
    grep "saved step [0-9]* on all ranks, then ended by SIGTERM" out && ! test -e requeued &&
    job 1 "" --cpu "$builddir/examples/resume" --samples 400 --log samples >out &&
    grep "finished 3 epochs" out && sort -u samples | wc -l | grep -x 1200'

# command: the unit's command line with this test's files in place of the installed ones
command () {
    sed -n 's/^ExecStart=//p' "$unit" | sed "s,/usr/bin/accelerate launch,accelerate launch --dry_run,; s,/etc/accelerate,$scratch,
        s,/srv/train/train,/bin/echo,; s,/var/log/train,$scratch/log,"
}
cat >train.yaml <<'END'
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_CPU
num_processes: 2
use_cpu: true
END
test_expect_success 'the command line of the unit is accepted' '
    command >line && cat line && sh -c "$(cat line)" >out && cat out && grep -q "2 of 2, ranks 0 to 1; 60 s" out &&
    grep -q "/bin/echo --checkpoints /var/lib/train\$" out'
test_expect_success 'systemd waits for longer than the launcher does' '
    grace=$(sed -n "s/.*--grace \([0-9]*\).*/\1/p" "$unit") && stop=$(sed -n "s/^TimeoutStopSec=//p" "$unit") &&
    test "$stop" -gt "$grace"'
test_expect_success 'the launcher alone gets SIGTERM, and its status after that is a success' '
    grep -qx KillMode=mixed "$unit" && grep -qx SuccessExitStatus=143 "$unit"'
# Where systemd is installed but has not started this machine, it may accept no unit at all.
printf '[Service]\nExecStart=/bin/true\n' >plain.service
if command -v systemd-analyze >/dev/null && systemd-analyze verify --man=no --generators=no ./plain.service >said 2>&1; then
    # It looks for the program and the user, which are not installed here.
    sed "s,/usr/bin/accelerate,$accelerate,; /^User=/d" "$unit" >train.service
    sed "s,^#\(WatchdogSec\|NotifyAccess\|LoadCredential\),\1," train.service >all.service
    for name in train all; do
        test_expect_success "systemd accepts the unit ($name)" '
            systemd-analyze verify --man=no --generators=no ./$name.service >said 2>&1 && cat said &&
            ! grep "$name.service" said'
    done
else
    test_skip 'systemd accepts the unit' 'no systemd-analyze, or it works only where systemd runs'
fi
test_done
