#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --report_bindings: what is printed of each rank is what the rank has.
. "${srcdir:-.}/tests/testlib.sh"
unset OMP_NUM_THREADS
ranks=2
cpus=$(nproc) || cpus=1
[ "$cpus" -ge 2 ] || ranks=1

# A rank's CPUs and threads, as it has them.
cat >rank <<'END'
#!/bin/sh
echo "CPUs $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status), threads $OMP_NUM_THREADS" >"has.$RANK"
END
chmod +x rank

# report OPTION...: what is printed of each rank, into said.RANK in the same words
report () {
    rm -f has.* said.* && "$accelerate" launch --cpu --num_processes $ranks "$@" ./rank 2>err && cat err &&
        for rank in $(seq 0 $((ranks - 1))); do
            sed -n "s/^accelerate: rank $rank: on .*, device cpu, CPUs \([0-9,-]*\), .* \([0-9][0-9]*\) threads\{0,1\}$/CPUs \1, threads \2/p" \
                err >"said.$rank" && test "$(wc -l <"said.$rank")" = 1 || return 1
        done
}
is_so () {
    for rank in $(seq 0 $((ranks - 1))); do
        cat "has.$rank" && cmp "has.$rank" "said.$rank" || return 1
    done
}

test_expect_success 'each rank has the cores and threads that --bind core is said to give it' '
    report --bind core --report_bindings && is_so && test "$(cat has.* | sort -u | wc -l)" = $ranks'
test_expect_success 'ranks that are not bound have the CPUs of the launcher' '
    report --bind none --report_bindings && is_so &&
    test "$(cat has.* | sed "s/, .*//" | sort -u)" = "CPUs $(sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" /proc/self/status)"'
test_expect_success 'also if a file of settings says so' '
    printf "bind: core\n" >job.yaml && report --config_file job.yaml --report_bindings && is_so && test "$(cat has.* | sort -u | wc -l)" = $ranks'
test_expect_success 'nothing is printed without it' '
    "$accelerate" launch --cpu --num_processes $ranks --bind core ./rank 2>err && ! test -s err'
test_done
