// Whatever filter, method, function or operation a template calls, its result counts as a message's
// text if an input is. The tests walk the tables of filters and methods, so they check new entries,
// too.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "engine/core/template/builtins.hpp"
#include "tests/unit/template/show_taint.hpp"

namespace millrace::chat_template {
namespace {

// No other input that may show in a result holds letters or <|>.
const std::string message = "kLm <|nOp|> qr\n\nst";
const std::string letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ<|>";

struct Call {
  Context context{TemplateLimits{}, 0};
  Value input(bool tainted) {
    return tainted ? Value::of(&message, whole_taint()) : Value::of(&message);
  }
  Value own(const std::string& text) { return context.heap().text(TrackedText{text, {}}); }
};

// Calls check(TrackedText) for each text in a value.
void each_text(const Value& v, const auto& check) {
  if (v.is(Kind::string)) {
    TrackedText text;
    text.append(v.view());
    check(text);
  } else if (v.is_sequence()) {
    for (const Value& one : v.list->items) each_text(one, check);
  } else if (v.is(Kind::dict)) {
    for (const auto& [key, value] : v.dict->items) {
      each_text(key, check);
      each_text(value, check);
    }
  }
}

// In the result of a tainted input, no letter counts as the template's. The result of an untainted
// input is untainted.
void expect_safe(const std::string& name, bool tainted, const Result<Value>& made) {
  ASSERT_TRUE(made) << name << ": " << made.error().text()
                    << "; if it is new, give this test arguments for it";
  each_text(*made, [&](const TrackedText& text) {
    const std::string view = name + ": " + shown(text.bytes, text.taint);
    if (!tainted) {
      EXPECT_TRUE(text.taint.empty()) << view;
      return;
    }
    text.view().for_each_run([&](std::string_view run, bool from_message) {
      EXPECT_TRUE(from_message || run.find_first_of(letters) == run.npos) << view;
    });
  });
}

// Puts the text into the form of input that a filter or method takes. The rest of that input holds
// no letters.
Value formed(Call& call, const std::string& form, const Value& text) {
  Heap& heap = call.context.heap();
  if (form == "list") return Value::of(heap.list({call.own("1"), text}));
  if (form == "dict") return Value::of(heap.dict({{text, call.own("2")}, {call.own("3"), text}}));
  if (form == "nested")
    return Value::of(heap.list({Value::of(heap.dict({{call.own("_1"), text}}))}));
  return text;
}

std::vector<Value> filter_arguments(Call& call, const std::string& name) {
  if (name == "replace") return {call.own(" "), call.own("1")};
  if (name == "map") return {call.own("upper")};
  if (name == "selectattr" || name == "rejectattr") return {call.own("_1")};
  return {};
}

TEST(Taint, EveryFilterIsSafe) {
  // The forms of input of each filter whose forms are not a text and a list.
  const std::map<std::string, std::vector<std::string>> forms = {
      {"items", {"dict"}},
      {"dictsort", {"dict"}},
      {"sum", {}},
      {"abs", {}},
      {"selectattr", {"nested"}},
      {"rejectattr", {"nested"}},
      {"tojson", {"text", "list", "nested"}}};
  int texts = 0;
  for (const auto filters : {text_filters(), sequence_filters()}) {
    for (const Builtin& filter : filters) {
      const std::string name(filter.name);
      const auto found = forms.find(name);
      const auto taken =
          found == forms.end() ? std::vector<std::string>{"text", "list"} : found->second;
      for (const std::string& form : taken) {
        for (const bool tainted : {true, false}) {
          Call call;
          const Args args{{}, filter.name, filter_arguments(call, name), {}};
          const Value input = formed(call, form, call.input(tainted));
          const auto made = run_builtin(call.context, filter, input, args);
          expect_safe(name + " of " + form, tainted, made);
          if (made && tainted)
            each_text(*made, [&](const auto& text) { texts += !text.taint.empty(); });
        }
      }
    }
  }
  EXPECT_GT(texts, 40);
}

std::vector<Value> method_arguments(Call& call, const std::string& name, const std::string& form) {
  for (const std::string needs_text :
       {"startswith", "endswith", "find", "rfind", "count", "removeprefix", "removesuffix", "get",
        "partition", "rpartition"})
    if (name == needs_text) return {call.own("1")};
  if (name == "replace") return {call.own(" "), call.own("1")};
  if (name == "index" || name == "rindex") return {call.own(form == "list" ? "1" : " ")};
  if (name == "join") return {Value::of(call.context.heap().list({call.own("1"), call.own("2")}))};
  return {};
}

TEST(Taint, EveryMethodIsSafe) {
  int texts = 0;
  for (const auto& [table, form] :
       {std::pair{string_methods(), "text"}, {list_methods(), "list"}, {dict_methods(), "dict"}}) {
    EXPECT_FALSE(table.empty());
    for (const auto& [method, run] : table) {
      if (run == nullptr) continue;
      for (const bool tainted : {true, false}) {
        Call call;
        const std::string name(method);
        const Args args{{}, method, method_arguments(call, name, form), {}};
        const auto made =
            call_method(call.context, Method{formed(call, form, call.input(tainted)), name}, args);
        expect_safe(name + " of " + form, tainted, made);
        if (made && tainted)
          each_text(*made, [&](const auto& text) { texts += !text.taint.empty(); });
      }
    }
  }
  EXPECT_GT(texts, 15);
}

TEST(Taint, EveryFunctionIsSafe) {
  Call call;
  const Value tainted = call.input(true);
  const Value format = call.context.heap().text(TrackedText{"%Y", {{0, 2}}});
  expect_safe("dict", true,
              call_function(call.context, Function::dict, {{}, "dict", {}, {{"1", tainted}}}));
  expect_safe(
      "strftime_now", true,
      call_function(call.context, Function::strftime_now, {{}, "strftime_now", {format}, {}}));
  expect_safe("strftime_now", false,
              call_function(call.context, Function::strftime_now,
                            {{}, "strftime_now", {call.own("%Y")}, {}}));
}

// A new operation whose author did not think of taint.
TEST(Taint, AnOperationThatIgnoresTaintIsSafe) {
  constexpr Builtin doubled{"doubled", [](Context& c, const Value&, const Args& args) {
                              const Value one = c.heap().text("kk");
                              const auto two = c.text(args.at, std::string("kk"));
                              return c.list(args.at, std::vector<Value>{one, two.value()});
                            }};
  for (const std::string form : {"text", "list", "dict", "nested"}) {
    for (const bool tainted : {true, false}) {
      Call call;
      const Value input = formed(call, form, call.input(tainted));
      expect_safe("of " + form, tainted, run_builtin(call.context, doubled, input, {}));
      // The same with the text as an argument, by position and by name.
      const Args by_position{{}, "doubled", {input}, {}},
          by_name{{}, "doubled", {}, {{"x", input}}};
      expect_safe("to " + form, tainted,
                  run_builtin(call.context, doubled, call.own("1"), by_position));
      expect_safe("named " + form, tainted,
                  run_builtin(call.context, doubled, call.own("1"), by_name));
    }
  }
  Call call;  // outside of any operation
  expect_safe("alone", true, call.context.text({}, std::string("kk")));
  // A value that may lead to a message counts as one.
  Space space;
  space.attributes.emplace("x", call.input(true));
  const Value hidden =
      Value::of(call.context.heap().list({Value::of(call.context.heap().space(space))}));
  expect_safe("hidden", true, run_builtin(call.context, doubled, hidden, {}));
}

}  // namespace
}  // namespace millrace::chat_template
