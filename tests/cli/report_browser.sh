#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Pages of accelerate report in a browser: curves are seen, narrow and wide, light and dark; the script shows values; and
# nothing that a file says is run.  Needs Chromium, which no package of ours asks for; TEST_BROWSER names another one.
. "${srcdir:-.}/tests/testlib.sh"
checker=$srcdir/tests/cli/report_page.py
browser=${TEST_BROWSER-$(command -v chromium || command -v chromium-browser || command -v google-chrome)}
if [ -z "$browser" ] || ! command -v python3 >/dev/null; then
    skip_rest 'no chromium or no python3'
fi

# browse ARGUMENT...: without a sandbox, which root cannot have
browse () {
    timeout $patience "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars \
        --user-data-dir="$scratch/browser" "$@" 2>browser.log
}

# shoot WIDTH SCHEME NAME: a picture of page.html; scheme 0 is dark, 1 is light
shoot () {
    browse --blink-settings=preferredColorScheme="$2" --window-size="$1,900" --screenshot="$scratch/$3.png" "file://$scratch/page.html" &&
    test -s "$3.png"
}

# has NAME COLOUR LEAST...: so many pixels of each colour are in a picture
has () {
    name=$1 colours=
    shift
    : >least
    while [ $# -gt 1 ]; do
        colours="$colours $1"
        echo "$2" >>least
        shift 2
    done
    # shellcheck disable=SC2086
    python3 "$checker" png "$name.png" $colours >found && paste -d " " found least && paste -d " " found least | awk '$2 < $3 { exit 1 }'
}

# add FILE: page.html with a script at its end, which is read from standard input
add () {
    { sed 's|</body>.*||' page.html && echo "<script>" && cat && echo "</script></body></html>"; } >"$1"
}

python3 "$checker" make first && python3 "$checker" make second 0.0003 1500 || exit 99
"$accelerate" report -o page.html first second || exit 99
shoot 400 1 probe || skip_rest "$browser does not start: $(tail -n 1 browser.log)"
test_expect_success 'both curves are seen on a narrow page, light' 'has probe f7f7f5 1000 2563eb 300 e0590b 300'
test_expect_success 'and dark' 'shoot 400 0 dark && has dark 101214 1000 6ea8fe 300 ff9457 300'
test_expect_success 'on a wide page, light' 'shoot 1600 1 wide && has wide f7f7f5 1000 2563eb 600 e0590b 600'
test_expect_success 'and dark' 'shoot 1600 0 widedark && has widedark 101214 1000 6ea8fe 600 ff9457 600'
test_expect_success 'without a run there are no curves' '
    mkdir none && : >none/metrics.jsonl && "$accelerate" report -o page.html none && shoot 1600 1 empty && ! has empty 2563eb 100'

# dom NAME: what page.html is after its script, and what is added to it, has run
dom () {
    browse --virtual-time-budget=2000 --dump-dom "file://$scratch/$1" >dom.html
}

test_expect_success 'the pointer shows step and values of all runs' '
    "$accelerate" report -o page.html first second && add moved.html <<END &&
        const plot = document.querySelector(".plot"), box = plot.querySelector("svg").getBoundingClientRect();
        plot.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + box.width / 2, clientY: box.top + 9 }));
END
    dom moved.html && grep -o "<div class=\"tip\".*" dom.html | cut -c 1-600 >tip && cat tip &&
    grep "step [0-9,]*</div>" tip && grep "first <b[^>]*>[0-9.]*</b>" tip && grep "second <b[^>]*>[0-9.]*</b>" tip &&
    [ "$(grep -o "<div class=\"dot" dom.html | wc -l)" = 2 ]'
test_expect_success 'no page is wider than the window' '
    echo "document.title = \"width \" + document.documentElement.scrollWidth" | add moved.html &&
    browse --window-size=400,900 --virtual-time-budget=2000 --dump-dom "file://$scratch/moved.html" >dom.html && grep -o "<title>.*</title>" dom.html &&
    width=$(sed -n "s|.*<title>width \([0-9]*\)</title>.*|\1|p" dom.html) && test -n "$width" && [ "$width" -le 500 ]'
test_expect_success 'nothing that a file says is run' '
    mkdir evil && text="</script><script>document.title=1</script><img src=x onerror=document.title=2>\\\"onload=document.title=3" &&
    printf "{\"config\":{\"%s\":\"%s\"}}\n{\"step\":0,\"values\":{\"%s\":1}}\n{\"step\":1,\"values\":{\"%s\":2}}\n" "$text" "$text" "$text" "$text" >evil/metrics.jsonl &&
    "$accelerate" report -o page.html evil && dom page.html && grep "<title>evil</title>" dom.html && ! grep "<img" dom.html'

test_done
