# bash completion for piano
#
# `piano --complete` prints the commands and flags, as lines of: command, flag, value, how to complete the value, flags that it
# excludes, explanation; with tabs between them and `-` for nothing. A line without a flag is about the words of the command.

# A field of the lines of COMMAND, or of its flag FLAG: _piano_field NUMBER TABLE COMMAND [FLAG]
_piano_field()
{
    awk -F '\t' -v n="$1" -v command="$3" -v flag="$4" \
        '$1 == command && (flag == "" ? $2 != "-" : $2 == flag) { print $n }' <<<"$2"
}

_piano_runs()
{
    local dir=${PIANO_RUNS_DIR:-.piano/runs}
    [ -d "$dir" ] || return
    (cd "$dir" && ls *.ndjson *.json *.rec 2>/dev/null | sed 's/\.[^.]*$//')
}

# Processes with a recording, which `piano snapshot` accepts.
_piano_recorded()
{
    grep -lsE '^[^ ]+ rw-s .*\.rec' /proc/[0-9]*/maps 2>/dev/null | cut -d/ -f3
}

# Functions that the last build of the project found, with and without their namespaces and classes.
_piano_functions()
{
    local dir=$PWD
    while [ -n "$dir" ] && [ ! -d "$dir/.piano/build/units" ]; do dir=${dir%/*}; done
    cat "$dir"/.piano/build/units/*.unit 2>/dev/null |
        awk -F '\t' '$1 == "fn" && $2 ~ /^[A-Za-z0-9_:~]+$/ { print $2; n = split($2, part, "::"); if (n > 1) print part[n] }' |
        sort -u
}

# Offers functions for the word under the cursor. Bash ends a word at a colon, so the completion must not repeat the
# text before the last colon.
_piano_complete_function()
{
    local line=${COMP_LINE:0:COMP_POINT} head
    local word=${line##*[[:space:]]}
    COMPREPLY=($(compgen -W "$(_piano_functions)" -- "$word"))
    case $word$COMP_WORDBREAKS in
    *:*:*)
        head=${word%"${word##*:}"}
        COMPREPLY=("${COMPREPLY[@]#"$head"}")
        ;;
    esac
}

_piano()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
    local i line=${COMP_LINE:0:COMP_POINT} table commands words value how
    table=$(command piano --complete 2>/dev/null)
    commands=$(cut -f 1 <<<"$table" | uniq)

    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "$commands --help --version" -- "$word"))
        return
    fi
    words=$(_piano_field 4 "$table" "$command" -)
    for ((i = 2; i < COMP_CWORD; i++)); do
        # The words after `--` or after a program's name belong to another program.
        [ "${COMP_WORDS[i]}" = -- ] && compopt -o default && return
        [ "$words" = program ] || continue
        case ${COMP_WORDS[i]}:${COMP_WORDS[i - 1]} in
        [-=]* | *:=) continue ;;
        esac
        case $(_piano_field 3 "$table" "$command" "${COMP_WORDS[i - 1]}") in
        '' | - | \[*) compopt -o default && return ;;
        esac
    done

    # Bash splits words at colons and equal signs. The flag of a function is the word before the last blank.
    line=${line%"${line##*[[:space:]]}"}
    line=${line%"${line##*[![:space:]]}"}
    [ "$(_piano_field 4 "$table" "$command" "${line##*[[:space:]]}")" = function ] && _piano_complete_function && return
    [ "$before" = = ] && before=${COMP_WORDS[COMP_CWORD - 2]}
    value=$(_piano_field 3 "$table" "$command" "$before")
    how=$(_piano_field 4 "$table" "$command" "$before")
    case $value:$how in
    : | -:* | \[*) ;;
    *:words\ *) COMPREPLY=($(compgen -W "${how#words }" -- "$word")) && return ;;
    *:file) COMPREPLY=($(compgen -f -- "$word")) && return ;;
    *:directory) COMPREPLY=($(compgen -d -- "$word")) && return ;;
    *:process) COMPREPLY=($(compgen -W "$(ps -eo pid= 2>/dev/null)" -- "$word")) && return ;;
    *) return ;;
    esac

    case $words:$word in
    run:[!-]* | run:) COMPREPLY=($(compgen -W "$(_piano_runs)" -- "$word") $(compgen -f -- "$word")) ;;
    recorded:[!-]* | recorded:) COMPREPLY=($(compgen -W "$(_piano_recorded)" -- "$word")) ;;
    commands:*) COMPREPLY=($(compgen -W "${commands%help*}" -- "$word")) ;;
    *) COMPREPLY=($(compgen -W "$(_piano_field 2 "$table" "$command") $(awk -F '\t' -v command="$command" '
           $1 == command && $3 ~ /^\[/ { print $2 "=" }' <<<"$table")" -- "$word")) ;;
    esac
}

complete -F _piano piano
