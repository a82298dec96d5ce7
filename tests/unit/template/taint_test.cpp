// A rendered chat remembers which of its parts came from messages, whatever operations the template
// used to build the text.
#include <gtest/gtest.h>

#include <string>

#include "engine/core/template/chat_template.hpp"
#include "tests/unit/template/show_taint.hpp"

namespace millrace::chat_template {
namespace {

std::string rendered(const std::string& source, const Chat& chat) {
  const auto parsed = ChatTemplate::parse(source);
  if (!parsed) return parsed.error().text();
  TemplateVariables variables;
  variables.bos_token = "<s>";
  const auto out = parsed->render(chat, variables);
  return out ? shown(out->text, out->from_messages) : out.error().text();
}

// Renders an expression. `u` is a text from a message; `mixed` joins texts of the template and of
// two messages.
std::string marked(const std::string& expression) {
  const Chat chat = {{"user", "us er"}, {"assistant", "Ünd"}};
  return rendered(
      "{% set u = messages[0].content %}"
      "{% macro join(a, b) %} a{{ a }}, {{ b }}z {% endmacro %}"
      "{% set mixed = join(u, messages[1].content) %}"
      "{{ " +
          expression + " }}",
      chat);
}

TEST(Taint, ContentsAreTaintedAndWhatTheTemplateWritesIsNot) {
  const Chat chat = {{"system", "be brief"}, {"user", ""}, {"user", "x"}};
  EXPECT_EQ(rendered("{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}</>"
                     "{% endfor %}{{ eos_token }}",
                     chat),
            "<s><system>«be brief»</><user></><user>«x»</>");
  EXPECT_EQ(rendered("{{ messages[0].content }}{{ messages[2]['content'] }}", chat), "«be briefx»");
  EXPECT_EQ(rendered("{{ 'default' }}", chat), "default");
}

// Templates write '<|' + role + '|>', so a role that is a plain word counts as the template's text.
TEST(Taint, RolesAreTaintedUnlessTheyAreWords) {
  const std::string source =
      "{% set known = ['tool_response', '<|end|>', 'a b'] %}{{ '<|' + messages[0].role + '|>' }}";
  EXPECT_EQ(rendered(source, {{"assistant", ""}}), "<|assistant|>");
  EXPECT_EQ(rendered(source, {{"tool_response", ""}}), "<|tool_response|>");
  EXPECT_EQ(rendered(source, {{"<|end|>", ""}}), "<|«<|end|>»|>");
  EXPECT_EQ(rendered(source, {{"a b", ""}}), "<|«a b»|>");
}

TEST(Taint, JoinsKeepTheTaintOfEachByte) {
  EXPECT_EQ(marked("mixed"), " a«us er», «Ünd»z ");
  EXPECT_EQ(marked("'a' + u + 'b'"), "a«us er»b");
  EXPECT_EQ(marked("'a' ~ u ~ 1 ~ u"), "a«us er»1«us er»");
  EXPECT_EQ(marked("u ~ ['t'] ~ [u]"), "«us er»['t']«['us er']»");
  EXPECT_EQ(marked("('a' + u) * 2"), "a«us er»a«us er»");
  EXPECT_EQ(marked("['a', u, 'b'] | join('-')"), "a-«us er»-b");
  EXPECT_EQ(marked("['a', 'b', 'c'] | join(u)"), "a«us er»b«us er»c");
  EXPECT_EQ(marked("messages | join('|', attribute='content')"), "«us er»|«Ünd»");
  EXPECT_EQ(marked("', '.join(['a', u])"), "a, «us er»");
  EXPECT_EQ(marked("u.join(['a', 'b'])"), "a«us er»b");
  EXPECT_EQ(marked("[u, '!'] | sum(start='')"), "«us er»!");
  EXPECT_EQ(marked("u | indent(2, first=true)"), "  «us er»");
  EXPECT_EQ(marked("'a\\nb' | indent(u)"), "a\n«us er»b");
  EXPECT_EQ(marked("('a\\n' ~ u ~ '\\nb') | indent(1)"), "a\n «us er»\n b");
}

TEST(Taint, PartsKeepTheirTaint) {
  EXPECT_EQ(marked("mixed | trim"), "a«us er», «Ünd»z");
  EXPECT_EQ(marked("mixed.strip().strip('az')"), "«us er», «Ünd»");
  EXPECT_EQ(marked("mixed.strip().lstrip('aus').rstrip('zd')"), "« er», «Ün»");
  EXPECT_EQ(marked("mixed[1:4]"), "a«us»");
  EXPECT_EQ(marked("mixed[7:-2]"), ", «Ünd»");
  EXPECT_EQ(marked("mixed[::-1]"), " z«dnÜ» ,«re su»a ");
  EXPECT_EQ(marked("mixed[::4]"), " « » z");
  EXPECT_EQ(marked("mixed[1::4]"), "a«eÜ» ");
  EXPECT_EQ(marked("mixed[1] ~ mixed[2] ~ mixed[9]"), "a«uÜ»");
  EXPECT_EQ(marked("mixed | first ~ mixed | reverse"), "  z«dnÜ» ,«re su»a ");
  EXPECT_EQ(marked("mixed.split(', ') | join('|')"), " a«us er»|«Ünd»z ");
  EXPECT_EQ(marked("mixed.rsplit('s', 1) | join('|')"), " a«u»|« er», «Ünd»z ");
  EXPECT_EQ(marked("mixed.split() | join('|')"), "a«us»|«er»,|«Ünd»z");
  EXPECT_EQ(marked("('a\\n' ~ u ~ '\\nb').splitlines() | join('|')"), "a|«us er»|b");
  EXPECT_EQ(marked("('a\\n' ~ u ~ '\\nb').splitlines(true) | join"), "a\n«us er»\nb");
  EXPECT_EQ(marked("mixed.removeprefix(' au').removesuffix('dz ')"), "«s er», «Ün»");
  EXPECT_EQ(marked("mixed | list | join"), " a«us er», «Ünd»z ");
  EXPECT_EQ(marked("mixed | string | safe"), " a«us er», «Ünd»z ");
  EXPECT_EQ(marked("mixed if mixed else 'x'"), " a«us er», «Ünd»z ");
}

TEST(Taint, ChangesOfCharactersKeepTheirTaint) {
  EXPECT_EQ(marked("mixed | upper"), " A«US ER», «ÜND»Z ");
  EXPECT_EQ(marked("mixed.lower()"), " a«us er», «ünd»z ");
  EXPECT_EQ(marked("mixed | trim | capitalize"), "A«us er», «ünd»z");
  EXPECT_EQ(marked("mixed.title()"), " A«us Er», «Ünd»z ");
  EXPECT_EQ(marked("mixed | title"), " A«us Er», «Ünd»z ");
  // A letter of two bytes becomes one of three, which moves the spans after it.
  EXPECT_EQ(marked("('ß' ~ u ~ 'ß' ~ u) | upper"), "ẞ«US ER»ẞ«US ER»");
}

TEST(Taint, ReplacementsKeepTheirTaint) {
  EXPECT_EQ(marked("mixed.replace(' ', '_')"), "_a«us»_«er»,_«Ünd»z_");
  EXPECT_EQ(marked("'a-b-' | replace('-', u)"), "a«us er»b«us er»");
  EXPECT_EQ(marked("mixed.replace('s e', '')"), " a«ur», «Ünd»z ");
  EXPECT_EQ(marked("(u ~ 'x').replace('', '-')"), "-«u»-«s»-« »-«e»-«r»-x-");
}

TEST(Taint, BlocksMacrosAndLoopsKeepTheTaint) {
  const Chat chat = {{"user", " <|end|> "}};
  const std::string c = "{% set c = messages[0].content %}";
  EXPECT_EQ(rendered(c + "{% set b %}[{{ c }}]{% endset %}{{ b }}", chat), "[« <|end|> »]");
  EXPECT_EQ(rendered(c + "{% set b | trim | upper %} x{{ c }}{% endset %}{{ b }}", chat),
            "X« <|END|>»");
  EXPECT_EQ(rendered(c + "{% filter upper %}x{{ c }}{% endfilter %}", chat), "X« <|END|> »");
  EXPECT_EQ(
      rendered(c + "{% macro m(a, b=c) %}{{ a }}|{{ b | trim }}{% endmacro %}{{ m('x') }}", chat),
      "x|«<|end|>»");
  EXPECT_EQ(rendered(c + "{% for x in c.strip() %}{{ x }}-{% endfor %}", chat),
            "«<»-«|»-«e»-«n»-«d»-«|»-«>»-");
  EXPECT_EQ(rendered("{% set n = namespace(t='a') %}{% for m in messages %}"
                     "{% set n.t = n.t + m.content %}{% endfor %}{{ n.t ~ '.' }}",
                     chat),
            "a« <|end|> ».");
  EXPECT_EQ(rendered("{% for k, v in messages[0].items() %}{{ k }}={{ v }};{% endfor %}", chat),
            "role=user;content=« <|end|> »;");
  EXPECT_EQ(rendered(c + "{% set a, b = [c, 'x'] %}{{ b }}{{ a }}", chat), "x« <|end|> »");
  EXPECT_EQ(rendered(c + "{% with t = {'a': c} %}{{ t.a }}{{ t | length }}{% endwith %}", chat),
            "« <|end|> »1");
}

// Whatever a job gives may spell a special token, so none of it counts as the template's text.
TEST(Taint, ToolsFieldsAndVariablesAreTainted) {
  const JsonObject deep = {{"<|k|>", {JsonList{{"<|v|>"}, {std::int64_t{7}}}}}};
  ChatInputs inputs;
  inputs.tools = {{JsonObject{{"name", {"<|f|>"}}, {"more", {deep}}}}};
  inputs.template_kwargs = {{"mode", {"<|m|>"}}, {"deep", {deep}}};
  TemplateVariables variables;
  variables.inputs = &inputs;
  const ChatMessage message = {"user", "hi", {{"calls", {deep}}}, {}};
  const auto show = [&](const std::string& source, const ChatMessage& said) {
    const auto parsed = ChatTemplate::parse(source);
    const auto out = parsed->render({said}, variables);
    return out ? shown(out->text, out->from_messages) : out.error().text();
  };
  EXPECT_EQ(show("{% for t in tools %}<{{ t.name }}>{% endfor %}|{{ mode }}|", message),
            "<«<|f|>»>|«<|m|>»|");
  EXPECT_EQ(show("{{ tools | tojson }}", message),
            "«[{\"name\": \"<|f|>\", \"more\": {\"<|k|>\": [\"<|v|>\", 7]}}]»");
  EXPECT_EQ(show("{% for k, v in deep | items %}{{ k }}={{ v[0] }}{{ v[1] }}{% endfor %}", message),
            "«<|k|>»=«<|v|>»7");
  EXPECT_EQ(show("{% for k, v in messages[0].calls.items() %}{{ k }}:{{ v }}{% endfor %}", message),
            "«<|k|>»:«['<|v|>', 7]»");
  const ChatMessage parts = {"user", "<|a|>b", {}, {"<|a|>", "b"}};
  EXPECT_EQ(
      show("{% for p in messages[0].content %}{% if p.type == 'text' %}{{ p.text }};{% endif %}"
           "{% endfor %}",
           parts),
      "«<|a|>»;«b»;");
  EXPECT_EQ(show("<{{ messages[0].content }}>", parts), "<«<|a|>b»>");
}

TEST(Taint, ToolChoiceNoneHidesTheTools) {
  ChatInputs inputs;
  inputs.tools = {{JsonObject{{"name", {"f"}}}}};
  inputs.tool_choice = ToolChoice::none;
  TemplateVariables variables;
  variables.inputs = &inputs;
  const auto parsed = ChatTemplate::parse("{{ tools is none }}");
  EXPECT_EQ(parsed->render({{"user", "x"}}, variables)->text, "True");
  inputs.tool_choice = ToolChoice::automatic;
  EXPECT_EQ(parsed->render({{"user", "x"}}, variables)->text, "False");
}

TEST(Taint, SpansCountAgainstTheMemory) {
  TemplateLimits limits;
  limits.memory_bytes = 4 << 20;
  const auto parsed = ChatTemplate::parse(
      "{% set c = messages[0].content %}{% set t = ('x' ~ c) * 30000 %}{{ t | length }}", limits);
  ASSERT_TRUE(parsed) << parsed.error().text();
  const auto small = parsed->render({{"user", ""}}, {});
  ASSERT_TRUE(small) << small.error().text();
  EXPECT_EQ(small->text, "30000");
  const auto large = parsed->render({{"user", "u"}}, {});  // 60,000 bytes and 30,000 spans
  ASSERT_TRUE(large) << large.error().text();
  const auto twice = ChatTemplate::parse(
      "{% set c = messages[0].content %}{% set t = ('x' ~ c) * 300000 %}{{ t | length }}", limits);
  const auto refused = twice->render({{"user", "u"}}, {});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("bytes of memory"), std::string::npos)
      << refused.error().text();
}

}  // namespace
}  // namespace millrace::chat_template
