# bash completion for piano

_piano_runs()
{
    local dir=${PIANO_RUNS_DIR:-.piano/runs}
    [ -d "$dir" ] || return
    (cd "$dir" && ls *.ndjson *.json 2>/dev/null | sed 's/\.[^.]*$//')
}

_piano()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
    local select="--fn --exact --file --dir --skip --frame"
    local options= i

    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "profile build run report diff list tag doctor help --help --version" -- "$word"))
        return
    fi
    for ((i = 2; i < COMP_CWORD; i++)); do
        # Behind `--` stands somebody else's command line.
        [ "${COMP_WORDS[i]}" = -- ] && compopt -o default && return
    done
    case $before in
    --file) COMPREPLY=($(compgen -f -- "$word")) && return ;;
    --dir) COMPREPLY=($(compgen -d -- "$word")) && return ;;
    --fn | --skip | --frame | --top | --duration | --kill-timeout | -j | --fail-above) return ;;
    esac
    case $command in
    build) options="$select --list-skipped --verbose -j --help" ;;
    run) options="--duration --kill-timeout --help" ;;
    profile) options="$select --duration --kill-timeout --verbose -j --top --all --frames --threads --json --uncorrected --help" ;;
    report) options="--frames --threads --json --top --all --places --uncorrected --help" ;;
    diff) options="--fail-above --top --all --json --help" ;;
    list) options="--all --json --help" ;;
    tag) options="--add --force --delete --help" ;;
    doctor) options="--help" ;;
    help) options="profile build run report diff list tag doctor" ;;
    esac
    case $command:$word in
    report:[!-]* | report: | diff:[!-]* | diff: | tag:[!-]* | tag:)
        COMPREPLY=($(compgen -W "$(_piano_runs)" -- "$word") $(compgen -f -- "$word"))
        ;;
    *) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    esac
}

complete -F _piano piano
