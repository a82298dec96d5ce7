#include "engine/supervise/fleet.hpp"

#include <algorithm>
#include <utility>

#include "engine/supervise/device_list.hpp"

namespace millrace::supervise {
namespace {

constexpr std::size_t longest_line = 65'536;

// Marks a line of one engine's log among those of others; a JSON object gets a field.
std::string tagged(const std::string& tag, std::string_view line) {
  std::string out;
  if (tag.empty()) {
    out = line;
  } else if (line.starts_with("{\"")) {
    out = "{\"engine\":\"" + tag + "\"," + std::string(line.substr(1));
  } else {
    out = "[" + tag + "] " + std::string(line);
  }
  return out + "\n";
}

}  // namespace

Fleet::Member::Member(std::string tag_text, std::string name_text, SupervisorOptions options,
                      const Clock& clock, SupervisorHooks hooks)
    : tag(std::move(tag_text)),
      name(std::move(name_text)),
      supervisor(std::move(options), clock, std::move(hooks)) {}

Fleet::Fleet(FleetOptions options, const Clock& clock, FleetHooks hooks)
    : options_(std::move(options)), clock_(clock), hooks_(std::move(hooks)) {}

void Fleet::add(const std::string& device, const std::string& tag, const std::string& name) {
  SupervisorOptions engine;
  engine.program = options_.program;
  engine.arguments = options_.arguments;
  engine.log_path = options_.log_path;
  engine.patience = options_.patience;
  if (!device.empty()) engine.arguments.insert(engine.arguments.end(), {"--device", device});
  engine.arguments.insert(engine.arguments.end(), {"--name", name});
  if (options_.more_arguments) {
    for (std::string& word : options_.more_arguments(members_.size())) {
      engine.arguments.push_back(std::move(word));
    }
  }
  if (!tag.empty()) engine.what = "the engine on " + tag;
  const std::size_t at = members_.size();
  SupervisorHooks hooks;
  hooks.died = [this, at] {
    if (!members_[at].line.empty()) static_cast<void>(keep(members_[at], "\n"));
    hooks_.died(members_[at].name);
  };
  hooks.trouble = hooks_.trouble;
  hooks.output = [this, at](const std::string& text) { return keep(members_[at], text); };
  members_.emplace_back(tag, name, std::move(engine), clock_, std::move(hooks));
}

Status Fleet::start() {
  if (options_.devices.empty()) {
    add(options_.device, "", options_.name);
  } else {
    std::vector<std::string> arguments = options_.arguments;
    if (!options_.device.empty()) {
      arguments.insert(arguments.end(), {"--device", options_.device});
    }
    arguments.insert(arguments.end(), {"--devices", options_.devices});
    MILLRACE_ASSIGN(const auto devices, list_devices(options_.program, std::move(arguments)));
    for (const NamedDevice& device : devices) {
      add(device.argument, device.id, options_.name + ":" + device.id);
    }
  }
  for (Member& member : members_) MILLRACE_TRY(member.supervisor.start());
  return {};
}

Status Fleet::keep(Member& member, const std::string& text) {
  member.line += text;
  std::string whole;
  std::size_t at = 0;
  for (std::size_t end; (end = member.line.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string_view line = std::string_view(member.line).substr(at, end - at);
    if (line == joined_line) {
      member.supervisor.joined();
    } else {
      whole += tagged(member.tag, line);
    }
  }
  member.line.erase(0, at);
  if (member.line.size() > longest_line)
    whole += tagged(member.tag, std::exchange(member.line, {}));
  return whole.empty() ? Status() : hooks_.log(whole);
}

Status Fleet::tick() {
  Status last;
  for (Member& member : members_) {
    if (member.supervisor.over()) continue;
    if (Status status = member.supervisor.tick(); !status) {
      ++given_up_;
      untold_.push_back(status.error());
      last = std::move(status);
    }
  }
  if (!last && over()) return last;
  if (std::ranges::any_of(members_, [](Member& m) { return m.supervisor.has_joined(); })) {
    tell_given_up();
  }
  return {};
}

// An error that all engines share is the command's error, and not told for each.
void Fleet::tell_given_up() {
  for (Error& error : std::exchange(untold_, {})) {
    error.message = "an engine is given up, the others go on: " + error.message;
    hooks_.trouble("engine_given_up", error);
  }
}

Fleet::Member* Fleet::find(const std::string& name) {
  const auto found = std::ranges::find(members_, name, &Member::name);
  return found == members_.end() ? nullptr : &*found;
}

void Fleet::joined(const std::string& name) {
  if (Member* const member = find(name)) member->supervisor.joined();
}

void Fleet::hung(const std::string& name) {
  if (Member* const member = find(name)) member->supervisor.hung();
}

void Fleet::silent(const std::string& name) {
  if (Member* const member = find(name); member != nullptr && member->supervisor.has_joined()) {
    member->supervisor.hung();
  }
}

void Fleet::drain() {
  for (Member& member : members_) member.supervisor.drain();
}

// All are told first, so that they end at the same time.
void Fleet::stop() {
  for (Member& member : members_) member.supervisor.drain();
  for (Member& member : members_) member.supervisor.stop();
}

bool Fleet::over() const {
  return std::ranges::all_of(members_, [](const Member& m) { return m.supervisor.over(); });
}

std::uint32_t Fleet::starts() const {
  std::uint32_t starts = 0;
  for (const Member& member : members_) starts += member.supervisor.starts();
  return starts;
}

}  // namespace millrace::supervise
