# bash completion for piano

_piano_runs()
{
    local dir=${PIANO_RUNS_DIR:-.piano/runs}
    [ -d "$dir" ] || return
    (cd "$dir" && ls *.ndjson *.json *.rec 2>/dev/null | sed 's/\.[^.]*$//')
}

# Processes with a recording: what `piano snapshot` can be asked of.
_piano_pids()
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

# Offers functions for the word under the cursor. Bash ends a word at a colon: what stands before the last one is
# not to be written again.
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
    local select="--fn --exact --file --dir --skip --frame"
    local options= i line=${COMP_LINE:0:COMP_POINT}

    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "profile build run record snapshot report diff export view list tag doctor help --help --version" -- "$word"))
        return
    fi
    for ((i = 2; i < COMP_CWORD; i++)); do
        # What follows `--`, or a program's name, is another program's command line.
        [ "${COMP_WORDS[i]}" = -- ] && compopt -o default && return
        case $command:${COMP_WORDS[i]}:${COMP_WORDS[i - 1]} in
        record:[!-=]*:-o | record:[!-=]*:--output | record:[!-=]*:--pid | record:[!-=]*:= | *:--duration | *:--kill-timeout | *:--snapshot-every | *:--max-size) ;;
        record:[!-=]* | run:[!-=]*) compopt -o default && return ;;
        esac
    done
    case $command:$line in
    build:*--fn\ * | build:*--skip\ * | build:*--frame\ * | profile:*--fn\ * | profile:*--skip\ * | profile:*--frame\ *)
        line=${line%"${line##*[[:space:]]}"} # without the word under the cursor
        line=${line%"${line##*[![:space:]]}"}
        case ${line##*[[:space:]]} in
        --fn | --skip | --frame) _piano_complete_function && return ;;
        esac
        ;;
    esac
    case $before in
    --format) COMPREPLY=($(compgen -W "speedscope pprof collapsed chrome" -- "$word")) && return ;;
    --by) COMPREPLY=($(compgen -W "live allocated peak churn cpu off-cpu" -- "$word")) && return ;;
    --file | -o | --output) COMPREPLY=($(compgen -f -- "$word")) && return ;;
    --dir) COMPREPLY=($(compgen -d -- "$word")) && return ;;
    --pid) COMPREPLY=($(compgen -W "$(ps -eo pid= 2>/dev/null)" -- "$word")) && return ;;
    --fn | --skip | --frame | --top | --budget | --duration | --kill-timeout | --snapshot-every | --max-size | -j | --fail-above | --from | --to | --port) return ;;
    esac
    case $command in
    build) options="$select --list-skipped --verbose -j --help" ;;
    run) options="--duration --kill-timeout --every-call --help" ;;
    profile) options="$select --duration --kill-timeout --every-call --verbose -j --top --all --frames --threads --json --places --budget --cpu-time --wall --uncorrected --help" ;;
    record) options="--heap --heap= --cpu --cpu= --events --kernel --pid --maps --children --snapshot-every --max-size --output -o --duration --kill-timeout --help" ;;
    snapshot) options="--help" ;;
    report) options="--frames --threads --json --top --all --places --budget --cpu-time --wall --uncorrected --polls --cpu --heap --tree --leaks --growth --peak --by --from --to --skip --no-skip --help" ;;
    export) options="--format --output -o --force --by --skip --no-skip --help" ;;
    view) options="--output -o --force --port --no-open --alone --help" ;;
    diff) options="--fail-above --skip --no-skip --top --all --json --help" ;;
    list) options="--all --json --help" ;;
    tag) options="--add --force --delete --json --help" ;;
    doctor) options="--help" ;;
    help) options="profile build run record snapshot report diff export view list tag doctor" ;;
    esac
    case $command:$word in
    snapshot:[!-]* | snapshot:) COMPREPLY=($(compgen -W "$(_piano_pids)" -- "$word")) ;;
    report:[!-]* | report: | export:[!-]* | export: | view:[!-]* | view: | diff:[!-]* | diff: | tag:[!-]* | tag:)
        COMPREPLY=($(compgen -W "$(_piano_runs)" -- "$word") $(compgen -f -- "$word"))
        ;;
    *) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    esac
}

complete -F _piano piano
