// The functions that transformers gives a template: range, namespace, dict, raise_exception and
// strftime_now.
#include <array>
#include <cstdio>

#include "engine/core/template/builtins.hpp"

namespace millrace::chat_template {
namespace {

constexpr std::size_t max_range = 100'000;  // as in Jinja's sandbox

Result<Value> range(Context& c, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<3>(args, {"start", "stop", "step"}));
  if (!a[0]) return c.wrong(args.at, "'range' needs a number");
  for (const auto& one : a)
    if (one && !one->is_integer()) return c.wrong(args.at, "'range' needs integers");
  const std::int64_t start = a[1] ? a[0]->as_integer() : 0;
  const std::int64_t stop = a[1] ? a[1]->as_integer() : a[0]->as_integer();
  const std::int64_t step = a[2] ? a[2]->as_integer() : 1;
  if (step == 0) return c.wrong(args.at, "'range' has a step of zero");
  ListDraft out(c);
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (out.items().size() == max_range)
      return c.wrong(args.at, "the range has more than " + std::to_string(max_range) + " numbers");
    MILLRACE_TRY(out.append(args.at, Value::of(i)));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return c.list(args.at, std::move(out));
}

Result<Value> make_namespace(Context& c, const Args& args) {
  if (args.positional.size() > 1 ||
      (args.positional.size() == 1 && !args.positional[0].is(Kind::dict)))
    return c.wrong(args.at, "'namespace' takes named values and at most one dict");
  Space& space = *c.heap().space({});
  if (!args.positional.empty())
    for (const auto& [key, value] : args.positional[0].dict->items) {
      if (!key.is(Kind::string))
        return c.wrong(args.at, "the names in a namespace must be strings");
      MILLRACE_TRY(c.set_attribute(args.at, space, *key.string, value));
    }
  for (const auto& [name, value] : args.named)
    MILLRACE_TRY(c.set_attribute(args.at, space, name, value));
  return Value::of(&space);
}

// dict(a=1), dict(pairs or dict, b=2)
Result<Value> make_dict(Context& c, const Args& args) {
  if (args.positional.size() > 1) return c.wrong(args.at, "'dict' takes at most one value");
  DictDraft out(c);
  if (!args.positional.empty()) {
    const Value& given = args.positional[0];
    MILLRACE_ASSIGN(const auto items, c.iterate(args.at, given));
    for (std::size_t i = 0; i < items.size(); ++i) {
      const bool pair = items[i].is_sequence() && items[i].list->items.size() == 2;
      if (given.is(Kind::dict)) {
        MILLRACE_TRY(out.put(args.at, items[i], given.dict->items[i].second));
      } else if (pair) {
        MILLRACE_TRY(out.put(args.at, items[i].list->items[0], items[i].list->items[1]));
      } else {
        return c.wrong(args.at, "'dict' needs pairs of a key and a value");
      }
    }
  }
  for (const auto& [name, value] : args.named) {
    MILLRACE_ASSIGN(const Value key, c.text(args.at, TrackedView{name}));
    MILLRACE_TRY(out.put(args.at, key, value));
  }
  return std::move(out).take();
}

Result<Value> raise_exception(Context& c, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"message"}));
  MILLRACE_ASSIGN(const Value message, c.to_text(args.at, a[0] ? *a[0] : Value::none()));
  return fail(Code::template_error, "the chat template refused the messages: " + *message.string,
              "change the messages' roles or order as the template asks");
}

struct Date {
  std::int64_t year;
  int month, day;  // from 1
  int hour, minute, second;
  int weekday;   // 0 is Sunday
  int year_day;  // from 1
};

