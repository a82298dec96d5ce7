#pragma once
// The golden vectors of schemas/vectors/*.json as C++ values, written by hand.
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "schemas/codec.hpp"

namespace millrace::vectors {

inline Job text_job() {
  Job job;
  job.id = "line-1";
  job.custom_id = "q1";
  job.model = "smollm2";
  job.request.prompt = "The capital of France is";
  job.request.max_tokens = 8;
  job.request.sampling.temperature = 0;
  return job;
}

inline Job chat_job() {
  Job job;
  job.id = "chat-1";
  job.custom_id =
      "Gr\xC3\xBC\xC3\x9F"
      "e";
  job.batch = "evening";
  job.request.prompt =
      Chat{{"system", "Be brief."}, {"user", "What is the capital of France? \xF0\x9F\x97\xBC"}};
  job.request.max_tokens = 64;
  job.request.stops.strings = {"\n\n"};
  return job;
}

inline Job tools_job() {
  Job job;
  job.id = "tools-1";
  const JsonObject city = {{"type", {"string"}}, {"default", {}}};
  const JsonObject parameters = {{"type", {"object"}},
                                 {"properties", {JsonObject{{"city", {city}}}}},
                                 {"required", {JsonList{{"city"}}}}};
  const JsonObject function = {{"name", {"weather"}}, {"parameters", {parameters}}};
  job.request.chat.tools = {{JsonObject{{"type", {"function"}}, {"function", {function}}}}};
  job.request.chat.template_kwargs = {{"enable_thinking", {false}}, {"budget", {1.5}}};
  const JsonObject call = {
      {"name", {"weather"}},
      {"arguments", {JsonObject{{"city", {"Bern"}}, {"days", {std::int64_t{2}}}}}}};
  job.request.prompt = Chat{
      {"user", "How is it in Bern?", {}, {"How is it", " in Bern?"}},
      {"assistant", std::nullopt, {{"tool_calls", {JsonList{{JsonObject{{"function", {call}}}}}}}}},
      {"tool", "Sunny.", {{"tool_call_id", {"c1"}}}}};
  job.request.sampling_source = SamplingSource::model;
  job.request.given_sampling = {"temperature"};  // though it is the default
  return job;
}

inline Job score_job() {
  Job job;
  job.request.task = Task::score;
  job.request.prompt = "To be, or not to be";
  job.request.logprobs = {false, 1, true, LogprobMode::raw};
  return job;
}

inline std::vector<std::pair<std::string, Job>> jobs() {
  Job minimal;
  minimal.request.prompt = "Hello";
  Job tokens;
  tokens.model = "smollm2";
  tokens.request.prompt = Tokens{504, 3575, 282, 4649, 314};
  tokens.request.n = 2;
  tokens.request.max_tokens = 4;
  tokens.request.sampling.seed = std::numeric_limits<std::uint64_t>::max();
  tokens.request.logprobs = {true, 5, false, LogprobMode::raw};
  Job all;
  all.id = "all";
  all.custom_id = "every field";
  all.model = "smollm2";
  all.priority = 0;
  all.not_before_us = 1'790'000'000'000'000;
  all.deadline_us = 1'800'000'000'000'000;
  all.max_attempts = 3;
  all.stream = "nightly";
  all.batch = "evening";
  all.metadata = {{"a", "1"}, {"b", "2"}};
  all.strict = true;
  GenerationRequest& r = all.request;
  r.prompt = "Once";
  r.add_special_tokens = false;
  r.parse_special = false;
  r.n = 3;
  r.max_tokens = 32;
  r.min_tokens = 4;
  r.sampling = {.temperature = 0.7f,
                .top_k = 40,
                .top_p = 0.95f,
                .min_p = 0.05f,
                .typical_p = 0.9f,
                .xtc_probability = 0.5f,
                .xtc_threshold = 0.25f,
                .seed = 42};
  r.edits.bias = {{2, -100.0f}, {504, 1.5f}};
  r.edits.repetition = {1.25f, PenaltyScope::output, 256};
  r.edits.presence = {0.5f, PenaltyScope::all, 64};
  r.edits.frequency = {-0.25f, PenaltyScope::all, 32};
  r.edits.dry = {0.75f, 1.5f, 3, 512, {"\n", "."}, {}};
  r.edits.no_repeat_ngram = 4;
  r.edits.allowed = {30, 31, 504};
  r.edits.bad_words = {"darn"};
  r.edits.bad_word_ids = {{7}, {8, 9}};
  r.stops = {{"END", "###"}, {0, 2}, true, {{7, 8}}, true};
  r.markers.list = {{MarkedPart::reasoning, "<think>", "</think>"},
                    {MarkedPart::tool_call, "<|call|>", ""}};
  r.max_reasoning_tokens = 16;
  r.repetition_detection = {32, 2, 4};
  r.logprobs = {true, 2, true, LogprobMode::processed, {30, 260}};
  r.partials = true;
  r.kv = "f16";
  r.require_fingerprint = "00c0ffee";
  return {{"job-minimal", minimal}, {"job-text", text_job()},   {"job-tokens", tokens},
          {"job-chat", chat_job()}, {"job-tools", tools_job()}, {"job-score", score_job()},
          {"job-everything", all}};
}

inline LogitEdits used_edits() {
  LogitEdits e;
  e.bias = {{2, -100.0f}};
  e.repetition = {1.25f, PenaltyScope::all, 64};
  e.frequency.value = 0.5f;
  e.dry = {0.5f, 1.75f, 2, 1024, {"\n"}, {198}};
  e.no_repeat_ngram = 3;
  e.bad_words = {"darn"};
  e.bad_word_ids = {{67, 1251}};
  return e;
}

inline JobResult completed() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  Choice paris{0, " Paris", {7042, 2}, FinishReason::stop, {}, 2, {}};
  paris.logprobs =
      TokenLogprobs{2, {-0.25f, -1.5f}, {7042, 260, 2, 30}, {-0.25f, -2.75f, -1.5f, -inf}};
  paris.logprobs->listed = ListedLogprobs{{30, 260}, {-12.0f, -inf, -1.5f, -0.25f}};
  paris.reasoning = "It is the capital.";
  paris.reasoning_spans = Tokens{0, 1};
  Choice lyon{1, " Lyon. It", {31000, 30, 657}, FinishReason::stop, " is", {}, {}};
  lyon.tool_calls = {R"({"name": "map"})"};
  lyon.tool_call_spans = Tokens{1, 3};
  const Choice loop{2, " Lyon Lyon", {31000, 31000, 31000}, FinishReason::repetition, {}, {}};
  const Choice cut{3, "", {7, 8}, FinishReason::stop, {}, {}, Tokens{7, 8}};
  GenerationResult result;
  result.choices = {paris, lyon, loop, cut};
  result.prompt = Tokens{504, 3575, 282};
  result.prompt_logprobs =
      TokenLogprobs{1, {nan, -3.5f, -0.125f}, {0, 3575, 282}, {nan, -3.5f, -0.125f}};
  result.usage = {3, 0, 5, 1};
  result.times = {120, 45'000, 98'000};
  result.effective.engine = {"SmolLM2-135M-Instruct.Q4_1",
                             "00c0ffee00c0ffee00c0ffee00c0ffee",
                             "exact",
                             "f16",
                             "f16/f16 x30",
                             23040,
                             1,
                             8192};
  result.effective.max_tokens = 16;
  result.effective.sampling = {
      .temperature = 0.7f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .seed = 9007199254740991};
  result.effective.edits = used_edits();
  result.effective.markers = {{MarkedPart::reasoning, "<think>", "</think>"}};
  JobResult end;
  end.job = "line-1";
  end.custom_id = "q1";
  end.model = "smollm2";
  end.batch = "evening";
  end.state = JobState::completed;
  end.result = result;
  end.warnings = {"unknown field 'mood' was left out"};
  end.metadata = {{"source", "test"}};
  end.attempts = 1;
  end.submitted_us = 1'767'225'600'000'000;
  end.ended_us = 1'767'225'601'000'000;
  return end;
}

