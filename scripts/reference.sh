#!/usr/bin/env bash
# Fills the parts of the reference that follow from the sources:
#   docs/reference/counters.md   the counters of a node, with their documentation
#   docs/reference/tests.md      the files of tests, with the first sentence of each
#   docs/reference/flags.md      what the programs print for --help and --help-settings
#   scripts/reference.sh            writes the pages
#   scripts/reference.sh --check    writes nothing; exit status 1 when a page differs
# The page of flags needs the built programs: with --programs DIR behind that, only this page is
# written or checked. The other pages need awk only.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."

check='' programs=''
while [ $# -gt 0 ]; do
    case $1 in
    --check) check=yes ;;
    --programs)
        programs=${2:?"--programs needs the directory of the built programs"}
        shift
        ;;
    *)
        echo "reference: $1 is no flag; there are --check and --programs" >&2
        exit 2
        ;;
    esac
    shift
done

# The Rust files whose path has the pattern.
sources() { find crates apps fuzz benches -name target -prune -o -name '*.rs' -path "$1" -print | sort; }

# The list that a macro `counters! { /// what it counts / name, .. }` has.
counters() {
    local file
    file=$(grep -l '^counters! {' $(sources 'crates/*'))
    [ "$(wc -w <<<"$file")" = 1 ] || {
        echo "reference: the counters of a node are in one file, and not in: $file" >&2
        exit 1
    }
    awk '
        /^counters! \{/ { inside = 1; print "| counter | what it counts |"; print "| --- | --- |"; next }
        inside && /^}/ { exit }
        inside && /^ *\/\/\// { sub(/^ *\/\/\/ ?/, ""); text = text (text == "" ? "" : " ") $0; next }
        inside { gsub(/[ ,]/, ""); print "| `" $0 "` | " text " |"; text = "" }
    ' "$file"
}

# Each package with the files below its folder `tests`, and the first sentence of each.
tests() {
    local file package last=
    while read -r file; do
        package=${file%%/tests/*}
        sentence=$(awk '
            !/^\/\/!/ { exit }
            { sub(/^\/\/! ?/, ""); text = text (text == "" ? "" : " ") $0 }
            /\.( |$)/ || $0 == "" { exit }
            END {
                end = match(text, /\.( |$)/)
                if (end) text = substr(text, 1, end)
                gsub(/\[`/, "`", text)
                gsub(/`\](\([^)]*\))?/, "`", text)
                print text
            }' "$file")
        [ -n "$sentence" ] || continue
        [ "$package" = "$last" ] || printf '%s### %s\n\n' "${last:+$'\n'}" "\`$package\`"
        last=$package
        printf -- '- `%s`: %s\n' "${file#"$package"/tests/}" "$sentence"
    done < <(sources '*/tests/*' | grep -vE '/src/|/(main|common|mod)\.rs$|/common/')
}

# What one program prints, as a block of text.
printed() {
    local program=$1
    shift
    printf '```text\n$ %s %s\n' "$program" "$*"
    # A program that fails has printed why.
    (unset COLUMNS && "$programs/$program" "$@") || exit 1
    printf '```\n\n'
}

# The flags of all programs, and the settings of those that have some.
flags() {
    local program command
    for program in ycsb tpcc microbench memnode; do
        printf '## `%s`\n\n' "$program"
        printed "$program" --help
        printed "$program" --help-settings
    done
    for program in spatial sim cluster histories; do
        printf '## `%s`\n\n' "$program"
        if [ "$program" = spatial ]; then
            # The help of each command has all flags.
            printed "$program" --help-settings
        else
            printed "$program" --help
        fi
        for command in $("$programs/$program" --help |
            awk '/^Commands:/ { inside = 1; next } /^$/ { inside = 0 } inside && /^  [a-z]/ { print $1 }'); do
            [ "$command" = help ] || printed "$program" "$command" --help
        done
    done
}

status=0
made=$(mktemp)
trap 'rm -f "$made" "$made.page"' EXIT
parts='counters tests'
[ -z "$programs" ] || parts=flags
for part in $parts; do
    page=docs/reference/$part.md
    $part >"$made"
    awk -v made="$made" -v part="$part" '
        $0 == "<!-- " part ": begin -->" {
            print
            print ""
            while ((getline line < made) > 0) print line
            print ""
            skip = 1
        }
        $0 == "<!-- " part ": end -->" { skip = 0 }
        !skip' "$page" >"$made.page"
    if [ -z "$check" ]; then
        cp "$made.page" "$page"
    elif ! cmp -s "$made.page" "$page"; then
        echo "reference: $page is out of date: run scripts/reference.sh${programs:+ --programs $programs}" >&2
        status=1
    fi
done
exit $status
