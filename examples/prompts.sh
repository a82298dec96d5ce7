#!/usr/bin/env bash
# Runs a model over a file of prompts, one a line, and writes a table: prompt, answer, tokens.
#   examples/prompts.sh examples/data/prompts.txt answers.tsv M.gguf [OPTION OF millrace run...]
# It needs jq, and millrace on the PATH. After a stop the same command goes on where it was.
set -euo pipefail

[ $# -ge 3 ] || { echo "usage: prompts.sh PROMPTS TABLE MODEL [OPTION...]" >&2; exit 2; }
prompts=$1 table=$2 model=$3
shift 3
jobs=$table.jobs.jsonl results=$table.results.jsonl

# A job for each line. custom_id is the line's number, by which its result is found again.
jq -cRn 'foreach inputs as $prompt (0; . + 1; select($prompt != "") | {
  custom_id: "\(.)", method: "POST", url: "/v1/chat/completions",
  body: {messages: [{role: "user", content: $prompt}], max_tokens: 48, temperature: 0}
})' "$prompts" >"$jobs"

# 1 means that some jobs failed: the table tells which.
status=0
millrace run --model "$model" --input "$jobs" --output "$results" "$@" || status=$?
[ "$status" -le 1 ] || exit "$status"

# Results stand in the order in which they ended; the table is in the order of the prompts.
jq -rs --rawfile prompts "$prompts" '
  ($prompts | split("\n")) as $lines | sort_by(.custom_id | tonumber)[] | [
    $lines[(.custom_id | tonumber) - 1],
    (if .error then "error: \(.error.message)" else .response.body.choices[0].message.content end),
    (.response.body.usage.completion_tokens // 0)
  ] | @tsv' "$results" >"$table"
exit "$status"
