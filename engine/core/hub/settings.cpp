#include "engine/core/hub/settings.hpp"

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/core/gguf/bytes.hpp"
#include "engine/core/gguf/cursor.hpp"

namespace millrace::engine {

using nlohmann::json;

struct Settings::State {
  json values = json::object();
  std::string source;
};

namespace {

constexpr std::string_view infinity = "Infinity", float_key = "__float__";

// JSON has no infinity: writes it as newer files do.
std::string without_infinity(std::string_view text) {
  std::string out;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      out += text.substr(i++, 2);
      continue;
    }
    if (text[i] == '"') quoted = !quoted;
    if (!quoted && text.substr(i).starts_with(infinity)) {
      out += R"({"__float__": "Infinity"})";
      i += infinity.size() - 1;
      continue;
    }
    out += text[i];
  }
  return out;
}

// Whether a value is infinity, as an object.
bool is_infinity(const json& value) {
  return value.is_object() && value.size() == 1 && value.contains(float_key) &&
         value[std::string(float_key)] == infinity;
}

}  // namespace

Result<std::string> read_folder_file(const std::string& path) {
  auto bytes = map_file(path);
  if (!bytes) {
    return fail(Code::folder_unreadable, bytes.error().message,
                "download the model's folder again, with all its files");
  }
  return std::string(text_of((*bytes)->view()));
}

Settings::Settings() : state_(std::make_shared<State>()) {}

Result<Settings> Settings::parse(std::string_view text, std::string source) {
  auto state = std::make_shared<State>();
  const bool is_plain = text.find(infinity) == std::string_view::npos;
  state->values =
      json::parse(is_plain ? std::string(text) : without_infinity(text), nullptr, false);
  state->source = std::move(source);
  if (!state->values.is_object()) {
    return fail(Code::folder_malformed, state->source + ": is not a JSON object",
                "download the file again");
  }
  return Settings(std::move(state));
}

Result<Settings> Settings::read(const std::string& path) {
  MILLRACE_ASSIGN(const std::string text, read_folder_file(path));
  return parse(text, path);
}

Result<Settings> Settings::read_if_there(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return Settings();
  return read(path);
}

const std::string& Settings::source() const {
  return state_->source;
}

bool Settings::has(std::string_view key) const {
  const auto found = state_->values.find(key);
  return found != state_->values.end() && !found->is_null();
}

bool Settings::is_object(std::string_view key) const {
  return has(key) && state_->values.find(key)->is_object();
}

bool Settings::is_text(std::string_view key) const {
  return has(key) && state_->values.find(key)->is_string();
}

std::vector<std::string> Settings::keys() const {
  std::vector<std::string> out;
  for (const auto& item : state_->values.items()) out.push_back(item.key());
  return out;
}

Error Settings::absent(std::string_view key) const {
  return {Code::folder_malformed, state_->source + ": the key '" + std::string(key) + "' is absent",
          "download the model's folder again"};
}

Error Settings::wrong(std::string_view key, std::string_view wanted) const {
  std::string value = state_->values.find(key)->dump(-1, ' ', true, json::error_handler_t::replace);
  return {Code::folder_malformed,
          state_->source + ": the key '" + std::string(key) + "' is " + printable(value) +
              ", wanted " + std::string(wanted),
          "download the model's folder again"};
}

namespace {

// Reads one value; false if it has another type or does not fit.
bool read_value(const json& value, std::uint32_t& out) {
  // Some files write whole numbers as 32.0.
  if (!value.is_number()) return false;
  const double number = value.get<double>();
  if (!(number >= 0 && number <= 4294967295.0) || number != std::floor(number)) return false;
  out = static_cast<std::uint32_t>(number);
  return true;
}

bool read_value(const json& value, double& out) {
  if (!value.is_number()) return false;
  out = value.get<double>();
  return std::isfinite(out);
}

bool read_value(const json& value, bool& out) {
  if (!value.is_boolean()) return false;
  out = value.get<bool>();
  return true;
}

bool read_value(const json& value, std::string& out) {
  if (!value.is_string()) return false;
  out = value.get<std::string>();
  return true;
}

template <class T>
bool read_value(const json& value, std::vector<T>& out) {
  if (!value.is_array()) return false;
  for (const json& each : value) {
    T element{};
    if constexpr (std::is_same_v<T, double>) {
      if (is_infinity(each)) {
        out.push_back(std::numeric_limits<double>::infinity());
        continue;
      }
    }
    if (!read_value(each, element)) return false;
    out.push_back(std::move(element));
  }
  return true;
}

template <class T>
constexpr std::string_view wanted = "a list of numbers";
template <>
constexpr std::string_view wanted<std::uint32_t> = "a whole number of 32 bits";
template <>
constexpr std::string_view wanted<double> = "a number";
template <>
constexpr std::string_view wanted<bool> = "true or false";
template <>
constexpr std::string_view wanted<std::string> = "text";
template <>
constexpr std::string_view wanted<std::vector<std::string>> = "a list of texts";

}  // namespace

template <class T>
Result<std::optional<T>> Settings::find(std::string_view key) const {
  if (!has(key)) return std::optional<T>();
  T value{};
  if (read_value(*state_->values.find(key), value)) return std::optional<T>(std::move(value));
  return std::unexpected(wrong(key, wanted<T>));
}

template Result<std::optional<std::uint32_t>> Settings::find(std::string_view) const;
template Result<std::optional<double>> Settings::find(std::string_view) const;
template Result<std::optional<bool>> Settings::find(std::string_view) const;
template Result<std::optional<std::string>> Settings::find(std::string_view) const;
template Result<std::optional<std::vector<std::uint32_t>>> Settings::find(std::string_view) const;
template Result<std::optional<std::vector<double>>> Settings::find(std::string_view) const;
template Result<std::optional<std::vector<std::string>>> Settings::find(std::string_view) const;

Result<Settings> Settings::object(std::string_view key) const {
  auto state = std::make_shared<State>();
  state->source = state_->source + ": " + std::string(key);
  if (has(key)) state->values = *state_->values.find(key);
  if (!state->values.is_object()) return std::unexpected(wrong(key, "an object"));
  return Settings(std::move(state));
}

Result<std::string> Settings::named_text(std::string_view key, std::string_view text) const {
  if (!has(key)) return std::unexpected(absent(key));
  const json* found = &*state_->values.find(key);
  if (found->is_array() && !found->empty()) {
    const json* chosen = &found->front();
    for (const json& each : *found) {
      if (each.is_object() && each.contains("name") && each["name"] == "default") chosen = &each;
    }
    if (chosen->is_object() && chosen->contains(text)) found = &*chosen->find(text);
  }
  std::string out;
  if (!read_value(*found, out)) return std::unexpected(wrong(key, wanted<std::string>));
  return out;
}

Settings Settings::with(const Settings& other) const {
  auto state = std::make_shared<State>(*state_);
  for (const auto& item : other.state_->values.items()) state->values[item.key()] = item.value();
  return Settings(std::move(state));
}

Settings Settings::named(std::string source) const {
  auto state = std::make_shared<State>(*state_);
  state->source = std::move(source);
  return Settings(std::move(state));
}

Settings Settings::renamed(std::string_view from, std::string_view to) const {
  auto state = std::make_shared<State>();
  if (has(from)) state->values[std::string(to)] = *state_->values.find(from);
  return Settings(std::move(state));
}

}  // namespace millrace::engine
