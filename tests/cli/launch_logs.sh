#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --tee, --log_dir and --role: names before lines, files of each rank and attempt, error files of failed ranks.
. "${srcdir:-.}/tests/testlib.sh"

cat >rank <<'EOF'
#!/bin/sh
echo "out of ${LOCAL_RANK-0}"
echo "err of ${LOCAL_RANK-0}" >&2
EOF
chmod +x rank
two="--cpu --num_processes 2"

# launch ARGUMENT...: in `out` and `err`, sorted, what the launcher itself says left out of err
launch () {
    "$accelerate" launch "$@" >out.raw 2>err.raw
    status=$?
    sort out.raw >out
    grep -v "^accelerate: \|^  " err.raw | sort >err
    return $status
}
# is FILE LINE...
is () {
    file=$1
    shift
    for line; do echo "$line"; done >wanted
    diff "$file" wanted
}
# What a specification gives on stdout and stderr of two ranks, and which files.
# spec|out of 0|err of 0|out of 1|err of 1, where x is a file and a name
while IFS='|' read -r spec bits; do
    test_expect_success "--tee $spec" '
        rm -rf logs && launch $two --log_dir logs --tee "$spec" ./rank &&
        for number in 0 1; do
            for stream in out err; do
                file=$(echo logs/none_??????/attempt_0/$number/std$stream.log)
                bit=${bits%% *}
                bits=${bits#* }
                if [ "$bit" = x ]; then
                    is "$file" "$stream of $number" && grep -x "\[default$number\]:$stream of $number" $stream
                else
                    [ ! -e "$file" ] && grep -x "$stream of $number" $stream
                fi || return 1
            done
        done && [ "$(cat out err | wc -l)" = 4 ]'
done <<'EOF'
0|- - - -
1|x - x -
2|- x - x
3|x x x x
0:1|x - - -
1:2|- - - x
0:1,1:3|x - x x
0:3,1:0|x x - -
0:1,0:2,7:3|- x - -
EOF
while read -r spec; do
    test_expect_success "--tee $spec is an error before anything starts" '
        test_exit 2 "$accelerate" launch $two --log_dir no --tee "$spec" touch started 2>err &&
        [ "$(wc -l <err)" = 1 ] && grep "tee $spec" err && [ ! -e started ] && [ ! -e no ]'
done <<'EOF'
4
-1
all
0:4
0:1,
0:1;1:1
10:1
:1
0:
EOF
test_expect_success 'a role is in the names' '
    launch $two --tee 1 --log_dir /dev/null --role trainer ./rank && is out "[trainer0]:out of 0" "[trainer1]:out of 1"'
test_expect_success 'one process, names without files' '
    launch --tee 3 --log_dir /dev/null ./rank && is out "[default0]:out of 0" && is err "[default0]:err of 0"'
test_expect_success 'files of others, private folders' '
    rm -rf logs && (umask 027; launch $two --tee 3 --log_dir logs/deep/er ./rank) &&
    [ "$(stat -c %a logs/deep/er/none_??????)" = 700 ] &&
    [ "$(stat -c %a logs/deep/er/none_*/attempt_0/1/stderr.log)" = 640 ]'
test_expect_success 'without a folder one is made in TMPDIR, and named' '
    mkdir tmp && TMPDIR=$PWD/tmp launch $two --tee 1 ./rank && is tmp/accelerate_??????/none_??????/attempt_0/1/stdout.log "out of 1" &&
    grep "the ranks.* output is in $PWD/tmp/accelerate_....../none_" err.raw'
test_expect_success 'a dry run tells the places and makes nothing' '
    rm -rf logs && "$accelerate" launch --dry_run $two --tee 0:3 --log_dir logs ./rank >plan &&
    grep "^  $PWD/logs/none_XXXXXX$" plan && grep "^  attempt_0/0/stderr.log$" plan && grep "^  attempt_0/0/stdout.log$" plan && ! grep "attempt_0/1/std" plan &&
    "$accelerate" launch --dry_run --json $two --tee 0:3 --log_dir logs ./rank >plan &&
    grep "\"logs\": \"$PWD/logs/none_XXXXXX\"" plan && [ ! -e logs ]'
test_expect_success 'a folder that cannot be made is an error before anything starts' '
    : >file && test_exit 2 "$accelerate" launch $two --log_dir file touch started 2>err && grep "log_dir file" err &&
    mkdir -m 555 locked && { [ -w locked ] || test_exit 1 "$accelerate" launch $two --log_dir locked touch started 2>err; } &&
    [ "$(wc -l <err)" = 1 ] && [ ! -e started ]'
cat >fails <<'EOF'
#!/bin/sh
echo "try $TORCHELASTIC_RESTART_COUNT"
[ $LOCAL_RANK = 0 ] && : >up$TORCHELASTIC_RESTART_COUNT && exec sleep 300
i=0
while [ $i -lt 3000 ] && ! [ -e up$TORCHELASTIC_RESTART_COUNT ]; do sleep 0.1; i=$((i + 1)); done
cat >"$TORCHELASTIC_ERROR_FILE" <<END
{"message": {"message": "ValueError: no $TORCHELASTIC_RESTART_COUNT", "extraInfo": {"py_callstack": "one\\ntwo"}}}
END
exit 3
EOF
chmod +x fails
test_expect_success 'each attempt has its folder, and its error file' '
    rm -rf logs &&
    test_exit 3 launch $two --max_restarts 1 --tee 1:1 --log_dir logs --failure_report report ./fails &&
    is out "[default1]:try 0" "[default1]:try 1" "try 0" "try 1" &&
    is logs/none_*/attempt_0/1/stdout.log "try 0" && is logs/none_*/attempt_1/1/stdout.log "try 1" &&
    [ ! -e logs/none_*/attempt_0/0/stdout.log ] && grep "error file says: ValueError: no 1" err.raw &&
    grep -A 2 "the end of its traceback:" err.raw | grep two && grep "files are in .*/attempt_1/1$" err.raw &&
    grep "\"error\":\"ValueError: no 1\",\"traceback\":\[\"one\",\"two\"\]" report'
while read -r what text; do
    test_expect_success "an error file that is $what" '
        printf "#!/bin/sh\n%s\nexit 3\n" "$text" >odd && chmod +x odd && test_exit 3 launch $two --log_dir logs ./odd &&
        grep "exited with status 3" err.raw && ! grep "error file says: [^t]" err.raw'
done <<'EOF'
empty : >"$TORCHELASTIC_ERROR_FILE"
no_JSON echo '{"mess' >"$TORCHELASTIC_ERROR_FILE"
another's echo '{"message": "text"}' >"$TORCHELASTIC_ERROR_FILE"
numbers echo '{"message": {"message": 7, "extraInfo": []}}' >"$TORCHELASTIC_ERROR_FILE"
a_list echo '[1]' >"$TORCHELASTIC_ERROR_FILE"
a_pipe mkfifo "$TORCHELASTIC_ERROR_FILE"
endless ln -s /dev/zero "$TORCHELASTIC_ERROR_FILE"
EOF

# 20000 lines of 50 bytes on both streams
cat >many <<'EOF'
#!/bin/sh
yes "$LOCAL_RANK 12345678901234567890123456789012345678901234567" | head -n 20000
yes "$LOCAL_RANK 12345678901234567890123456789012345678901234567" | head -n 20000 >&2
: >"done$LOCAL_RANK"
EOF
chmod +x many
# whole FILE OTHERS: nothing of it is lost, almost no line is cut (one may be if its rank was paused in the middle of
# it), and OTHERS lines do not belong to a rank
whole () {
    for rank in 0 1; do
        [ "$(sed -n "s/^\[default$rank\]://p" "$1" | tr -d '\n' | wc -c)" = 1960000 ] || { echo "rank $rank"; wc "$1"; return 1; }
    done
    ! [ "$(grep -c -x "\[default\([01]\)\]:\1 [0-9]\{47\}" "$1")" -gt 79900 ] ||
        ! [ "$(grep -c -v "^\[default" "$1")" = "$2" ] || return 0
    grep -v -x "\[default\([01]\)\]:\1 [0-9]\{47\}" "$1" | head -n 20
    return 1
}
test_expect_success 'no line is lost or cut where both streams go into one pipe' '
    rm -rf logs && { "$accelerate" launch --quiet $two --tee 3 --log_dir logs ./many 2>&1; echo $? >status; } | cat >got &&
    [ "$(cat status)" = 0 ] && whole got 0 && [ "$(cat logs/none_*/attempt_0/?/std*.log | wc -l)" = 80000 ]'
test_expect_success 'ranks with files do not wait for a reader, who gets all the same' '
    rm -rf logs done? && { "$accelerate" launch --quiet $two --tee 3 --log_dir logs ./many 2>&1; echo $? >status; } | {
        i=0
        while [ $i -lt 3000 ] && ! [ -e done0 -a -e done1 ]; do sleep 0.1; i=$((i + 1)); done
        [ $i -lt 3000 ] && echo went on >waited
        cat >got
    } && cat waited && [ "$(cat status)" = 0 ] && whole got 0'
test_expect_success 'the reader is gone: the files have everything' '
    rm -rf logs && { "$accelerate" launch --quiet $two --tee 3 --log_dir logs ./many 2>&1; echo $? >status; } | head -n 1 &&
    [ "$(cat status)" = 0 ] && [ "$(cat logs/none_*/attempt_0/?/std*.log | wc -l)" = 80000 ]'
file_limit_test 'a full disk: one warning, and the reader gets all' '
    rm -rf logs && { (ulimit -f 64 && "$accelerate" launch --quiet $two --tee 3 --log_dir logs ./many 2>&1); echo $? >status; } |
        cat >got && [ "$(cat status)" = 0 ] && [ "$(grep -c "^accelerate: warning: .*\.log: File too large" got)" = 1 ] &&
    whole got 1'
file_limit_test 'a full disk and a reader who comes late' '
    rm -rf logs && { (ulimit -f 512 && "$accelerate" launch --quiet $two --tee 3 --log_dir logs ./many 2>&1); echo $? >status; } |
        { sleep 1; cat >got; } && [ "$(cat status)" = 0 ] && whole got 1'
test_expect_success 'unfinished lines and carriage returns' '
    printf "%s\n" "#!/bin/sh" "printf \"a\\rb\\r\\nc\"; sleep 0.3; printf \"d\\n\\ne\"" >odd && chmod +x odd &&
    launch --tee 1 --log_dir /dev/null ./odd &&
    is out.raw "[default0]:a" "[default0]:b" "[default0]:cd" "[default0]:" "[default0]:e"'
test_done
