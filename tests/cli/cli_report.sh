#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate report: what is on the page, of whole, hostile, broken, empty and missing files.
. "${srcdir:-.}/tests/testlib.sh"
if ! command -v python3 >/dev/null; then
    skip_rest 'no python3, which checks the pages'
fi
checker=$srcdir/tests/cli/report_page.py

# page RUN...: the page of these runs as page.html, well-formed, and what is on it in seen
page () {
    timeout $patience "$accelerate" report -o page.html "$@" && python3 "$checker" check page.html >seen && cat seen
}

# lines STEP...: records of these steps
lines () {
    for step; do
        printf '{"step":%s,"time":1764345600.5,"values":{"loss":%s.5,"lr":0.001}}\n' "$step" "$step"
    done
}

mkdir one && { echo '{"config":{"lr":0.001,"name":"first"}}' && lines 0 1 2 3; } >one/metrics.jsonl
test_expect_success 'a run: curves, its configuration, the default name of the page' '
    page one && printf "curve loss one 4\ncurve lr one 4\n" | diff - seen && grep "first" page.html &&
    timeout $patience "$accelerate" report one && cmp report.html page.html'
test_expect_success 'the same input, the same bytes' '
    cp page.html before && sleep 1 && page one && cmp before page.html'
mkdir two && { echo '{"config":{"lr":0.002,"name":"first"}}' && lines 0 1 2 3 2 3 4; } >two/metrics.jsonl
test_expect_success 'steps that go back: the later values, and a mark' '
    page two && grep -x "curve loss two 5" seen && grep -x "restarts loss 1" seen && grep "continued at step 2" page.html'
test_expect_success 'two runs: curves together, what differs first' '
    page one two && [ "$(grep -c "^curve loss " seen)" = 2 ] && grep "Differences" page.html &&
    grep "<summary>1 the same in all runs" page.html'
test_expect_success 'values that are not finite: gaps and dots' '
    mkdir odd && lines 0 1 2 >odd/metrics.jsonl && printf "{\"step\":3,\"values\":{\"loss\":\"NaN\"}}\n{\"step\":4,\"values\":{\"loss\":\"-Infinity\"}}\n{\"step\":5,\"values\":{\"loss\":1}}\n" >>odd/metrics.jsonl &&
    page odd && grep -x "curve loss odd 4" seen && grep -x "odd loss 2" seen && grep "2 values NaN or infinite" page.html'
test_expect_success 'the axis of a loss that spans decades is logarithmic' '
    mkdir far && printf "{\"step\":%d,\"values\":{\"loss\":%s,\"other\":%s}}\n" 0 100 100 1 1 1 2 0.01 0.01 >far/metrics.jsonl && page far &&
    [ "$(grep -c ">logarithmic<" page.html)" = 1 ]'

test_expect_success 'a line cut off by a crash is left out, with a note' '
    mkdir cut && { lines 0 1 && echo rubbish && lines 2 && printf "{\"step\":3,\"val"; } >cut/metrics.jsonl &&
    page cut 2>error && cat error && grep "note: cut/metrics.jsonl: lines left out because they are not valid: 2, the first is line 3" error &&
    grep -x "curve loss cut 3" seen && grep "not valid: 2, the first is line 3" page.html'
