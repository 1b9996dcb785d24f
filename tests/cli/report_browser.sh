#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Pages of accelerate report in a browser: curves are seen, narrow and wide, light and dark; the script shows values; and
# nothing that a file says is run.  Needs Chromium, which scripts/packages.txt does not list, because it and what it needs
# take 300 MB to install; TEST_BROWSER names another browser.
. "${srcdir:-.}/tests/testlib.sh"
checker=$srcdir/tests/cli/report_page.py
browser=${TEST_BROWSER-$(command -v chromium || command -v chromium-browser || command -v google-chrome)}
if [ -z "$browser" ]; then
    skip_rest 'there is no chromium: scripts/packages.txt leaves out its 300 MB; apt-get install chromium'
fi
if ! command -v python3 >/dev/null; then
    skip_rest 'no python3'
fi

# browse ARGUMENT...: without a sandbox, which root cannot have, shared memory, which containers have little of, and
# requests of its own.  A browser that crashes or hangs is started again, with a new profile.
browse () {
    for try in 1 2 3; do
        ! timeout -k 10 $((patience / 3)) "$browser" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars \
            --no-first-run --disable-extensions --disable-background-networking --disable-component-update --disable-sync \
            --user-data-dir="$scratch/browser" "$@" 2>browser.log || return 0
        echo "try $try: $(tail -n 1 browser.log)" >&2
        rm -rf "$scratch/browser"
    done
    return 1
}

# frame WIDTH HEIGHT PAGE: frame.html has PAGE.html in a frame of that size, because windows have at least 500 pixels; its
# title is what the page sends
frame () {
    cat >frame.html <<END
<!DOCTYPE html><style>body { margin: 0 } iframe { border: 0; display: block }</style>
<script>onmessage = (it) => { document.title = it.data }</script><iframe width="$1" height="$2" src="$3.html"></iframe>
END
}

# shoot WIDTH HEIGHT SCHEME PAGE: a picture of PAGE.html as PAGE.png; scheme 0 is dark, 1 is light
shoot () {
    rm -f "$4.png"
    frame "$1" "$2" "$4"
    browse --blink-settings=preferredColorScheme="$3" --window-size="$1,$2" --screenshot="$scratch/$4.png" "file://$scratch/frame.html" &&
    test -s "$4.png"
}

# seen WIDTH HEIGHT SCHEME HIDDEN BACKGROUND COLOUR...: the background, and at least 100 pixels of each colour, are in a
# picture of page.html, but not in one of the same page without what the selector HIDDEN is for
seen () {
    width=$1 height=$2 scheme=$3 hidden=$4
    shift 4
    sed "s|</style>|$hidden{visibility:hidden}</style>|" page.html >bare.html && shoot "$width" "$height" "$scheme" page &&
    shoot "$width" "$height" "$scheme" bare &&
    python3 "$checker" png page.png "$@" >with && python3 "$checker" png bare.png "$@" >without && paste -d " " with without >both && cat both &&
    awk '$2 < 100 || (NR > 1 && $2 < $4 + 100) { few = 1 } END { exit few }' both
}

# add FILE: page.html with a script at its end, which is read from standard input
add () {
    { sed 's|</body>.*||' page.html && echo "<script>" && cat && echo "</script></body></html>"; } >"$1"
}

python3 "$checker" make first 0.0006 150 && python3 "$checker" make second 0.0003 120 || exit 99
"$accelerate" report -o page.html first second || exit 99
shoot 400 700 1 page || skip_rest "$browser does not start: $(tail -n 1 browser.log)"
test_expect_success 'both curves are seen on a narrow page, light' 'seen 400 700 1 .line f7f7f5 2563eb e0590b'
test_expect_success 'and on a wide page, dark' 'seen 1600 700 0 .line 101214 6ea8fe ff9457'
if is_long; then
    test_expect_success 'on a narrow page, dark' 'seen 400 700 0 .line 101214 6ea8fe ff9457'
    test_expect_success 'on a wide page, light' 'seen 1600 700 1 .line f7f7f5 2563eb e0590b'
fi
# What is below the curves comes to the top, for pictures that are soon read.
sed 's|</style>|section:not(:has(.heat,img)){display:none}</style>|' page.html >below.html && mv below.html page.html || exit 99
light='1 .cells,img f7f7f5 2563eb e0590b 12ab34' dark='0 .cells,img 101214 6ea8fe ff9457 12ab34'
test_expect_success 'histograms and images on a narrow page, dark' 'seen 400 1100 $dark'
if is_long; then
    test_expect_success 'and light' 'seen 400 1100 $light'
    test_expect_success 'on a wide page, light' 'seen 1600 1000 $light'
    test_expect_success 'and dark' 'seen 1600 1000 $dark'
fi

# dom NAME: what NAME.html is after its script has run
dom () {
    browse --window-size=500,900 --virtual-time-budget=2000 --dump-dom "file://$scratch/$1.html" >dom.html
}

# One start of the browser is for all of these.
test_expect_success 'the pointer shows step and values of all runs' '
    python3 "$checker" end first && "$accelerate" report -o page.html first second && add moved.html <<END &&
        const move = (kind, place) => {
            const plot = document.querySelector(kind), box = plot.querySelector("svg").getBoundingClientRect();
            plot.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + box.width * place, clientY: box.top + 9 }));
            const tip = [...plot.querySelector(".tip").querySelectorAll("div")].map((it) => it.textContent).join(", ");
            return kind + ": " + tip + "; " + plot.querySelectorAll("div.dot").length + " dots. ";
        };
        document.title = move(".plot", 0.5) + move(".heat", 1) + "width " + document.documentElement.scrollWidth + ", images "
            + [...document.images].map((it) => it.naturalWidth).join() + ", frame " + innerWidth + ", sections: "
            + [...document.querySelectorAll("h2")].filter((it) => it.parentNode.offsetHeight > 50).map((it) => it.textContent).join("; ");
        parent.postMessage(document.title, "*");
END
    frame 400 900 moved && dom frame && grep -o "<title>.*</title>" dom.html >title && cat title && grep "\.plot: step [0-9,]*, first [0-9.]*, second [0-9.]*; 2 dots" title'
test_expect_success 'also of histograms' 'cat title && grep "\.heat: step 100, 0; " title'
test_expect_success 'the page may show its images' 'grep "images 40,40,40,40,40,40, " title'
test_expect_success 'all sections are there: how the run ended, its settings and environment, where the time of its ranks went' '
    for section in "How it ended" "Where the time went" Configuration Environment; do grep "sections: .*$section" title || return 1; done'
test_expect_success 'no page is wider than the window' '
    width=$(sed -n "s|.*width \([0-9]*\),.*, frame 400, sections.*|\1|p" title) && test -n "$width" && [ "$width" -le 400 ]'
test_expect_success 'nothing that a file says is run' '
    mkdir evil && text="</script><script>document.title=1</script><img src=x onerror=document.title=2>\\\"onload=document.title=3" &&
    printf "{\"config\":{\"%s\":\"%s\"}}\n{\"step\":0,\"values\":{\"%s\":1}}\n{\"step\":1,\"values\":{\"%s\":2}}\n" "$text" "$text" "$text" "$text" >evil/metrics.jsonl &&
    "$accelerate" report -o page.html evil && dom page && grep "<title>evil</title>" dom.html && ! grep "<img" dom.html'

test_done
