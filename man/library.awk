# SPDX-License-Identifier: Apache-2.0
# Pages about libaccel, with what the headers say:
#
#   awk -f library.awk HEADER... PAGE.in... page=NAME.3 NAME.3.in >NAME.3
#
# In the last file, these lines are replaced.  A page is about the functions and types of its NAME section.
#   @synopsis@         its headers and prototypes
#   @types@            its structs, enums and types of functions, as in the headers, with their comments
#   @index@            all pages with all their functions
#   @<FILE FUNCTION@   that function of a program, whose path begins above the folder of the pages
BEGIN { WIDTH = 75 }

FNR == 1 {
    state = doc = ""
    header = source = FILENAME
    sub (/.*include\//, "", header)
    sub (/.*\//, "", source)
}
page == "" && FILENAME ~ /\.h$/ { read_header($0); next }
/^\.Dt / && page == "" { sub (/\.in$/, "", source); pages[++page_count] = source }
/^\.Nd / && page == "" { title[source] = substr ($0, 5) }
/^\.Nm accel/ && page == "" && !((source, "described") in seen) {
    names[source, ++name_count[source]] = $2
    page_of[$2] = source
}
/^\.Sh DESCRIPTION/ { seen[source, "described"] }
page == "" { next }
/^@synopsis@$/ { print_synopsis(); next }
/^@types@$/ { print_types(); next }
/^@index@$/ { print_index(); next }
/^@<.*@$/ { print_function(substr ($1, 3), substr ($2, 1, length ($2) - 1)); next }
/^@.*@$/ { fail(FILENAME ":" FNR ": '" $0 "' is not a form that library.awk knows") }
{ print }

function fail(why) { print why >"/dev/stderr"; exit failed = 1 }
function squeeze(text) { gsub (/[ \t\n]+/, " ", text); sub (/^ /, "", text); sub (/ $/, "", text); return text }
function code(text) { gsub (/\\/, "\\e", text); gsub (/-/, "\\-", text); return (text ~ /^[.']/ ? "\\&" : "") text }

# Headers: a comment belongs to the declaration after it, unless there is an empty line between them.
function read_header(line) {
    if (state == "") {
        if (line ~ /^\/\*\*/) { state = "doc"; doc = "" }
        else if (line ~ /^(struct|enum) accel[a-z0-9_]* \{/) state = "type"
        else if (line ~ /^struct accel[a-z0-9_]*;/) state = "opaque"
        else if (line ~ /^typedef /) state = "typedef"
        else if (line ~ /^(ACCEL_API|static inline)/) state = "function"
        else if (line ~ /^#define [A-Z_]*_MAP\(X\)/) state = "map"
        else {
            if (match (line, /^#define accel[a-z0-9_]+\([^)]+\) accel[a-z0-9_]+ \(/)) keep_macro(substr (line, 9, RLENGTH - 10))
            if (line == "") doc = ""
            return
        }
        text = line
    } else
        text = text "\n" line
    if (is_end(line)) {
        keep(state)
        state = ""
    }
}

function is_end(line) {
    if (state == "doc") return line ~ /\*\//
    if (state == "type") return line ~ /^\};|\};$/
    if (state == "function" && sub (/\n\{$/, ";", text)) return 1
    return state == "map" ? line !~ /\\$/ : line ~ /;$/
}

function keep(kind,    name) {
    if (kind == "doc") { doc = text; return }
    if (kind == "map") { name = text; sub (/^#define /, "", name); sub (/\(.*/, "", name); map[name] = text; return }
    if (kind == "function") { keep_function(squeeze(text)); doc = ""; return }
    name = squeeze(text)
    if (kind == "typedef") { sub (/.*\(\*/, "", name); sub (/\).*/, "", name) }
    else { sub (/^[a-z]* /, "", name); sub (/[; ].*/, "", name) }
    if (kind == "opaque" && (doc == "" || name in type_text)) return
    type_text[name] = text
    if (doc != "") type_doc[name] = doc
    type_kind[name] = kind
    doc = ""
}

# A macro that is more than a function without its call site and sizes.
function keep_macro(text,    name, function_name) {
    name = function_name = text
    sub (/\(.*/, "", name)
    sub (/.* /, "", function_name)
    macro[function_name] = name
    macro_doc[name] = doc
}

# Left out: the arguments that macros add, and the suffix of the names of such functions.
function keep_function(text,    name, whole, result, at, part, first, n) {
    gsub (/ACCEL_(API|NODISCARD) |static inline /, "", text)
    sub (/ ACCEL_PRINTF \(.*\)/, "", text)
    match (text, /accel_[a-z0-9_]+ \(/)
    name = substr (text, RSTART, RLENGTH - 2)
    at = RSTART + RLENGTH
    n = split (substr (text, at, length (text) - at - 1), part, ", ")
    result = squeeze(substr (text, 1, at - RLENGTH - 1))
    first = 1
    whole = name
    while (name ~ /_(at|sized)$/) {
        if (name ~ /_at$/) first += 2
        while (part[first] ~ /^size_t [a-z]+_size$/) first++
        sub (/_(at|sized)$/, "", name)
    }
    if (whole in macro && macro[whole] != name)
        keep_prototype(macro[whole], macro_doc[macro[whole]], result, part, first, n)
    keep_prototype(name, doc, result, part, first, n)
}

function keep_prototype(name, comment_of, result, part, first, last,    i) {
    result_of[name] = result
    for (i = first; i <= last; i++) arguments[name, ++argument_count[name]] = part[i]
    header_of[name] = header
    function_doc[name] = comment_of
}

function print_synopsis(    i, j, name) {
    for (i = 1; i <= name_count[page]; i++) {
        name = names[page, i]
        if (name in header_of && !((page, header_of[name]) in seen)) {
            print ".In " header_of[name]
            seen[page, header_of[name]]
        }
    }
    for (i = 1; i <= name_count[page]; i++) {
        name = names[page, i]
        if (!(name in header_of)) continue
        print ".Ft " (result_of[name] ~ /\*/ ? "\"" result_of[name] "\"" : result_of[name]) "\n.Fo " name
        for (j = 1; j <= argument_count[name]; j++) print ".Fa \"" arguments[name, j] "\""
        print ".Fc"
    }
}

function print_types(    i, j, name, others, text, word, n) {
    for (i = 1; i <= name_count[page]; i++)
        if (names[page, i] in type_text) print_type(names[page, i])
    for (i = 1; i <= name_count[page]; i++) {
        name = names[page, i]
        text = type_text[name] " " result_of[name]
        for (j = 1; j <= argument_count[name]; j++) text = text " " arguments[name, j]
        gsub (/[^a-z0-9_]+/, " ", text)
        n = split (text, word, " ")
        for (j = 1; j <= n; j++)
            if (word[j] in type_text && page_of[word[j]] != page && !((page, word[j]) in seen)) {
                seen[page, word[j]]
                elsewhere[page_of[word[j]]] = elsewhere[page_of[word[j]]] " " word[j]
            }
    }
    for (i = 1; i <= page_count; i++)
        if (pages[i] in elsewhere)
            others = others (others ? " ,\n" : "") xr(pages[i]) " (" list(elsewhere[pages[i]]) ")"
    if (others) print ".Pp\nOther types are described in\n" others "."
}

function list(text) { text = squeeze(text); gsub (/ /, ", ", text); return text }
function xr(name) { sub (/\.3$/, "", name); return ".Xr " name " 3" }

function print_type(name,    head) {
    head = type_kind[name] == "typedef" ? name : (type_text[name] ~ /^enum/ ? "enum " : "struct ") name
    print ".Ss " head
    print_doc(type_doc[name])
    if (type_kind[name] == "opaque") return
    print ".Bd -literal"
    if (type_kind[name] == "typedef") print_declaration(squeeze(type_text[name]), 0)
    else print_members(head, name)
    print ".Ed"
}

# A comment as text: lines that are indented stay as they are.
function print_doc(text,    line, n, i, literal, paragraph, item) {
    n = split (bare(text), line, "\n")
    for (i = 1; i <= n; i++) {
        if (line[i] == "") { paragraph = i > 1; item = 0; continue }
        if (line[i] ~ /^@/) item = 1
        if (item) sub (/^ +/, "", line[i])
        if (literal && (line[i] !~ /^  / || paragraph)) { print ".Ed"; literal = 0 }
        if (line[i] ~ /^  / && !literal) { print ".Bd -literal"; literal = 1 }
        else if (!literal && (paragraph || line[i] ~ /^@/) && i > 1) print ".Pp"
        print literal ? code(substr (line[i], 3)) : prose(line[i])
        paragraph = 0
    }
    if (literal) print ".Ed"
}

# A comment without its stars.
function bare(text) {
    if (text ~ /^\/\*\* [^\n]/) gsub (/\n \*  /, "\n * ", text)
    sub (/^\/\*\*[ \n]*(\* )?/, "", text)
    sub (/[ \n]*\*\/[^\n]*$/, "", text)
    gsub (/\n \* ?/, "\n", text)
    return text
}

function prose(text) {
    text = words(text)
    gsub (/\\/, "\\e", text)
    while (match (text, /`[^`]*`/))
        text = substr (text, 1, RSTART - 1) "\\fI" substr (text, RSTART + 1, RLENGTH - 2) "\\fR" \
            substr (text, RSTART + RLENGTH)
    if (text ~ /^[.']/) text = "\\&" text
    gsub (/\.  /, ".\n", text)
    return text
}

# Without the marks of documentation tools.
function words(text) {
    gsub (/@p [a-zA-Z0-9_]+/, "&`", text)
    gsub (/@p /, "`", text)
    gsub (/@return /, "Returns ", text)
    while (match (text, /@(param|retval)(\[out\])? +[a-zA-Z_]+ +/))
        text = substr (text, 1, RSTART - 1) name_of(substr (text, RSTART, RLENGTH)) substr (text, RSTART + RLENGTH)
    return text
}

function name_of(text) { text = squeeze(text); sub (/.* /, "", text); return text ": " }

# The members of a struct or enum: declaration[i], the comments beside it (note[i]) and above it (lead[i]), whether there
# is an empty line before it, and its depth[i].
function print_members(head, name,    n, i, width, indent, text) {
    text = expand_map(type_text[name])
    sub (/^[^{]*\{/, "", text)
    sub (/\};$/, "", text)
    n = scan(text, head ~ /^enum/ ? "," : ";")
    width = 0
    for (i = 1; i <= n; i++)
        if (length (declaration[i]) + 4 * depth[i] <= 38 && length (declaration[i]) + 4 * depth[i] > width)
            width = length (declaration[i]) + 4 * depth[i]
    print head " {"
    for (i = 1; i <= n; i++) {
        indent = sprintf ("%" (4 * depth[i]) "s", "")
        if (empty[i] && i > 1) print ""
        if (length (note[i]) > 4 * (WIDTH - width - 9)) {
            lead[i] = lead[i] (lead[i] ? "\n" : "") note[i]
            note[i] = ""
        }
        if (lead[i] != "") wrap("/* " lead[i] " */", indent, indent "   ")
        if (note[i] == "") print_declaration(declaration[i], 4 * depth[i])
        else if (length (declaration[i]) + 4 * depth[i] > width) {
            print_declaration(declaration[i], 4 * depth[i])
            wrap("/* " note[i] " */", sprintf ("%" (width + 2) "s", ""), sprintf ("%" (width + 5) "s", ""))
        } else
            wrap("/* " note[i] " */", sprintf ("%-" (width + 2) "s", indent declaration[i]),
                 sprintf ("%" (width + 5) "s", ""))
    }
    print "};"
}

function scan(text, stop,    n, i, character, nested, level, above, blank, piece) {
    n = 0; level = 1; above = ""; blank = 0
    while (1) {
        if (match (text, /^[ \t\n]+/)) {
            if (substr (text, 1, RLENGTH) ~ /\n[ \t]*\n/) blank = 1
            text = substr (text, RLENGTH + 1)
        }
        if (text == "") return n
        if (substr (text, 1, 2) == "/*") {
            piece = substr (text, 1, index (text, "*/") + 1)
            text = substr (text, length (piece) + 1)
            if (piece ~ /^\/\*\*</) note[n] = comment(piece)
            else above = above (above == "" || comment(piece) == "" ? "" : "\n") comment(piece)
            continue
        }
        nested = 0
        for (i = 1; i <= length (text); i++) {
            character = substr (text, i, 1)
            if (character == "(") nested++
            if (character == ")") nested--
            if (!nested && (character == stop || character == "{" || substr (text, i + 1, 2) == "/*")) break
        }
        piece = squeeze(substr (text, 1, i))
        text = substr (text, i + 1)
        sub (/ ACCEL_PRINTF \([0-9, ]*\)/, "", piece)
        if (piece ~ /^\}/) level--
        n++
        declaration[n] = piece; note[n] = ""; lead[n] = above; empty[n] = blank; depth[n] = level
        above = ""; blank = 0
        if (piece ~ /\{$/) level++
    }
}

function comment(text) {
    sub (/^\/\*\**<? */, "", text)
    sub (/ *\*\/$/, "", text)
    gsub (/\n *\*? */, " ", text)
    gsub (/ *@[{}]/, "", text)
    return words(squeeze(text))
}

# An enum that is made from a list of X (NAME, ...): its rows, with the texts in them as comments.
function expand_map(text,    template, parameters, rows, row, n, i, result, line, count, value, p, k) {
    if (text !~ /_MAP \(X\)/) return text
    count = split (text, line, "\n")
    for (i = 1; i <= count; i++) {
        if (line[i] ~ /^#define X\(/) {
            template = line[i]
            parameters = substr (template, 11, index (template, ")") - 11)
            template = substr (template, index (template, ")") + 2)
        } else if (line[i] ~ /_MAP \(X\)/) {
            rows = map[squeeze(substr (line[i], 1, index (line[i], "(") - 1))]
            n = split (rows, row, "\n")
            split (parameters, p, ", ")
            for (k = 2; k <= n; k++) result = result "\n    " expand_row(row[k], template, p)
        } else if (line[i] !~ /^#/)
            result = result (result == "" ? "" : "\n") line[i]
    }
    return result
}

function expand_row(row, template, p,    text, value, i, quoted) {
    sub (/^ *X \(/, "", row)
    if (match (row, /"[^"]*"\)/)) { quoted = substr (row, RSTART + 1, RLENGTH - 3); row = substr (row, 1, RSTART - 1) }
    sub (/\) *\\?.*$/, "", row)
    split (row, value, ", ")
    text = template
    gsub ("##" p[1], value[1], text)
    for (i = 2; i in value; i++) gsub ("= " p[i], "= " value[i], text)
    return text (text ~ /\/\*/ || quoted == "" ? "" : " /**< " quoted " */")
}

# Words in lines of WIDTH; a "\n" begins another one.
function wrap(text, first, next_lines,    part, n, word, m, i, j, line) {
    n = split (text, part, "\n")
    line = first
    for (i = 1; i <= n; i++) {
        m = split (part[i], word, " ")
        for (j = 1; j <= m; j++) {
            if (length (line word[j]) + (word[j + 1] == "*/" ? 3 : 0) > WIDTH && line !~ /^ *$/) {
                print_line(line)
                line = next_lines
            }
            line = line word[j] (j < m ? " " : "")
        }
        if (i < n) { print_line(line); line = next_lines }
    }
    print_line(line)
}

function print_line(line) { sub (/ $/, "", line); print code(line) }

function print_declaration(text, indent,    at, margin) {
    margin = sprintf ("%" indent "s", "")
    if (indent + length (text) <= WIDTH) { print code(margin text); return }
    at = match (text, /\) \(/) ? indent + RSTART + 2 : indent + 8
    wrap_list(text, margin, sprintf ("%" (at > 40 ? indent + 8 : at) "s", ""))
}

function wrap_list(text, first, next_lines,    part, n, i, line) {
    n = split (text, part, ", ")
    line = first
    for (i = 1; i <= n; i++) {
        part[i] = part[i] (i < n ? ", " : "")
        if (length (line part[i]) > WIDTH + (i < n)) { print_line(line); line = next_lines }
        line = line part[i]
    }
    print code(line)
}

# The pages in the order of the command, with the first sentence of each function's comment.
function print_index(    i, j, name, text) {
    for (i = 1; i <= page_count; i++) {
        for (j = 1; j <= name_count[pages[i]] && !(names[pages[i], j] in header_of); j++)
            ;
        if (j > name_count[pages[i]]) continue
        print ".Ss " substr (pages[i], 1, length (pages[i]) - 2) "(3): " title[pages[i]]
        print ".Bl -tag -width accel_optimizer_step_count -compact"
        for (j = 1; j <= name_count[pages[i]]; j++) {
            name = names[pages[i], j]
            if (!(name in header_of)) continue
            printf ".It Fn %s", name
            while (names[pages[i], j + 1] in header_of && function_doc[names[pages[i], j + 1]] == "")
                printf " , Fn %s", names[pages[i], ++j]
            print "\n" summary(function_doc[name])
        }
        print ".El"
    }
}

function summary(text) {
    text = bare(text)
    sub (/\n\n.*/, "", text)
    sub (/^@return /, "", text)
    text = squeeze(words(text))
    gsub (/e\.g\. /, "such as ", text)
    if (match (text, /\.( |$)/)) text = substr (text, 1, RSTART - 1)
    sub (/[:;]$/, "", text)
    return prose(text ~ /^[^ ]*_/ ? text : toupper (substr (text, 1, 1)) substr (text, 2))
}

# A function of a program, from the comment above it to its end.
function print_function(file, name,    line, text, found, lines, n, i) {
    if (FILENAME ~ /man\//) file = substr (FILENAME, 1, match (FILENAME, /man\/[^\/]*$/) - 1) file
    while ((getline line <file) > 0) {
        text = line == "" && !found ? "" : text line "\n"
        if (index (line, name " (") == 1) found = 1
        if (found && line == "}") break
    }
    close (file)
    if (!found) fail(FILENAME ":" FNR ": there is no function " name " in " file)
    n = split (text, lines, "\n")
    for (i = 1; i < n; i++) print code(lines[i])
}