test_expect_success 'records of other forms are left out' '
    mkdir forms && { lines 0 && printf "%s\n" null 7 "[]" "{}" "{\"step\":1}" "{\"step\":\"1\",\"values\":{}}" "{\"step\":1.5,\"values\":{}}" \
        "{\"step\":99999999999999999999,\"values\":{\"loss\":1}}" "{\"config\":7}" "$(printf "%0100000d" 0)" "$(printf "[%.0s" $(seq 5000))" && printf "\0\0\n\n" && lines 1; } >forms/metrics.jsonl &&
    page forms 2>error && cat error && grep -x "curve loss forms 2" seen && grep "not valid: 12," error'
test_expect_success 'a line of 20 MB is left out' '
    mkdir long && { lines 0 && printf "{\"step\":1,\"values\":{\"loss\":1,\"text\":\"" && head -c 20000000 /dev/zero | tr "\0" x && echo "\"}}" && lines 2; } >long/metrics.jsonl &&
    page long 2>error && grep -x "curve loss long 2" seen && grep "not valid: 1, .* line 2" error'
test_expect_success 'an empty file, and one without values' '
    mkdir empty && : >empty/metrics.jsonl && page empty && test ! -s seen && grep "nothing was logged" page.html &&
    page empty one && grep -x "curve loss one 4" seen'
test_expect_success 'texts, truth values, and values that are nothing of it' '
    mkdir kinds && echo "{\"step\":1,\"values\":{\"said\":\"a <b>text</b>\",\"is\":true,\"grad\":{\"count\":3}}}" >kinds/metrics.jsonl && page kinds &&
    grep "a &lt;b&gt;text" page.html && grep -x "curve is kinds 1" seen && grep "neither numbers, texts, histograms nor images: 1" page.html'

# histogram MIN MAX BINS: as a tracker writes it
histogram () {
    printf '{"count":9,"min":%s,"max":%s,"sum":4.5,"bins":[%s]}' "$1" "$2" "$3"
}
test_expect_success 'histograms: columns, their means, a restart, and two runs with the same axes' '
    mkdir hist other && for step in 0 10 20 30 20; do
        echo "{\"step\":$step,\"values\":{\"w\":$(histogram -1 1 0,0,9),\"same\":$(histogram 2 2 9,0)}}" || return 1
    done >hist/metrics.jsonl && echo "{\"step\":40,\"values\":{\"w\":$(histogram -3 0 1,1,1)}}" >other/metrics.jsonl &&
    page hist && printf "histograms w hist 3\nhistograms same hist 3\n" | diff - seen && grep "class=\"cells h6 s0\"" page.html &&
    page hist other && grep -x "histograms w other 1" seen && grep "class=\"cells h6 s1\"" page.html && ! grep "not valid\|left out" page.html'
test_expect_success '... whose axis begins and ends with them, not at 0' '
    mkdir above below && echo "{\"step\":1,\"values\":{\"w\":$(histogram 5 6 1,8)}}" >above/metrics.jsonl &&
    echo "{\"step\":1,\"values\":{\"w\":$(histogram -6 -5 1,8)}}" >below/metrics.jsonl &&
    page above && grep "class=\"ys\"[^>]*><span[^>]*>5<" page.html && page below && grep "class=\"ys\".*>[^0-9>]*5</span></div>" page.html'
test_expect_success 'histograms that are not valid are left out' '
    mkdir wrong && { for bad in "$(histogram 1 0 1)" "$(histogram 0 1 -1)" "$(histogram 0 1 "")" "$(histogram 0 1 "\"1\"")" "$(histogram 0 1e999 1)" \
            "$(histogram -1.7e308 1.7e308 1)" "$(histogram 0 1 1e16)" "$(histogram 0 "\"NaN\"" 1)" "$(histogram 0 1 "$(printf "0,%.0s" $(seq 64))1")" "[1]" null; do
        echo "{\"step\":1,\"values\":{\"w\":$bad,\"n\":1}}" || return 1
    done && echo "{\"step\":2,\"values\":{\"empty\":$(histogram 0 0 0,0)}}"; } >wrong/metrics.jsonl &&
    page wrong 2>error && cat error && [ "$(grep -c "^histograms" seen)" = 1 ] && grep -x "curve n wrong 1" seen &&
    grep "histograms nor images: 10" page.html && grep "not valid: 1, the first is line 5" error'
test_expect_success 'an image: as a data URI, of those that are PNG; few of many, and a note' '
    python3 "$checker" make many 0.0006 150 && page many && [ "$(grep -c "^image sample 40 40$" seen)" = 3 ] && ! grep "left out\|more images" page.html &&
    mkdir pictures && png=$(sed -n "s/.*\"png\":\"\([^\"]*\)\".*/\1/p" many/metrics.jsonl | sed 1q) && test -n "$png" &&
    for step in $(seq 40); do echo "{\"step\":$step,\"values\":{\"x\":{\"png\":\"$png\"}}}" || return 1; done >pictures/metrics.jsonl &&
    for bad in "" iVBORw0KGgo= "$png$png" "$png\\\" onload=\\\"alert(1)" "x$png" "<img>" /etc/passwd "$(printf "%s" "$png" | sed "s/AAAA/AAAB/")"; do
        echo "{\"step\":41,\"values\":{\"bad\":{\"png\":\"$bad\"},\"other\":{\"png\":7}}}" || return 1
    done >>pictures/metrics.jsonl &&
    page pictures && [ "$(grep -c "^image " seen)" -le 8 ] && grep "of 40 shown" page.html && ! grep onload page.html &&
    grep "images left out because they are not files in PNG, or larger than 4 MB: 8<" page.html && grep "histograms nor images: 8<" page.html'
