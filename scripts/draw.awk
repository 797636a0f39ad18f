# Draws one picture of the book: reads its text, prints SVG. scripts/draw.sh says what a text has.

function fail(what) {
    printf "%s:%d: %s\n", FILENAME, FNR, what > "/dev/stderr"
    failed = 1
    exit 1
}

function escaped(text) {
    gsub(/&/, "\\&amp;", text)
    gsub(/</, "\\&lt;", text)
    gsub(/>/, "\\&gt;", text)
    return text
}

# The rest of the line behind its first `n` words.
function rest(n,    text) {
    text = $0
    while (n-- > 0) sub(/^ *[^ ]+ */, "", text)
    return text
}

function put(element) { body = body "  " element "\n" }

function label(x, y, anchor, class, text) {
    put(sprintf("<text x=\"%d\" y=\"%d\" text-anchor=\"%s\" class=\"%s\">%s</text>", x, y, anchor, class, escaped(text)))
}

# Lines of text, the last of which stands at `y`.
function stacked(x, y, anchor, class, text,    lines, n, i) {
    n = split(text, lines, / *\| */)
    # Twice: the first is a broad edge in the colour of the paper, so that no line runs through it.
    for (i = 1; i <= n; i++) {
        label(x, y - (n - i) * 15, anchor, class " halo", lines[i])
        label(x, y - (n - i) * 15, anchor, class, lines[i])
    }
    return n
}

# The longest line's width, as wide as letters mostly are.
function width(text, each,    lines, n, i, most) {
    n = split(text, lines, / *\| */)
    for (i = 1; i <= n; i++) if (length(lines[i]) > most) most = length(lines[i])
    return int(most * each)
}

function box(x, y, w, h, class, text,    lines, n, i) {
    put(sprintf("<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" class=\"%s\"/>", x, y, w, h, class))
    n = split(text, lines, / *\| */)
    for (i = 1; i <= n; i++)
        label(x + w / 2, y + h / 2 + 4 + (i - (n + 1) / 2) * 16, "middle", i == 1 && class == "node" ? "strong" : "small", lines[i])
}

function arrow(x1, y1, x2, y2, class) {
    used[class] = 1
    put(sprintf("<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" class=\"%s\" marker-end=\"url(#%s)\"/>", x1, y1, x2, y2, class, class))
}

function lane_of(name) {
    if (!(name in at)) fail("no lane is called " name)
    return at[name]
}

BEGIN {
    kinds = "verb message local"
    means["verb"] = "one-sided verb"
    means["message"] = "message"
    means["local"] = "completion, call or read"
    spacing = 250
    margin = 120
    y = 92
}

