// Every request that the engine refuses: its code, what and where in the message, what to do in the
// hint. A refused request changes nothing.
#include <cmath>

#include "tests/unit/engine/loop_fixture.hpp"

namespace millrace::engine {
namespace {

using R = GenerationRequest;

struct Refusal {
  const char* name;
  Code code;
  const char* says;  // part of the message
  std::function<void(R&)> spoil;
};

R with_prompt(R r, Prompt prompt, std::optional<std::uint32_t> max_tokens) {
  r.prompt = std::move(prompt);
  r.max_tokens = max_tokens;
  return r;
}

R score(std::size_t tokens) {
  R r;
  r.task = Task::score;
  r.prompt = Tokens(tokens, 5);
  return r;
}

const std::vector<Refusal>& prompt_refusals() {
  static const std::vector<Refusal> all = {
      {"empty tokens", Code::empty_prompt, "no token", [](R& r) { r.prompt = Tokens(); }},
      {"empty text", Code::empty_prompt, "no token", [](R& r) { r.prompt = std::string(); }},
      {"empty chat", Code::empty_prompt, "messages", [](R& r) { r.prompt = Chat(); }},
      {"id", Code::invalid_token, "tokens[1] is 49152",
       [](R& r) {
         r.prompt = Tokens{1, 49152};
       }},
      {"huge id", Code::invalid_token, "4294967295", [](R& r) { r.prompt = Tokens{~0u}; }},
      {"text bytes", Code::invalid_utf8, "prompt", [](R& r) { r.prompt = std::string("a\xff"); }},
      {"role", Code::template_error, "messages[1] has the role \"robot\"",
       [](R& r) {
         r.prompt = Chat{{"user", "a"}, {"robot", "b"}};
       }},
      {"role bytes", Code::invalid_utf8, "messages[0].role",
       [](R& r) {
         r.prompt = Chat{{"\xff", "a"}};
       }},
      {"field bytes", Code::invalid_utf8, "messages[0] has a field",
       [](R& r) {
         r.prompt = Chat{{"user", "a", {{"name", {JsonList{{"\xc3"}}}}}}};
       }},
      {"tool bytes", Code::invalid_utf8, "tools or chat_template_kwargs",
       [](R& r) {
         r.prompt = Chat{{"user", "a"}};
         r.chat.tools = {{JsonObject{{"\xff", {}}}}};
       }},
      {"message bytes", Code::invalid_utf8, "messages[0].content",
       [](R& r) {
         r.prompt = Chat{{"user", "\xc3"}};
       }},
      {"many messages", Code::limit_exceeded, "4097",
       [](R& r) {
         r.prompt = Chat(4097, {"user", "a"});
       }},
      {"long prompt", Code::context_exceeded, "2049",
       [](R& r) { r = with_prompt(r, Tokens(2049, 5), {}); }},
      {"full context", Code::context_exceeded, "2048",
       [](R& r) { r = with_prompt(r, Tokens(2048, 5), {}); }},
      {"long output", Code::context_exceeded, "2050",
       [](R& r) { r = with_prompt(r, Tokens(8, 5), 2050); }},
      {"pool", Code::kv_exceeded, "holds 1024",
       [](R& r) { r = with_prompt(r, Tokens(1000, 5), 100); }},
      {"score over the pool", Code::kv_exceeded, "1025", [](R& r) { r = score(1025); }},
      {"score over the context", Code::context_exceeded, "3000", [](R& r) { r = score(3000); }},
  };
  return all;
}

const std::vector<Refusal>& value_refusals() {
  static const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  static const Chat chat(1, {"user", "hi"});
  static const std::vector<Refusal> all = {
      {"n 0", Code::invalid_value, "n is 0", [](R& r) { r.n = 0; }},
      {"n 129", Code::limit_exceeded, "n is 129", [](R& r) { r.n = 129; }},
      {"score n", Code::invalid_value, "n has no meaning for a score job",
       [](R& r) { (r = score(4)).n = 2; }},
      {"score end", Code::invalid_value, "ignore_eos has no meaning for a score job",
       [](R& r) { (r = score(4)).stops.ignore_eos = true; }},
      {"score edit", Code::invalid_value, "dry_base has no meaning for a score job",
       [](R& r) { (r = score(4)).edits.dry.base = 2; }},
      {"BOS of a chat", Code::invalid_value, "add_special_tokens has no meaning for messages",
       [](R& r) { (r = with_prompt(r, chat, 5)).add_special_tokens = false; }},
      {"n x max", Code::limit_exceeded, "n x max_tokens",
       [](R& r) { r = with_prompt(r, Tokens(1, 5), 8193), r.n = 128; }},
      {"max 0", Code::invalid_value, "max_tokens is 0", [](R& r) { r.max_tokens = 0; }},
      {"min over max", Code::invalid_value, "min_tokens is 51", [](R& r) { r.min_tokens = 51; }},
      {"temperature nan", Code::invalid_value, "temperature",
       [](R& r) { r.sampling.temperature = nan; }},
      {"temperature inf", Code::invalid_value, "temperature",
       [](R& r) { r.sampling.temperature = infinity; }},
      {"temperature < 0", Code::invalid_value, "temperature is -1",
       [](R& r) { r.sampling.temperature = -1; }},
      {"temperature > 100", Code::invalid_value, "temperature is 100.5",
       [](R& r) { r.sampling.temperature = 100.5; }},
      {"top_p 0", Code::invalid_value, "top_p", [](R& r) { r.sampling.top_p = 0; }},
      {"top_p 1.5", Code::invalid_value, "top_p is 1.5", [](R& r) { r.sampling.top_p = 1.5; }},
      {"top_p nan", Code::invalid_value, "top_p", [](R& r) { r.sampling.top_p = nan; }},
      {"min_p -1", Code::invalid_value, "min_p", [](R& r) { r.sampling.min_p = -1; }},
      {"min_p nan", Code::invalid_value, "min_p", [](R& r) { r.sampling.min_p = nan; }},
      {"typical_p", Code::invalid_value, "typical_p is 0", [](R& r) { r.sampling.typical_p = 0; }},
      {"xtc_probability", Code::invalid_value, "xtc_probability",
       [](R& r) { r.sampling.xtc_probability = nan; }},
      {"tiny xtc_threshold", Code::invalid_value, "xtc_threshold is 1e-09",
       [](R& r) { r.sampling.xtc_probability = 0.5f, r.sampling.xtc_threshold = 1e-9f; }},
      {"xtc_threshold", Code::invalid_value, "xtc_threshold is 0.75",
       [](R& r) { r.sampling.xtc_threshold = 0.75f; }},
      {"seed", Code::invalid_value, "seed", [](R& r) { r.sampling.seed.reset(); }},
      {"stop", Code::invalid_value, "stop[1] is empty",
       [](R& r) {
         r.stops.strings = {"a", ""};
       }},
      {"stop bytes", Code::invalid_utf8, "stop[0]", [](R& r) { r.stops.strings = {"\xff"}; }},
      {"long stop", Code::limit_exceeded, "1025",
       [](R& r) { r.stops.strings = {std::string(1025, 'x')}; }},
      {"many stops", Code::limit_exceeded, "65",
       [](R& r) { r.stops.strings = std::vector<std::string>(65, "x"); }},
      {"many stop ids", Code::limit_exceeded, "1025",
       [](R& r) { r.stops.token_ids = Tokens(1025, 1); }},
      {"stop id", Code::invalid_token, "stop_token_ids[0]",
       [](R& r) { r.stops.token_ids = {49152}; }},
      {"stop sequence id", Code::invalid_token, "stop_token_sequences[1][1] is 49152",
       [](R& r) {
         r.stops.sequences = {{1}, {2, 49152}};
       }},
      {"empty stop sequence", Code::invalid_value, "stop_token_sequences[0] is empty",
       [](R& r) { r.stops.sequences = {{}}; }},
      {"long stop sequence", Code::limit_exceeded, "stop_token_sequences[0] has 65",
       [](R& r) { r.stops.sequences = {Tokens(65, 1)}; }},
      {"many stop sequences", Code::limit_exceeded, "stop_token_sequences has 257",
       [](R& r) { r.stops.sequences = std::vector<Tokens>(257, {1}); }},
      {"marker", Code::invalid_value, "markers[0].open is empty",
       [](R& r) { r.markers.list.resize(1); }},
      {"marker bytes", Code::invalid_utf8, "markers[0].close",
       [](R& r) {
         r.markers.list = {{MarkedPart::reasoning, "<t>", "\xff"}};
       }},
      {"repetition", Code::invalid_value, "repetition_detection.min_count is 1",
       [](R& r) {
         r.repetition_detection = {4, 1, 1};
       }},
      {"top", Code::limit_exceeded, "top_logprobs is 129, the limit is 128",
       [](R& r) {
         r.logprobs = {true, 129, false, {}};
       }},
      {"top of nothing", Code::invalid_value, "top_logprobs is 5",
       [](R& r) { r.logprobs.top = 5; }},
      {"kv", Code::unsupported_field, "the job wants kv \"q8\", but this engine runs \"f16\"",
       [](R& r) { r.kv = "q8"; }},
      {"fingerprint", Code::fingerprint_mismatch, "beef",
       [](R& r) { r.require_fingerprint = "beef"; }},
  };
  return all;
}

const std::vector<Refusal>& edit_refusals() {
  static const float nan = std::nanf("");
  static const std::vector<Refusal> all = {
      {"bias value", Code::invalid_value, "logit_bias of token 4 is 101",
       [](R& r) {
         r.edits.bias = {{4, 101}};
       }},
      {"bias twice", Code::invalid_value, "logit_bias names token 4 twice",
       [](R& r) {
         r.edits.bias = {{4, 1}, {4, 1}};
       }},
      {"bias id", Code::invalid_token, "logit_bias[0] is 49152",
       [](R& r) {
         r.edits.bias = {{49152, 1}};
       }},
      {"many biases", Code::limit_exceeded, "logit_bias has 1025",
       [](R& r) { r.edits.bias.resize(1025); }},
      {"repetition", Code::invalid_value, "repetition_penalty is 0",
       [](R& r) { r.edits.repetition.value = 0; }},
      {"presence", Code::invalid_value, "presence_penalty",
       [](R& r) { r.edits.presence.value = nan; }},
      {"frequency", Code::invalid_value, "frequency_penalty is -3",
       [](R& r) { r.edits.frequency.value = -3; }},
      {"window", Code::limit_exceeded, "frequency_penalty_window is 1048577",
       [](R& r) { r.edits.frequency.window = 1048577; }},
      {"dry base", Code::invalid_value, "dry_base is 0", [](R& r) { r.edits.dry.base = 0; }},
      {"dry length", Code::invalid_value, "dry_allowed_length is 0",
       [](R& r) { r.edits.dry.allowed_length = 0; }},
      {"dry window", Code::limit_exceeded, "dry_penalty_last_n is 4097",
       [](R& r) { r.edits.dry.window = 4097; }},
      {"breaker", Code::invalid_utf8, "dry_sequence_breakers[0]",
       [](R& r) { r.edits.dry.breakers = {"\xff"}; }},
      {"breaker id", Code::invalid_token, "dry_breaker_ids[0] is 49152",
       [](R& r) { r.edits.dry.breaker_ids = {49152}; }},
      {"many breaker ids", Code::limit_exceeded, "dry_breaker_ids has 129 ids, the limit is 128",
       [](R& r) { r.edits.dry.breaker_ids = Tokens(129, 1); }},
      {"n-gram", Code::limit_exceeded, "no_repeat_ngram_size is 65",
       [](R& r) { r.edits.no_repeat_ngram = 65; }},
      {"allowed", Code::invalid_token, "allowed_token_ids[1] is 49152",
       [](R& r) {
         r.edits.allowed = {1, 49152};
       }},
      {"bad word", Code::invalid_value, "bad_words[0] is empty",
       [](R& r) { r.edits.bad_words = {""}; }},
      {"long bad word", Code::limit_exceeded, "bad_words[0] is",
       [](R& r) {
         r.edits.bad_words = {
             "a1 b2 c3 d4 e5 f6 g7 h8 i9 j0 k1 l2 m3 n4 o5 p6 q7 r8 s9 t0 u1 v2 w3 "
             "x4 y5 z6 a1 b2 c3 d4 e5 f6 g7 h8 i9 j0"};
       }},
      {"bad word id", Code::invalid_token, "bad_word_ids[1][1] is 49152",
       [](R& r) {
         r.edits.bad_word_ids = {{1}, {2, 49152}};
       }},
      {"empty bad word ids", Code::invalid_value, "bad_word_ids[0] is empty",
       [](R& r) { r.edits.bad_word_ids = {{}}; }},
      {"listed", Code::invalid_token, "logprob_token_ids[0]",
       [](R& r) {
         r.logprobs.sampled = true;
         r.logprobs.listed = {49152};
       }},
      {"many listed", Code::limit_exceeded, "129",
       [](R& r) {
         r.logprobs.sampled = true;
         r.logprobs.listed = Tokens(129, 1);
       }},
      {"listed twice", Code::invalid_value, "logprob_token_ids names token 7 twice",
       [](R& r) {
         r.logprobs.sampled = true;
         r.logprobs.listed = {7, 3, 7};
       }},
      {"listed of nothing", Code::invalid_value, "logprob_token_ids",
       [](R& r) { r.logprobs.listed = {1}; }},
  };
  return all;
}

TEST_F(LoopTest, EveryRefusalSaysWhatWhereAndWhatToDoAndLeavesNoTrace) {
  open();
  std::vector<Refusal> all = prompt_refusals();
  all.insert(all.end(), value_refusals().begin(), value_refusals().end());
  all.insert(all.end(), edit_refusals().begin(), edit_refusals().end());
  for (const Refusal& refusal : all) {
    R r = request(1, 4, "x");
    refusal.spoil(r);
    const Status status = loop_->add(1, r);
    ASSERT_FALSE(status) << refusal.name;
    EXPECT_EQ(status.error().code, refusal.code) << refusal.name << ": " << status.error().text();
    EXPECT_NE(status.error().message.find(refusal.says), std::string::npos)
        << refusal.name << ": " << status.error().text();
    EXPECT_FALSE(status.error().hint.empty()) << refusal.name;
    EXPECT_FALSE(loop_->busy()) << refusal.name;
    EXPECT_EQ(loop_->counters().waiting, 0u) << refusal.name;
  }
  EXPECT_TRUE(loop_->add(1, request(1, 4, "x")));  // the id is still free
  EXPECT_EQ(run().size(), 1u);
}

// Makes every refused call at each stage of other requests: the state after it equals the state
// before it byte for byte, and the next request gets the ids that it would have got.
TEST_F(LoopTest, RefusedCallsChangeNothingAtAnyStage) {
  const auto run_one = [this](bool with_refusals) {
    // Few pages and a prefix tree: requests wait for each other's prompt, and one is paused.
    open(5, {.max_batch = 3,
             .step_tokens = 32,
             .prefill_chunk = 16,
             .step_outputs = 16,
             .forecast_tokens = 1,
             .prefix_cache = true,
             .fingerprint = "f00d"});
    std::string trace;
    std::vector<Event> events;
    const auto refuse_all = [&] {
      const std::string before = loop_->dump();
      for (const auto* list : {&prompt_refusals(), &value_refusals(), &edit_refusals()}) {
        for (const Refusal& refusal : *list) {
          R r = request(1, 4, "x");
          refusal.spoil(r);
          EXPECT_FALSE(loop_->add(50, r)) << refusal.name;
          ASSERT_EQ(loop_->dump(), before) << refusal.name;
        }
      }
      EXPECT_FALSE(loop_->add(50, request(1, 4, "x"), limits::priority_count));
      EXPECT_FALSE(loop_->add(4, request(4, 4, "x")));  // an id in use
      loop_->cancel(49);                                // an id that nobody has
      ASSERT_EQ(loop_->dump(), before);
    };
    scripts_.clear();
    for (RequestId id = 1; id <= 4; ++id) {
      R r = request(id, 20 + 4 * static_cast<std::uint32_t>(id % 2), "a b <think> c d e f g", 30);
      r.n = id % 2 + 1;
      r.logprobs = {.sampled = true, .top = 2, .prompt = id == 4, .listed = {9, 11}};
      r.stops.strings = {"g h", "b <x"};
      r.markers.list = {{MarkedPart::reasoning, "<think>", "</think>"}};
      r.repetition_detection = {4, 1, 9};
      r.partials = true;
      EXPECT_TRUE(loop_->add(id, r));
    }
    for (int i = 0; loop_->busy(); ++i) {
      const auto scripts = scripts_;
      if (with_refusals && i % 3 == 0 && i < 18) refuse_all();
      scripts_ = scripts;
      if (i == 3) {
        EXPECT_TRUE(loop_->add(9, request(9, 5, "late", 4)));
      }
      EXPECT_TRUE(loop_->step(events));
      trace += loop_->dump() + "\n\n";
    }
    EXPECT_GT(loop_->counters().pauses, 0u);
    EXPECT_GT(loop_->counters().prefix_hits, 0u);
    return trace;
  };
  const std::string undisturbed = run_one(false);
  for (const char* seen : {"owner of", "waits for", "promised 1 by", "partial 1/0", "inside 0",
                           "held \"b\"", "in flight", "counted 20"}) {
    EXPECT_NE(undisturbed.find(seen), std::string::npos) << seen;
  }
  EXPECT_EQ(run_one(true), undisturbed);
}

TEST_F(LoopTest, AnIdInUseIsRefused) {
  open();
  ASSERT_TRUE(loop_->add(7, request(1, 4, "x")));
  const Status status = loop_->add(7, request(2, 4, "y"));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::conflict);
  EXPECT_NE(status.error().message.find("7"), std::string::npos);
  EXPECT_EQ(run().size(), 1u);
}

TEST_F(LoopTest, AnUnknownPriorityIsRefused) {
  open();
  const Status status = loop_->add(7, request(1, 4, "x"), 5);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::invalid_value);
  EXPECT_NE(status.error().message.find("priority is 5"), std::string::npos);
  EXPECT_NE(status.error().hint.find("to 4"), std::string::npos);
  EXPECT_FALSE(loop_->busy());
}