test_expect_success 'a run that is named twice has two names' '
    ln -s one link && page one link one/metrics.jsonl && printf "curve loss %s 4\n" one "one (2)" "one (3)" >wanted && grep "^curve loss" seen | diff wanted -'

test_expect_success 'what cannot be read is one line' '
    test_exit 1 "$accelerate" report nowhere 2>error && cat error && grep "^accelerate: cannot read nowhere: No such file" error &&
    test_exit 1 "$accelerate" report /dev/null 2>error && grep "^accelerate: /dev/null: neither a folder nor a file of a run" error &&
    mkdir -p logs/a logs/b && lines 0 >logs/b/metrics.jsonl && test_exit 1 "$accelerate" report logs 2>error && cat error &&
    grep "logs: not a run: .* name the runs in it: logs/b" error && mkdir loop && ln -s metrics.jsonl loop/metrics.jsonl &&
    test_exit 1 "$accelerate" report loop 2>error && cat error && grep "cannot open loop/metrics.jsonl" error &&
    mkdir pipe && mkfifo pipe/metrics.jsonl && test_exit 1 timeout 60 "$accelerate" report pipe 2>error && grep "not a regular file" error &&
    test_exit 2 "$accelerate" report 2>error && grep "no run to report" error &&
    cp one/metrics.jsonl mine.jsonl && ln mine.jsonl same && test_exit 1 "$accelerate" report mine.jsonl -o same 2>error &&
    grep "^accelerate: mine.jsonl would be overwritten" error && cmp mine.jsonl one/metrics.jsonl &&
    test_exit 1 "$accelerate" report -o nowhere/page.html one 2>error && cat error && [ "$(wc -l <error)" = 1 ]'

# hostile: a page of texts that would like to be more
hostile='</script><script>alert(1)</script><img src=x onerror=alert(2)>"'"'"'`&lt;'
json=$(printf '%s' "$hostile" | sed 's/"/\\"/g')
png=$(sed -n 's/.*"png":"\([^"]*\)".*/\1/p' many/metrics.jsonl | sed 1q)
test_expect_success 'no text of a file is anything but text: names, keys, values, configuration, failure, profile' '
    name=$(printf "%s" "$hostile" | tr / _) && mkdir "$name" &&
    printf "{\"config\":{\"%s\":\"%s\",\"nested\":{\"%s\":[\"%s\"]}}}\n{\"step\":0,\"values\":{\"%s\":1,\"text %s\":\"%s\",\"hist %s\":$(histogram 0 1 1),\"image %s\":{\"png\":\"%s\"}}}\n" \
        "$json" "$json" "$json" "$json" "$json" "$json" "$json" "$json" "$json" "$png" >"$name/metrics.jsonl" &&
    printf "{\"host\":\"%s\",\"program\":\"%s\",\"exit_status\":1,\"restarts\":[{\"attempt\":0,\"error\":\"%s\"}],\"failure\":{\"rank\":0,\"pid\":1,\"exit_code\":1,\"doing\":\"%s\",\"error\":\"%s\",\"stderr\":[\"%s\"],\"traceback\":[\"%s\"],\"gpus\":[\"%s\"],\"others\":[{\"rank\":1,\"doing\":\"%s\"}]},\"environment\":{\"%s\":\"%s\"},\"configuration\":{\"%s\":{\"value\":\"%s\",\"origin\":\"%s\"}}}\n" \
        "$json" "$json" "$json" "$json" "$json" "$json" "$json" "$json" "$json" "$json" "$json" "$json" "$json" "$json" >"$name/launch.json" &&
    printf "[\n{\"ph\":\"X\",\"pid\":0,\"tid\":1,\"ts\":0,\"dur\":5,\"name\":\"%s\",\"cat\":\"collective\",\"args\":{\"at\":\"%s\"}}\n]\n" "$json" "$json" >"$name/profile.json" &&
    page "$name" && [ "$(grep -c "^curve " seen)" = 1 ] && [ "$(grep -o "&lt;img src=x" page.html | wc -l)" -gt 20 ] &&
    ! grep -i "<img src=x" page.html && grep "alt=\"image &lt;/script&gt;" page.html && page "$name" one && ! grep -i "<img src=x" page.html'