/^ *(#|$)/ { next }
$1 == "title" { title = rest(1); next }
$1 == "spacing" { spacing = $2; next }
$1 == "margin" { margin = $2; next }
$1 == "means" { means[$2] = rest(2); next }
$1 == "lane" {
    at[$2] = margin + lanes * spacing
    name[++lanes] = rest(2)
    next
}
$1 ~ /^(verb|message|local)$/ {
    from = lane_of($2)
    to = lane_of($3)
    if (from == to) fail("an arrow needs two lanes; `note` has one")
    text = rest(3)
    y += 15 * split(text, ignored, /\|/) + 15
    stacked((from + to) / 2, y - 6, "middle", "small", text)
    arrow(from, y, to + (to > from ? -3 : 3), y, $1)
    next
}
$1 ~ /^(note|word)$/ {
    x = lane_of($2)
    text = rest(2)
    n = split(text, ignored, /\|/)
    w = width(text, 6.5) + 20
    h = n * 16 + 8
    y += 14
    left = x - w / 2 < 8 ? 8 : x - w / 2
    box(left, y, w, h, $1 == "note" ? "step" : "state", text)
    y += h
    next
}
$1 == "part" {
    y += 30
    parts = parts sprintf("%d ", y)
    label(14, y - 5, "start", "strong", rest(1))
    next
}
$1 == "gap" { y += $2; next }
$1 == "size" { sized = $2; y = $3; next }
$1 == "box" { box($2, $3, $4, $5, $6, rest(6)); next }
$1 == "arrow" {
    if (!($6 in means)) fail("no kind of arrow is called " $6)
    arrow($2, $3, $4, $5, $6)
    if (rest(6) != "") stacked(($2 + $4) / 2 + ($2 == $4 ? 8 : 0), ($3 + $5) / 2 - ($2 == $4 ? -4 : 7), $2 == $4 ? "start" : "middle", "small", rest(6))
    next
}
$1 == "text" { label($2, $3, "start", "strong", rest(3)); next }
{ fail("what is `" $1 "`?") }

END {
    if (failed) exit 1
    if (title == "") { print FILENAME ": no title" > "/dev/stderr"; exit 1 }
    wide = lanes ? 2 * margin + (lanes - 1) * spacing : sized
    bottom = y + 22
    high = bottom + 34
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\">\n", wide, high, wide, high
    print "  <title>" escaped(title) "</title>"
    print "  <style>"
    print "    text { font: 13px system-ui, 'DejaVu Sans', sans-serif; fill: #1f2933 }"
    print "    .small { font-size: 12px } .strong { font-weight: 600 } .title { font-size: 15px; font-weight: 600 }"
    print "    .halo { fill: #ffffff; stroke: #ffffff; stroke-width: 5px; stroke-linejoin: round }"
    print "    .paper { fill: #ffffff; stroke: #d5dbe1 } .life, .rule { stroke: #b8c1ca; stroke-dasharray: 3 4 } .rule { stroke-dasharray: none }"
    print "    .node { fill: #eef3f8; stroke: #7a8896 } .step { fill: #f6f8fa; stroke: #b8c1ca } .state { fill: #fff3cf; stroke: #c9a227 }"
    print "    .verb { stroke: #1f6feb; stroke-width: 1.6 } .message { stroke: #c2410c; stroke-width: 1.6 } .local { stroke: #66727e; stroke-dasharray: 5 3 }"
    print "    .verb-end { fill: #1f6feb } .message-end { fill: #c2410c } .local-end { fill: #66727e }"
    print "    @media (prefers-color-scheme: dark) {"
    print "      text { fill: #e6e9ec } .halo { fill: #1b1f24; stroke: #1b1f24 } .paper { fill: #1b1f24; stroke: #3a424a }"
    print "      .life, .rule { stroke: #55606b } .node { fill: #2a323b; stroke: #8b98a5 } .step { fill: #242a31; stroke: #55606b } .state { fill: #453a12; stroke: #c9a227 }"
    print "      .verb { stroke: #6cb0ff } .message { stroke: #ffa657 } .local { stroke: #9aa4af }"
    print "      .verb-end { fill: #6cb0ff } .message-end { fill: #ffa657 } .local-end { fill: #9aa4af }"
    print "    }"
    print "  </style>"
    print "  <defs>"
    n = split(kinds, each, " ")
    for (i = 1; i <= n; i++)
        printf "    <marker id=\"%s\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" class=\"%s-end\"/></marker>\n", each[i], each[i]
    print "  </defs>"
    printf "  <rect x=\"0.5\" y=\"0.5\" width=\"%d\" height=\"%d\" rx=\"8\" class=\"paper\"/>\n", wide - 1, high - 1
    printf "  <text x=\"14\" y=\"26\" class=\"title\">%s</text>\n", escaped(title)
    for (i = 1; i <= lanes; i++) {
        x = margin + (i - 1) * spacing
        printf "  <line x1=\"%d\" y1=\"86\" x2=\"%d\" y2=\"%d\" class=\"life\"/>\n", x, x, bottom
    }
    n = split(parts, each, " ")
    for (i = 1; i <= n; i++) printf "  <line x1=\"14\" y1=\"%d\" x2=\"%d\" y2=\"%d\" class=\"rule\"/>\n", each[i], wide - 14, each[i]
    drawn = body
    body = ""
    for (i = 1; i <= lanes; i++) {
        w = width(name[i], 8) + 22
        box(margin + (i - 1) * spacing - w / 2, 44, w, 42, "node", name[i])
    }
    printf "%s%s", body, drawn
    x = 14
    n = split(kinds, each, " ")
    for (i = 1; i <= n; i++) if (each[i] in used) {
        printf "  <line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" class=\"%s\" marker-end=\"url(#%s)\"/>\n", x, high - 15, x + 34, high - 15, each[i], each[i]
        printf "  <text x=\"%d\" y=\"%d\" class=\"small\">%s</text>\n", x + 42, high - 11, escaped(means[each[i]])
        x += 42 + length(means[each[i]]) * 6.6 + 26
    }
    print "</svg>"
}
