#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Pages of accelerate report in a browser: curves are seen, narrow and wide, light and dark; the script shows values; and
# nothing that a file says is run.  Needs Chromium, which no package of ours asks for; TEST_BROWSER names another one.
. "${srcdir:-.}/tests/testlib.sh"
checker=$srcdir/tests/cli/report_page.py
browser=${TEST_BROWSER-$(command -v chromium || command -v chromium-browser || command -v google-chrome)}
if [ -z "$browser" ]; then
    skip_rest 'there is no chromium'
fi
if ! command -v python3 >/dev/null; then
    skip_rest 'no python3'
fi

# browse ARGUMENT...: without a sandbox, which root cannot have
browse () {
    timeout $patience "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars \
        --user-data-dir="$scratch/browser" "$@" 2>browser.log
}

# shoot WIDTH SCHEME PAGE: a picture of PAGE.html as PAGE.png; scheme 0 is dark, 1 is light
shoot () {
    rm -f "$3.png"
    browse --blink-settings=preferredColorScheme="$2" --window-size="$1,700" --screenshot="$scratch/$3.png" "file://$scratch/$3.html" &&
    test -s "$3.png"
}

# seen WIDTH SCHEME BACKGROUND COLOUR...: the background, and at least 100 pixels of each colour, are in a picture of
# page.html, but not in one of the same page without its curves
seen () {
    width=$1 scheme=$2
    shift 2
    sed "s|</style>|.line{display:none}</style>|" page.html >bare.html && shoot "$width" "$scheme" page && shoot "$width" "$scheme" bare &&
    python3 "$checker" png page.png "$@" >with && python3 "$checker" png bare.png "$@" >without && paste -d " " with without >both && cat both &&
    awk '$2 < 100 || (NR > 1 && $2 < $4 + 100) { few = 1 } END { exit few }' both
}

# add FILE: page.html with a script at its end, which is read from standard input
add () {
    { sed 's|</body>.*||' page.html && echo "<script>" && cat && echo "</script></body></html>"; } >"$1"
}

python3 "$checker" make first 0.0006 150 && python3 "$checker" make second 0.0003 120 || exit 99
"$accelerate" report -o page.html first second || exit 99
shoot 400 1 page || skip_rest "$browser does not start: $(tail -n 1 browser.log)"
test_expect_success 'both curves are seen on a narrow page, light' 'seen 400 1 f7f7f5 2563eb e0590b'
test_expect_success 'and dark' 'seen 400 0 101214 6ea8fe ff9457'
test_expect_success 'on a wide page, light' 'seen 1600 1 f7f7f5 2563eb e0590b'
test_expect_success 'and dark' 'seen 1600 0 101214 6ea8fe ff9457'

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