# ---- launch and profile ----

test_expect_success 'a launch that is not known to have begun: the times are those of what was logged' '
    mkdir late && lines 0 1 >late/metrics.jsonl && echo "{\"host\":\"h\",\"ended\":1764345700}" >late/launch.json &&
    page late && grep "<dt>Started</dt><dd>2025-11-28 16:00 UTC" page.html'
test_expect_success 'the report of a launch: exit, restarts, settings with origins, environment, memory of ranks' '
    mkdir job && lines 0 1 >job/metrics.jsonl && echo "mixed_precision: bf16" >job.yaml &&
    test_exit 3 "$accelerate" launch --config_file job.yaml --max_restarts 1 --cpu --num_processes 2 --failure_report job/launch.json sh -c "echo my last words >&2; exit 3" &&
    page job && grep "rank [01] (process [0-9]* on .*) exited with status 3" page.html && grep "attempt 1" page.html && grep "my last words" page.html &&
    grep "<tr><th scope=\"row\">mixed_precision</th><td class=\"text\">bf16<small>job.yaml:1</small></td></tr>" page.html &&
    grep "<tr><th scope=\"row\">num_processes</th><td class=\"text\">2<small>flag</small></td></tr>" page.html &&
    grep "<th scope=\"row\">system</th><td class=\"text\">Linux" page.html && [ "$(grep -c "<th scope=\"row\">rank [01]</th><td class=\"bar\">" page.html)" = 2 ]'
test_expect_success 'a run that has begun before its launch' '
    grep "<dt>Started</dt><dd>2025-11-28 16:00 UTC" page.html && grep "<dt>Duration</dt><dd>.*<small>of the last launch" page.html'
test_expect_success 'memory of ranks is theirs' '
    "$accelerate" launch --cpu --num_processes 2 --failure_report job/launch.json python3 -c "