inline JobResult failed() {
  JobResult end;
  end.job = "line-2";
  end.model = "smollm2";
  end.state = JobState::failed;
  end.error = Error{Code::engine_died, "the engine died 2 times while running this job alone", ""};
  end.attempts = 4;
  end.submitted_us = 1'767'225'600'000'000;
  end.ended_us = 1'767'225'700'000'000;
  return end;
}

inline JobResult scored() {
  GenerationResult result;
  result.prompt = Tokens{504, 3575};
  result.prompt_logprobs =
      TokenLogprobs{0, {std::numeric_limits<float>::quiet_NaN(), -3.5f}, {}, {}};
  result.usage = {2, 0, 0, 0};
  result.times = {1, 0, 2};
  result.effective.engine = {"SmolLM2-135M-Instruct.Q4_1", "00", "exact", "f16", "f16", 0, 0, 8192};
  result.effective.sampling.seed = 0;
  JobResult end;
  end.job = "s";
  end.custom_id = "score me";
  end.model = "*";
  end.result = result;
  end.attempts = 1;
  return end;
}

inline std::vector<std::pair<std::string, JobResult>> results() {
  return {
      {"result-completed", completed()}, {"result-failed", failed()}, {"result-score", scored()}};
}

// One message of each kind, in the order of Message's alternatives.
inline JobInfo failed_job() {
  JobInfo job;
  job.job = "evening/18";
  job.custom_id = "q18";
  job.model = "*";
  job.stream = "results";
  job.batch = "evening";
  job.state = JobState::failed;
  job.priority = 2;
  job.attempts = 3;
  job.failures = 2;
  job.max_attempts = 2;
  job.submitted_us = 1'767'225'600'000'000;
  job.deadline_us = 1'767'312'000'000'000;
  job.ended_us = 1'767'225'700'000'000;
  job.number = 41;
  job.error = Error{Code::out_of_memory, "no memory for 1.2 GiB of keys", "lower --max-batch"};
  return job;
}