TEST_F(LoopTest, AModelWithoutATemplateRefusesChatsAlone) {
  open();
  const Result<ChatTemplate> none = ChatTemplate::parse("");
  context_.chat_template = &none;
  EngineLoop loop(LoopOptions(), context_, *pools_, runner_, clock_);
  R r = request(1, 4, "x");
  EXPECT_TRUE(loop.add(1, r));
  r.prompt = Chat{{"user", "hello"}};
  const Status status = loop.add(2, r);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::no_chat_template);
}

TEST_F(LoopTest, ATemplatesOwnErrorReachesTheProducer) {
  open();
  const auto strict = ChatTemplate::parse("{{ raise_exception('no system role here') }}");
  ASSERT_TRUE(strict);
  context_.chat_template = &strict;
  EngineLoop loop(LoopOptions(), context_, *pools_, runner_, clock_);
  R r = request(1, 4, "x");
  r.prompt = Chat{{"user", "hello"}};
  const Status status = loop.add(2, r);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::template_error);
  EXPECT_NE(status.error().message.find("no system role here"), std::string::npos);
}

TEST_F(LoopTest, DefaultLengthsAreSixteenAndTheRoomOfAChat) {
  open(10);  // 160 positions
  R r = request(1, 4, "a b c d e f g h i j k l m n o p q r s t u v w x y z");
  r.max_tokens.reset();
  ASSERT_TRUE(loop_->add(1, r));
  r.prompt = Chat{{"user", "hello"}};
  r.sampling.seed = 2;
  const auto rendered = host_parts().chat_template->render(std::get<Chat>(r.prompt), {});
  ASSERT_TRUE(rendered);
  TokenizeOptions options;
  options.parse_special = true;
  const auto size = host_parts().tokenizer.tokenize(rendered->text, options).size();
  scripts_[2] = {scripts_[1].first, static_cast<std::uint32_t>(size)};
  ASSERT_TRUE(loop_->add(2, r));
  const auto events = run();
  EXPECT_EQ(of(events, 1).result.effective.max_tokens, 16u);
  EXPECT_EQ(of(events, 1).result.usage.completion_tokens, 16u);
  EXPECT_EQ(of(events, 1).result.choices[0].finish_reason, FinishReason::length);
  EXPECT_EQ(of(events, 2).result.effective.max_tokens, 161 - size);
  EXPECT_EQ(of(events, 2).result.usage.prompt_tokens, size);
  EXPECT_EQ(of(events, 2).result.choices[0].finish_reason, FinishReason::stop);
}

}  // namespace
}  // namespace millrace::engine