import os
held = bytearray (b\"x\" * (200 << 20)) if os.environ[\"RANK\"] == \"1\" else b\"\"" &&
    python3 -c "
import json
report = json.load (open (\"job/launch.json\"))
peaks = [it[\"peak_memory_bytes\"] for it in report[\"processes\"]]
assert [it[\"rank\"] for it in report[\"processes\"]] == [0, 1] and peaks[0] < 100 << 20 < 200 << 20 < peaks[1] < 600 << 20, peaks
assert 0 < report[\"started\"] < report[\"ended\"] < report[\"started\"] + 900" &&
    page job && grep "<b class=\"pill good\">finished" page.html && ! grep "How it ended" page.html'
cat >profile.json <<'END'
[
{"ph":"M","pid":0,"tid":0,"ts":0,"name":"process_name","args":{"name":"rank 0"}},
{"ph":"X","pid":0,"tid":2,"ts":0.000,"dur":1000.000,"name":"step 0","cat":"step"},
{"ph":"X","pid":0,"tid":1,"ts":0.000,"dur":100.000,"name":"load data","cat":"span"},
{"ph":"X","pid":0,"tid":1,"ts":500.000,"dur":400.000,"name":"accel_all_reduce","cat":"collective","args":{"at":"a.c:7","count":1,"type":"float32","number":0}},
{"ph":"X","pid":0,"tid":1,"ts":500.000,"dur":300.000,"name":"wait for rank 1","cat":"wait"},
{"ph":"X","pid":1,"tid":2,"ts":0.000,"dur":1000.000,"name":"step 0","cat":"step"},
{"ph":"X","pid":1,"tid":1,"ts":800.000,"dur":100.000,"name":"accel_all_reduce","cat":"collective","args":{"at":"a.c:7","count":1,"type":"float32","number":0}}
]
END
test_expect_success 'a profile: shares of the time of each rank, and who was late' '
    page one profile.json && grep -A1 "<tr><th scope=\"row\">0</th><td class=\"bar\">" page.html >row && cat row &&
    grep "<td>50.0&nbsp;%</td><td>10.0&nbsp;%</td><td>10.0&nbsp;%</td><td>30.0&nbsp;%</td><td></td></tr>" row &&
    grep "<tr><th scope=\"row\">1</th><td class=\"bar\">.*<td>90.0&nbsp;%</td><td>0.0&nbsp;%</td><td>10.0&nbsp;%</td><td>0.0&nbsp;%</td><td>0.3&nbsp;ms</td></tr>" page.html &&
    grep "<code>a.c:7</code></td><td>2</td><td>0.5&nbsp;ms</td>" page.html && page profile.json && grep "Where the time went" page.html'
# shares WHAT RANKS: those of a profile of utility WHAT: "compute data collectives waiting", a rank a line
shares () {
    timeout $patience "$accelerate" launch --quiet --cpu --num_processes "$2" "$builddir/tests/conformance/utility" "$1" "$1.json" && page "$1.json" &&
    sed -n "s/.*<td class=\"bar\">//; s/&nbsp;%//g; s/^.*<td>\([0-9.]\{1,\}\)<.td><td>\([0-9.]\{1,\}\)<.td><td>\([0-9.]\{1,\}\)<.td><td>\([0-9.]\{1,\}\)<.td>.*/\1 \2 \3 \4/p" page.html >shares &&
    cat shares && [ "$(wc -l <shares)" = "$2" ]
}
test_expect_success 'what a real loader reads is time for data, once, also where rank 0 reads for all' '
    shares loading 2 && awk "\$2 < 60 || \$1 > 40 { bad = 1 } END { exit bad }" shares &&
    shares dispatching 2 && awk "\$1 > 40 || (NR == 1 && \$2 < 50) || (NR == 2 && \$3 + \$4 < 50) || \$1 + \$2 + \$3 + \$4 > 100.3 { bad = 1 } END { exit bad }" shares'
cat >nested.json <<'END'
[
{"ph":"X","pid":0,"tid":2,"ts":0.000,"dur":1000.000,"name":"step 0","cat":"step"},
{"ph":"X","pid":0,"tid":1,"ts":10.000,"dur":30.000,"name":"accel_all_reduce","cat":"collective"},
{"ph":"X","pid":0,"tid":1,"ts":110.000,"dur":50.000,"name":"accel_all_reduce","cat":"collective"},
{"ph":"X","pid":0,"tid":1,"ts":100.000,"dur":300.000,"name":"accel_loader_next","cat":"span"},
{"ph":"X","pid":0,"tid":1,"ts":90.000,"dur":400.000,"name":"load batch","cat":"span"}
]
END
test_expect_success 'spans about data inside each other, and collectives inside of them, count once' '
    page nested.json && grep "<td>57.0&nbsp;%</td><td>35.0&nbsp;%</td><td>8.0&nbsp;%</td><td>0.0&nbsp;%</td>" page.html'
test_expect_success 'a profile that was cut off, and two for one run' '
    head -c 700 profile.json >half.json && page one half.json && grep "events of the profile left out because they are not valid: 1" page.html &&
    test_exit 1 "$accelerate" report one profile.json half.json 2>error && cat error && grep "run one has two files of one kind (profile)" error'
test_expect_success 'a failure report that is not one' '
    echo "{\"host\":" >bad.json && test_exit 1 "$accelerate" report one bad.json 2>error && cat error && grep "bad.json:2: not a failure report" error'

# Random files: never more than one line, never a page that is not well-formed.
turns=40
! is_long || turns=400
test_expect_success 'damaged files' '
    cat >damage.py <<END &&
import json, random, subprocess, sys
random.seed (7)
sources = [open (name, "rb").read () for name in ("two/metrics.jsonl", "hist/metrics.jsonl", "many/metrics.jsonl", "job/launch.json", "profile.json")]
for turn in range ($turns):
    data = bytearray (random.choice (sources))
    for _ in range (random.randrange (1, 8)):
        data[random.randrange (len (data))] = random.choice (b"{}[]\",:0e-<\x00\xff")
    open ("damaged.jsonl" if turn % 2 else "damaged.json", "wb").write (data[: random.randrange (1, len (data) + 1)])
    result = subprocess.run (["$accelerate", "report", "-o", "page.html", "one", "damaged.jsonl" if turn % 2 else "damaged.json"],
                             stderr=subprocess.PIPE, timeout=300)
    assert result.returncode in (0, 1) and result.stderr.count (b"\n") <= 1, (turn, result)
    if not result.returncode:
        subprocess.run ([sys.executable, "$checker", "check", "page.html"], check=True, stdout=subprocess.DEVNULL)
END
    python3 damage.py'

test_done
