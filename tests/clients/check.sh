# Counted checks of commands, for the suites in this directory. To be sourced.
#
#   check      NAME EXPECTED COMMAND...   COMMAND succeeds and its output fits EXPECTED
#   fails      NAME EXPECTED COMMAND...   COMMAND fails and its output fits EXPECTED
#   eventually NAME EXPECTED COMMAND...   the same as check, tried again until it holds
#   finish                                prints the totals and ends
#
# The output is stdout and stderr together, without trailing newlines. EXPECTED is
#   =TEXT     exactly TEXT
#   ~REGEX    something in it matches the extended regular expression
#   !REGEX    nothing in it matches
#   *GLOB*    all of it matches the shell pattern, which begins and ends with an asterisk
#   TEXT      TEXT is somewhere in it

COMMAND_SECONDS=${COMMAND_SECONDS:-20} # one command may take so long
PATIENCE_SECONDS=${PATIENCE_SECONDS:-20} # eventually waits so long
passed=0
failed=0
output=''
status=0

# run COMMAND...: sets output and status.
run() {
  output=$(timeout "$COMMAND_SECONDS" "$@" 2>&1)
  status=$?
}

# fits EXPECTED: whether output fits it.
fits() {
  case $1 in
    =*) [[ $output == "${1#=}" ]] ;;
    '~'*) grep -Eq -- "${1#\~}" <<<"$output" ;;
    '!'*) ! grep -Eq -- "${1#!}" <<<"$output" ;;
    # shellcheck disable=SC2053
    '*' | '*'*'*') [[ $output == $1 ]] ;;
    *) [[ $output == *"$1"* ]] ;;
  esac
}

# record OK NAME EXPECTED: counts, and shows what was wrong.
record() {
  if ((!$1)); then
    passed=$((passed + 1))
    [[ -z ${VERBOSE:-} ]] || printf 'ok      %s\n' "$2"
    return
  fi
  failed=$((failed + 1))
  printf 'FAILED  %s (exit status %s)\n  expected: %s\n  output:   %s\n' "$2" "$status" "$3" "${output//$'\n'/$'\n            '}"
}

check() {
  local name=$1 expected=$2
  shift 2
  run "$@"
  ((status == 0)) && fits "$expected"
  record $? "$name" "$expected"
}

fails() {
  local name=$1 expected=$2
  shift 2
  run "$@"
  ((status != 0 && status != 124)) && fits "$expected"
  record $? "$name" "$expected"
}

eventually() {
  local name=$1 expected=$2 end=$((SECONDS + PATIENCE_SECONDS))
  shift 2
  while true; do
    run "$@"
    if ((status == 0)) && fits "$expected"; then
      record 0 "$name" "$expected"
      return
    fi
    ((SECONDS < end)) || break
    sleep 0.1
  done
  record 1 "$name" "$expected"
}

finish() {
  printf '%s passed, %s failed\n' "$passed" "$failed"
  ((failed == 0 && passed > 0))
  exit
}
