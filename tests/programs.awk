# SPDX-License-Identifier: Apache-2.0
# Which programs and modules some tests need, in a line: awk -v srcdir=TOP -v all="PROGRAM..." -v tests="TEST..."; no tests: all.
# A script needs $builddir/tests/PROGRAM if it, or a file of $srcdir/tests that it names, contains these words: a module as
# the file in .libs, a variable for any part of a name, and a folder for all that is in it.
function need (pattern, i) {
    sub (/\.libs\/?/, "", pattern)
    sub (/\.so$/, ".la", pattern)
    sub (/\/$/, "", pattern)
    gsub (/\./, "[.]", pattern)
    gsub (/\$[A-Za-z0-9_]+/, "[^/]*", pattern)
    for (i = 1; i <= count; i++)
        if (programs[i] ~ "^" pattern "(/[^/]*)?$")
            needed[i] = 1
}
function read (file, line, name) {
    if (file in seen)
        return
    seen[file] = 1
    while ((getline line <(srcdir "/" file)) > 0)
        while (match (line, /(src|build)dir(:-\.})?\/tests\/[A-Za-z0-9_.$\/]*/)) {
            name = substr (line, RSTART, RLENGTH)
            line = substr (line, RSTART + RLENGTH)
            if (sub (/^builddir[^\/]*\//, "", name))
                need(name)
            else if (sub (/^srcdir[^\/]*\//, "", name) && name ~ /\.sh$|\/(lab|serve|slurm)$/)
                read(name)
        }
    close (srcdir "/" file)
}
BEGIN {
    count = split (all, programs)
    for (i = split (tests, list); i > 0; i--)
        if (list[i] ~ /\.sh$/)
            read(list[i])
        else
            need(list[i])
    for (i = 1; i <= count; i++)
        if (needed[i] || tests !~ /[^ ]/)
            line = line " " programs[i]
    print line
}
