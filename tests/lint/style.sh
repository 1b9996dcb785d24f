#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Of the rules of HACKING.md, those that can be seen without understanding: lengths, banned functions, first lines.
. "${srcdir:-.}/tests/testlib.sh"

cat >makers <<'END'
src/files/atomic_file.c
src/files/weights_save.c
src/hosts/peers/job_key.c
src/launch/output/logfile.c
src/lib/checkpoint/project_lock.c
src/lib/checkpoint/shares.c
src/lib/track/log_file.c
src/mlflow/unsent.c
src/util/io.c
END
cd "$srcdir" || exit 99
sources=$(find src include examples bench tests -name '*.[ch]' -o -name '*.cc' -o -name '*.hpp' | sort)
product=$(find src include -name '*.[ch]' | sort)
{
    test_expect_success 'every source names its licence and says what it is for' \
        '! awk "FNR == 1 && !/SPDX-License-Identifier: Apache-2.0/ || FNR == 2 && !/^\/\* ./ { print FILENAME \": \" \$0 }" '"$(echo $sources)"' | grep .'
    test_expect_success 'lines have at most 120 columns, no tabs, no trailing blanks' \
        '! grep -nE "^.{121,}|	|[[:space:]]$" '"$(echo $sources)"
    test_expect_success 'files have at most 800 lines' \
        '! wc -l '"$(echo $sources)"' | awk "\$2 != \"total\" && \$1 > 800" | grep .'
    # A function body is what stands between braces in the first column.
    test_expect_success 'functions have at most 60 lines' \
        '! awk "/^\{/ { start = FNR } /^\}/ && start { if (FNR - start > 61) print FILENAME \":\" start \": \" FNR - start - 1 \" lines\"; start = 0 }" '"$(echo $product)"' | grep .'
    test_expect_success 'no function that cannot be used safely' \
        '! grep -nE "(^|[^a-z_])(gets|strcat|sprintf|vsprintf|atoi|atol|atof|tmpnam|mktemp|alloca|strtok) \(" '"$(echo $product)"
    # Comments beside the fields of structs name functions with (); they begin further right than code.
    test_expect_success 'a space before parentheses' \
        '! grep -nP "^ {0,24}(?! )[^\"/*#]*[a-z0-9_]\((?!.*\*/$)" '"$(echo $product)"' | grep -v "\\\\$"'
    test_expect_success 'the type of a function is on a line of its own' \
        '! awk "/^\{/ && previous ~ /^[a-z][a-z_0-9]* [^(=]*\(/ && previous !~ /^[a-z_0-9]+ \(/ { print FILENAME \": \" previous } { previous = \$0 }" '"$(echo $product)"' | grep .'
    test_expect_success 'goto leads to the one label of its function, error or done' \
        '! grep -nE "goto " '"$(echo $product)"' | grep -vE "goto (error|done);" &&
         ! awk "/^\}/ { labels = 0 } /^(error|done):/ && labels++ { print FILENAME \":\" FNR }" '"$(echo $product)"' | grep .'
    test_expect_success 'exit statuses have names (util/fail.h)' \
        '! grep -rnE "fail_set \([a-z>.-]+, [0-9]|[^0-9]128 \+|exit \([1-9]" src --include="*.[ch]" | grep -v "^src/selftest/"'
    test_expect_success 'util, files, config, http, hub, aws and report do not print' \
        '! grep -rnE "[ (](stdout|stderr)\)|STDERR_FILENO|(^|[^a-z_])(printf|puts|putchar|perror) \(" \
             src/util src/files src/config src/http src/hub src/aws src/report src/engines src/cuda --include="*.[ch]"'
    test_expect_success 'numbers of users are parsed by util/parse.h' \
        '! grep -rnE "[^a-z_](strto[a-z]+|[a-z]*scanf) \(" src/cli src/config --include="*.c" |
             grep -v "^src/cli/estimate/\|^src/config/text/\|^src/config/emit/"'
    test_expect_success 'files are made by io_write_file and files/atomic_file.h, if they are no locks or logs' \
        'grep -rlE "O_CREAT|fopen \(.*\"[wa]" src --include="*.c" | grep -v "^src/selftest/" | sort | diff - "$scratch/makers"'
    test_expect_success 'the library neither prints nor exits' \
        '! grep -rnE "(^|[^a-z_])(printf|puts|putchar|fprintf|perror|exit|abort|assert|signal|sigaction) \(" src/lib --include="*.c" | grep -vE "^src/lib/utility/check\.c:|^src/lib/(job/stack|utility/request_signals)\.c:[0-9]+:.*sig(action|nal) "'
}
# Words that readers of MPI, Slurm and PyTorch did not know, and the names that took their place.
# They are started_on, outbox, comm_coalesce, peers, mismatches, cause, options of other launchers, skip_wait, job_key, guardian,
# mpi_launcher, missing_peers, benchmark, forwarder, failed_rank, startup, hier_reduce, timed_out and deferred.
replaced='aloft|boards|comm_together|crew|disputes|guilty|habits?|hasty|jobkey|keeper|lender|loneliness|meter|postman|quitters'
replaced="$replaced|rall(y|ied)|tiers|time_is_out|unsettled"
test_expect_success 'one thing has one name' \
    '! grep -nEi "(^|[^[:alnum:]])($replaced)([^[:alnum:]]|\$)" '"$(echo $sources)"
test_expect_success 'ports are locked, not claimed' \
    '! grep -rnwiE "claim(s|ed)?" src/launch src/hosts tests/fault/ports.sh man/accelerate-launch.1.in'
# Of the table in HACKING.md, "Words", what has no other meaning: in sources, and in the manual.
avoided='stands? for|in the end|without a word|heeds?|(is|are|was|were) wanted|that (is|are) none|shared out|as torch has'
avoided="$avoided|of another release|so often|(is|are) there twice|(is|are) let go|says? so|prepared already|told of"
test_expect_success 'sentences have the words of the field' \
    '! grep -nwiP "$avoided" '"$(echo $sources)"' man/*.in man/*.7'
test_expect_success 'comments do not say nobody: no process, no test' \
    '! grep -niP "^[^\"]*(/\*| \* ).*\bnobody\b" '"$(echo $sources)"
if command -v python3 >/dev/null; then
    test_expect_success 'src/ has no function that only tests call' 'python3 "$srcdir/tests/lint/unused.py" "$srcdir"'
else
    test_skip 'src/ has no function that only tests call' 'needs python3'
fi
test_done
