#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What HACKING.md says of form and can be seen without understanding: lengths, banned functions, first lines.
. "${srcdir:-.}/tests/testlib.sh"

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
        '! grep -nwE "(gets|strcpy|strcat|sprintf|vsprintf|atoi|atol|atof|sscanf|tmpnam|mktemp|alloca|strtok) \(" '"$(echo $product)"
    test_expect_success 'the library neither prints nor exits' \
        '! grep -rnE "(^|[^a-z_])(printf|puts|putchar|fprintf|perror|exit|abort|assert|signal|sigaction) \(" src/lib --include="*.c" | grep -v "^src/lib/utility/check\.c:"'
}
# Words that readers of MPI, Slurm and PyTorch did not know, and the names that took their place.
for row in aloft:started_on boards:outbox comm_together:comm_coalesce crew:peers disputes:mismatches hasty:skip_wait \
    keeper:guardian lender:mpi_launcher postman:forwarder quitters:failed_rank rally:startup tiers:hier_reduce \
    time_is_out:timed_out; do

    test_expect_success "${row%%:*} is called ${row#*:}" \
        "! grep -nEi '(^|[^[:alnum:]])${row%%:*}([^[:alnum:]]|\$)' $(echo $sources)"
done
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