// Converts Unix time to a date of the Gregorian calendar. It counts in years that begin in March,
// so that the leap day is a year's last day.
Date date_of(std::int64_t unix_s) {
  std::int64_t days = unix_s / 86'400, seconds = unix_s % 86'400;
  if (seconds < 0) seconds += 86'400, --days;
  const std::int64_t shifted = days + 719'468;  // since 0000-03-01
  const std::int64_t era = (shifted >= 0 ? shifted : shifted - 146'096) / 146'097;
  const std::int64_t day_of_era = shifted - era * 146'097;
  const std::int64_t year_of_era =
      (day_of_era - day_of_era / 1'460 + day_of_era / 36'524 - day_of_era / 146'096) / 365;
  const std::int64_t day_of_year =
      day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const std::int64_t march_month = (5 * day_of_year + 2) / 153;
  Date d{};
  d.day = static_cast<int>(day_of_year - (153 * march_month + 2) / 5 + 1);
  d.month = static_cast<int>(march_month < 10 ? march_month + 3 : march_month - 9);
  d.year = year_of_era + era * 400 + (d.month <= 2 ? 1 : 0);
  d.hour = static_cast<int>(seconds / 3'600);
  d.minute = static_cast<int>(seconds / 60 % 60);
  d.second = static_cast<int>(seconds % 60);
  d.weekday = static_cast<int>(((days + 4) % 7 + 7) % 7);
  const bool leap = (d.year % 4 == 0 && d.year % 100 != 0) || d.year % 400 == 0;
  constexpr int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
  d.year_day = before[d.month - 1] + d.day + (leap && d.month > 2 ? 1 : 0);
  return d;
}

std::string padded(std::int64_t value, int width) {
  std::array<char, 32> buffer{};
  const int n =
      std::snprintf(buffer.data(), buffer.size(), "%0*lld", width, static_cast<long long>(value));
  return std::string(buffer.data(), static_cast<std::size_t>(n));
}

// Writes one conversion of strftime in the C locale; returns nothing if it is not supported.
std::optional<std::string> conversion(const Date& d, char letter) {
  constexpr std::string_view months[] = {"January",   "February", "March",    "April",
                                         "May",       "June",     "July",     "August",
                                         "September", "October",  "November", "December"};
  constexpr std::string_view weekdays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                           "Thursday", "Friday", "Saturday"};
  const std::string_view month = months[d.month - 1], weekday = weekdays[d.weekday];
  switch (letter) {
    case 'd':
      return padded(d.day, 2);
    case 'm':
      return padded(d.month, 2);
    case 'y':
      return padded(d.year % 100, 2);
    case 'Y':
      return std::to_string(d.year);
    case 'b':
      return std::string(month.substr(0, 3));
    case 'B':
      return std::string(month);
    case 'a':
      return std::string(weekday.substr(0, 3));
    case 'A':
      return std::string(weekday);
    case 'j':
      return padded(d.year_day, 3);
    case 'H':
      return padded(d.hour, 2);
    case 'I':
      return padded((d.hour + 11) % 12 + 1, 2);
    case 'M':
      return padded(d.minute, 2);
    case 'S':
      return padded(d.second, 2);
    case 'p':
      return d.hour < 12 ? "AM" : "PM";
    case 'F':
      return padded(d.year, 4) + "-" + padded(d.month, 2) + "-" + padded(d.day, 2);
    case 'T':
      return padded(d.hour, 2) + ":" + padded(d.minute, 2) + ":" + padded(d.second, 2);
    case '%':
      return "%";
    default:
      return std::nullopt;
  }
}

Result<Value> strftime_now(Context& c, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"format"}));
  if (!a[0]) return c.wrong(args.at, "'strftime_now' needs a format");
  MILLRACE_ASSIGN(const std::string_view format, text_argument(args, a[0], "format", {}));
  const Date now = date_of(c.now_s());
  const bool tainted = c.heap().taints();
  TextDraft out(c);
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      MILLRACE_TRY(out.append(args.at, format.substr(i, 1), tainted));
      continue;
    }
    const auto made = conversion(now, format[++i]);
    if (!made) return c.unsupported(args.at, std::string("'%") + format[i] + "' of 'strftime_now'");
    MILLRACE_TRY(out.append(args.at, *made, tainted));
  }
  return c.text(args.at, std::move(out));
}

}  // namespace

std::optional<Value> find_function(std::string_view name) {
  if (name == "range") return Value::of(Function::range);
  if (name == "namespace") return Value::of(Function::make_namespace);
  if (name == "dict") return Value::of(Function::dict);
  if (name == "raise_exception") return Value::of(Function::raise_exception);
  if (name == "strftime_now") return Value::of(Function::strftime_now);
  return std::nullopt;
}

Result<Value> call_function(Context& c, Function function, const Args& args) {
  const TaintScope scope(c.heap(), is_tainted(args));
  MILLRACE_TRY(spend_call(c, Value(), args));
  switch (function) {
    case Function::range:
      return range(c, args);
    case Function::make_namespace:
      return make_namespace(c, args);
    case Function::dict:
      return make_dict(c, args);
    case Function::raise_exception:
      return raise_exception(c, args);
    case Function::strftime_now:
      return strftime_now(c, args);
  }
  return c.wrong(args.at, "an unknown function");
}

}  // namespace millrace::chat_template