inline std::vector<Envelope> envelopes() {
  BatchState evening;
  evening.batch = "evening";
  evening.counts = {1, 2, 300, 4, 5, 6};
  evening.created_us = 1'767'225'600'000'000;
  evening.closed = true;
  evening.stream = "results";
  evening.first = 40;
  evening.metadata = {{"owner", "me"}};
  evening.jobs_per_second = 1.5;
  evening.eta_s = 2;
  const std::uint64_t big = std::numeric_limits<std::uint64_t>::max();
  Hello hello;
  hello.role = Role::engine;
  hello.name = "host-1 4242";
  hello.software = "millrace 0.1.0";
  hello.capabilities = {"score"};
  hello.instance = "5f2d7f6c9a1b4e3d8c7a6b5d4e3f2a1b";
  const EngineFacts facts = {"SmolLM2-135M-Instruct.Q4_1",
                             "00c0ffee00c0ffee00c0ffee00c0ffee",
                             "exact",
                             "k5v3",
                             "r5/r3 x30",
                             6120,
                             3.75,
                             8192};
  hello.engine = {.facts = facts,
                  .label = "SmolLM2 135M Instruct",
                  .layer_path = "30 layers in one launch",
                  .kv_memory = "15 layers hold 30000 tokens, 15 of window 128 hold 9000",
                  .kv_policies = {"k5v3", "r5/r3 x30"},
                  .suggested_sampling = {.temperature = 0.5f,
                                         .top_k = 20,
                                         .repetition_penalty = 1.125f,
                                         .repetition_penalty_window = 64},
                  .suggested_sampling_error = {}};
  Welcome welcome;
  welcome.broker = "0123456789abcdef0123456789abcdef";
  welcome.software = "millrace 0.1.0";
  welcome.doorbell = "tcp://127.0.0.1:5572";
  const EngineLoad load{64,     1,          4'096,  65'536, 94'371'840, 1'509'949'440,
                        12'288, 50'000'000, 40'000, 9'000};
  StatusAnswer status;
  status.counts = {1, 2, 300, 4, 5, 6};
  status.state = JobState::leased;
  status.first = status.attempts = 1;
  status.job_stream = "results";
  status.job_batch = "evening";
  status.epoch = "e0";
  status.high = 310;
  status.engines = {{"host-1 4242",
                     {facts,
                      "SmolLM2 135M Instruct",
                      "30 layers in one launch",
                      "15 layers hold 30000 tokens, 15 of window 128 hold 9000",
                      {"k5v3"},
                      {},
                      "general.sampling.mirostat has no setting in Millrace"},
                     2,
                     2,
                     312.5,
                     40,
                     load,
                     250,
                     62.5}};
  status.paused = status.more_queues = true;
  status.paused_models = {"smollm2"};
  status.refuses = "disk_full: 25042944 bytes left and 33554432 are needed";
  status.queues = {{"acme", 1, 1'200, 2, 2'600, 61'000, false}, {"umbra", 0, 0, 0, 0, {}, true}};
  const std::string text = encode_job(text_job()), score = encode_job(score_job());
  const std::string good = encode_result(completed()), bad = encode_result(failed());
  const StreamState limited{"results",
                            1'201,
                            4'200,
                            3'300'000,
                            2,
                            {{}, limits::GiB, {}},
                            {2'592'000, limits::GiB, 2'592'000}};
  return {
      {1, hello},
      {1, welcome},
      {7, Refused{{Code::overloaded, "100000 jobs already wait for their commit",
                   "wait a little and send the message again", 100}}},
      {2, Submit{{text, encode_job(chat_job())}}},
      {2, Submitted{{{"line-1", true, JobState::completed, {}},
                     {"chat-1",
                      false,
                      JobState::queued,
                      {},
                      "no engine of model smollm2 connected runs kv k5v3: they run f16; start one "
                      "with --kv k5v3"},
                     {"x",
                      false,
                      {},
                      Error{Code::conflict, "job x is known with another body",
                            "choose another id"}}}}},
      {3, Cancel{{"line-1", "chat-1"}, ""}},
      {3, Cancelled{1, 1, 0, big}},
      {4, Retry{{}, "evening"}},
      {4, Retried{2, 5, 0}},
      {5, StatusRequest{"", "evening", "results", true}},
      {5, status},
      {6, Fetch{}},
      {6, Data{"results", "9d5f", 1, 2, {{1, "line-1", good}, {2, "line-2", bad}}}},
      {6, Trimmed{"results", "9d5f", 70'000}},
      {8, Acknowledge{"results", "loader", 2}},
      {8, Acknowledged{2}},
      {0, Ready{64}},
      {0,
       Leases{{{4294967297, "line-1", 1, false, 1'767'225'600'000'000, text},
               {4294967298, "s", 3, true, 1'767'225'600'000'001, score, 4'503'599'627'370'497}}}},
      {9, Heartbeat{{4294967297, 4294967298},
                    1000,
                    64'000,
                    62,
                    2,
                    {4294967298},
                    {4'503'599'627'370'497},
                    load}},
      {9, HeartbeatAnswer{{4294967297}, {4294967298}, false}},
      {10, Ends{{{4294967297, JobState::completed, encode_generation(*completed().result), {}},
                 {4294967299, JobState::failed, {}, failed().error}}}},
      {10, Committed{{4294967297}, {4294967299}}},
      {0, Release{{4294967298}}},
      {0, Goodbye{"SIGTERM"}},
      {11, Watch{}},
      {11, Watching{"results", true}},
      {0, Partials{"results",
                   {{0, "line-1", "q1", 1, {1, 3, {31000, 30}, " Lyon", "It is.", {"{}"}}}}}},
      {0, Begun{{4294967298}}},
      {30, StreamsRequest{"", "results"}},
      {31, StreamsAnswer{"3f9c0d6be1aa4c1d", {limited}, false}},
      {32, CursorsRequest{"results"}},
      {33, CursorsAnswer{"results", {{"loader", 4'000, 1'767'225'600'000'000}}}},
      {34, Trim{"results", 1'201}},
      {35, Keep{"results", {{}, limits::GiB, {}}}},
      {36, Remove{"results", "loader"}},
      {37, StreamChanged{"3f9c0d6be1aa4c1d", limited}},
      {38, BackupRequest{"before-the-update"}},
      {38, BackupAnswer{"/var/lib/millrace/backups/before-the-update", 1'048'576, 65'536, false}},
      {39, DrainRequest{true}},
      {39, DrainAnswer{5'000}},
      {40, JobsRequest{"", "evening", "", JobState::failed, "17"}},
      {41, JobsAnswer{{failed_job()}, true, "18"}},
      {42, Drop{{}, "evening"}},
      {43, Dropped{3, 0, 0}},
      {44, BatchesRequest{"", "dawn", true}},
      {45, BatchesAnswer{{evening}, false}},
      {46, ChangeBatch{"evening", true, {{"owner", "me"}}}},
      {47, BatchChanged{evening}},
      {48, ChangePause{"", "smollm2"}},
      {48, PauseChanged{true}},
  };
}

}  // namespace millrace::vectors
